"""What the instructor of a shared machine allows each learner: ranks, seconds and memory.

Set them as environment variables, as JupyterHub's spawner does, or as the same lines in one file of the machine. If
both are set, the stricter one applies. This protects against accidents, not against a learner who wants to get around
it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

MACHINE_FILE = "/etc/ddp-lessons.conf"
LARGEST_WORLD = 64  # on one machine
LARGEST_ON_NODES = 512
_MOST_RANKS, _MOST_SECONDS = "DDP_LESSONS_MOST_RANKS", "DDP_LESSONS_MOST_SECONDS"
_MOST_MEMORY = "DDP_LESSONS_MOST_MEMORY"
_BYTES = re.compile(r"(\d+(?:\.\d+)?) ?([MG])i?B")


@dataclass(frozen=True)
class Limits:
    """The defaults apply on your own machine."""

    ranks: int = LARGEST_ON_NODES  # of one launch
    seconds: float | None = None  # of one run
    memory_bytes: int | None = None  # of one rank, not counting what Python and torch use before its function begins

    def allowed_seconds(self, asked: float | None) -> float | None:
        return min((each for each in (asked, self.seconds) if each is not None), default=None)

    @property
    def memory(self) -> str:
        """The amount as an instructor writes it."""
        return f"{(self.memory_bytes or 0) / 2**20:.0f} MB"


def limits() -> Limits:
    """The limits that apply now.

    Raises:
        ValueError: a limit cannot be read; the message says where it is set.
    """
    ranks = _strictest(_MOST_RANKS, "an integer, such as 4", _whole)
    seconds = _strictest(_MOST_SECONDS, "a number of seconds, such as 120", float)
    memory = _strictest(_MOST_MEMORY, "an amount with its unit, such as 600 MB or 1.5 GB", _bytes)
    most = min(LARGEST_ON_NODES, int(ranks or LARGEST_ON_NODES))
    return Limits(most, seconds, None if memory is None else int(memory))


def _strictest(name: str, kind: str, read: Callable[[str], float]) -> float | None:
    found = []
    for place, text in ((MACHINE_FILE, _lines_of_machine().get(name)), ("the environment", os.environ.get(name))):
        if not text:
            continue
        try:
            amount = read(text)
            if not 0 < amount < float("inf"):
                raise ValueError
        except ValueError:
            raise ValueError(
                f"{name} is {text!r} in {place}, but must be {kind}: ask your instructor to fix it"
            ) from None
        found.append(amount)
    return min(found, default=None)


def _lines_of_machine() -> dict[str, str]:
    """Lines of NAME=value, as systemd and Docker read them."""
    try:
        with open(MACHINE_FILE, encoding="utf-8") as file:
            pairs = [line.partition("=") for line in file if "=" in line and not line.lstrip().startswith("#")]
    except OSError:
        return {}
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def _whole(text: str) -> float:
    return int(text)


def _bytes(text: str) -> float:
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise ValueError
    return int(float(match[1]) * {"M": 2**20, "G": 2**30}[match[2]])
