"""A template forked from the seed of this machine: torch is imported once for all notebooks of a room.

`python -m ddp_lessons room` starts a seed and puts its socket into a variable. A notebook gets its template there, at
once and with almost no memory of its own. If there is no seed, or it imported torch with other variables, or it belongs
to another user, the notebook starts its own template.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

SEED = "DDP_LESSONS_SEED"  # the variable that holds the path of its socket
_MOST_OF_AN_ANSWER = 100
_LONGEST_WAIT = 60.0  # it answers in milliseconds, but thirty notebooks may ask at once


class Sown:
    """The process, which is not our child, with the methods of a `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._end = os.pidfd_open(pid)  # readable once the process has exited

    def poll(self) -> int | None:
        return 0 if select.select([self._end], [], [], 0)[0] else None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._end, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        if not select.select([self._end], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(["a template from the seed"], timeout or 0.0)
        return 0

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            os.close(self._end)


def ask_seed(folder: str, variables: dict[str, str], descriptors: Sequence[int]) -> Sown | None:
    """A template with this channel and this file for its stderr, or None."""
    place = os.environ.get(SEED)
    if not place or sys.platform != "linux":
        return None
    question = json.dumps({"folder": folder, "notebook": os.getpid(), "python": python_and_variables(variables)})
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as seed:
            seed.settimeout(_LONGEST_WAIT)
            seed.connect(place)
            socket.send_fds(seed, [question.encode()], list(descriptors))
            answer = seed.recv(_MOST_OF_AN_ANSWER)
            return Sown(int(answer)) if answer else None
    except (OSError, ValueError):
        return None


def python_and_variables(variables: dict[str, str]) -> list[object]:
    """What must be the same, because it affects the import of torch."""
    return [sys.executable, sys.flags.optimize, sorted(map(list, variables.items()))]
