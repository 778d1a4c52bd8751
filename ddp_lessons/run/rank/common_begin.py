"""Inside a rank: start the function when the other ranks do, so that start-up does not look like work or waiting.

Each rank notes in a file that it has its function. Nothing depends on that: a rank that has waited for a tenth of a
second starts without the others.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from ddp_lessons.run.wire.messages import Task

_PATIENCE_SECONDS = 0.1
_SECONDS_BETWEEN_LOOKS = 1e-4


def wait_for_the_others(file: str, rank: int, world_size: int, task: Task) -> None:
    turn, patience_ends = bytes([task.number % 255 + 1]), time.monotonic() + _PATIENCE_SECONDS
    with contextlib.suppress(OSError), _opened(file) as arrivals:
        os.pwrite(arrivals, turn, rank)
        while os.pread(arrivals, world_size, 0).count(turn) < task.asked and time.monotonic() < patience_ends:
            time.sleep(_SECONDS_BETWEEN_LOOKS)


@contextlib.contextmanager
def _opened(file: str) -> Iterator[int]:
    number = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield number
    finally:
        os.close(number)
