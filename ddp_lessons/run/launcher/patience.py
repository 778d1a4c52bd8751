"""How much other work slows this machine down, so that it does not use up a learner's time limit.

A fixed limit allows for a machine that is twice as busy as this launch makes it. If thirty learners launch at once, a
rank gets a thirtieth of the machine, so each second of its limit lasts longer. This counts the threads that can run at
this moment, not the load average, which reacts a minute too late. On an idle machine the factor is 1.
"""

from __future__ import annotations

import contextlib
import os
import time

_ALLOWED_FOR = 2.0  # by the time limit itself
_BETWEEN_LOOKS = 0.01
_AT_MOST = 20.0  # an endless loop must be stopped even if thirty of them run


class OwnTime:
    """Seconds since it was created; those in which other work slowed the ranks count as fewer. Call it often."""

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

    def pause(self) -> None:
        """The time since it was last asked does not count."""
        now = time.monotonic()
        self._begin += now - self._seen
        self._seen = now

    def exceeds(self, patience_seconds: float | None) -> bool:
        """None: no limit."""
        seconds = self.seconds()
        return patience_seconds is not None and seconds > patience_seconds

    @property
    def on_the_wall(self) -> float:
        """The same in wall-clock seconds."""
        return time.monotonic() - self._begin


def slowness(world_size: int) -> float:
    """How many seconds now equal one on a machine where only these ranks run; at least 1."""
    able = _able_to_run()
    alone = max(world_size, os.cpu_count() or 1)  # even then they may wait for a free core
    return min(_AT_MOST, max(1.0, able / alone / _ALLOWED_FOR))


def _able_to_run() -> float:
    """Threads that run or wait for a core on the whole machine."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/loadavg") as now:
        return int(now.read().split()[3].partition("/")[0])
    with contextlib.suppress(OSError):  # macOS
        return os.getloadavg()[0]
    return 0.0
