"""How slow others make this machine, so that their work does not count as a learner's.

A fixed patience allows for a machine that is as full again as this launch makes it. Where thirty launch at once a rank
has a thirtieth of that: then the seconds are counted as so much longer. What is counted is who can run at this moment,
and not the average load, which comes a minute after a room has pressed its keys, and stays a minute too long. On a
quiet machine the answer is 1, so what hangs there is refused as soon as ever.
"""

from __future__ import annotations

import contextlib
import os
import time

_ALLOWED_FOR = 2.0  # by the patience itself
_BETWEEN_LOOKS = 0.01
_AT_MOST = 20.0  # a runaway has to end, also beside thirty of them


class OwnTime:
    """Seconds since it was made, those in which others slowed the ranks counted as fewer. Ask it often."""

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._begin = self._seen = time.monotonic()
        self._counted = 0.0

    def seconds(self) -> float:
        now = time.monotonic()
        if now - self._seen >= _BETWEEN_LOOKS:
            self._counted += (now - self._seen) / slowness(self._world_size)
            self._seen = now
        return self._counted

    def exceeds(self, patience_seconds: float | None) -> bool:
        """None: any patience is long enough."""
        seconds = self.seconds()
        return patience_seconds is not None and seconds > patience_seconds

    @property
    def on_the_wall(self) -> float:
        """The same in seconds of the clock."""
        return time.monotonic() - self._begin


def slowness(world_size: int) -> float:
    """How many seconds now are worth one on a machine where only so many ranks run; at least 1."""
    able = _able_to_run()
    alone = max(world_size, os.cpu_count() or 1)  # they may wait for each other's cores there, too
    return min(_AT_MOST, max(1.0, able / alone / _ALLOWED_FOR))


def _able_to_run() -> float:
    """Threads that run or wait for a core, on the whole machine."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/loadavg") as now:
        return int(now.read().split()[3].partition("/")[0])
    with contextlib.suppress(OSError):  # macOS
        return os.getloadavg()[0]
    return 0.0
