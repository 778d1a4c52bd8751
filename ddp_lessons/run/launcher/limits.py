"""What the instructor of a shared machine allows each learner: how many ranks, and how much memory.

Set them as environment variables, as JupyterHub's spawner does, or as the same lines in one file of the machine. If
both are set, the stricter one applies. This protects against accidents, not against a learner who wants to get around
it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass

MACHINE_FILE = "/etc/ddp-lessons.conf"
LARGEST_WORLD = 64  # on one machine
LARGEST_ON_NODES = 512
_BYTES = {"MB": 2**20, "GB": 2**30}


@dataclass(frozen=True)
class Limits:
    """The defaults apply on your own machine."""

    ranks: int = LARGEST_ON_NODES  # of one launch
    memory_bytes: int | None = None  # of one rank, not counting what Python and torch use before its function begins

    @property
    def memory(self) -> str:
        """The amount as an instructor writes it."""
        return f"{(self.memory_bytes or 0) / 2**20:.0f} MB"


def limits() -> Limits:
    """The limits that apply now.

    Raises:
        ValueError: a limit cannot be read; the message says where it is set.
    """
    ranks = _strictest("DDP_LESSONS_MOST_RANKS", "a positive integer, such as 4", int)
    memory = _strictest("DDP_LESSONS_MOST_MEMORY", "an amount with its unit, such as 600 MB or 1.5 GB", _bytes)
    return Limits(min(LARGEST_ON_NODES, ranks or LARGEST_ON_NODES), memory)


def _strictest(name: str, kind: str, read: Callable[[str], int]) -> int | None:
    found = []
    for place, text in ((MACHINE_FILE, _lines_of_machine().get(name)), ("the environment", os.environ.get(name))):
        if text:
            amount = 0
            with contextlib.suppress(ValueError, KeyError, OverflowError):
                amount = read(text)
            if amount <= 0:
                raise ValueError(
                    f"{name} is {text!r} in {place}, but must be {kind}. Next: ask your instructor to fix it"
                )
            found.append(amount)
    return min(found, default=None)


def _lines_of_machine() -> dict[str, str]:
    """Lines of NAME=value, as systemd and Docker read them."""
    try:
        with open(MACHINE_FILE, encoding="utf-8") as file:
            pairs = [line.partition("=") for line in file if "=" in line and not line.startswith("#")]
    except OSError:
        return {}
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def _bytes(text: str) -> int:
    return int(float(text[:-2]) * _BYTES[text[-2:]])
