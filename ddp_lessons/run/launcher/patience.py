"""How long the launcher waits before it decides, and how much other work slows this machine down.

A fixed time limit allows for a machine that is twice as busy as this launch makes it. If thirty learners launch at
once, a rank gets a thirtieth of the machine, so each second of its limit lasts longer. This counts the threads that can
run at this moment, not the load average, which reacts a minute too late. On an idle machine the factor is 1.
"""

from __future__ import annotations

import contextlib
import os
import time

# After these waits a message says that a rank did not answer, who failed first, or that nobody can move. Where all
# takes longer, as on the machine of the tests, DDP_LESSONS_PATIENCE=3 makes each of them three times as long.
_FACTOR = float(os.environ.get("DDP_LESSONS_PATIENCE", "1"))
SECONDS_TO_STAND_STILL = 0.25 * _FACTOR
SECONDS_TO_ANSWER = 0.1 * _FACTOR
SECONDS_TO_ANSWER_A_SIGNAL = 0.3 * _FACTOR  # after a failure it may be called stopped too soon
SECONDS_FOR_LAST_WORDS = 0.3 * _FACTOR
SECONDS_FOR_OTHER_FAILURES = 0.1 * _FACTOR  # after the first one: several ranks often fail for the same reason
SECONDS_FOR_OTHER_FAILURES_OF_A_SCRIPT = 0.3 * _FACTOR  # its ranks did not start at the same moment
SECONDS_TO_LOOK_AT_A_RANK = 5.0 * _FACTOR  # one that computes in native code may hold the GIL
SECONDS_TO_LEAVE = 1.0 * _FACTOR
SECONDS_TO_COME_BACK = 2.0 * _FACTOR
SECONDS_FOR_OTHERS_TO_STOP = 0.2 * _FACTOR  # others often come to the same line, and output has to arrive
SECONDS_TO_STOP_AGAIN = 1.0 * _FACTOR  # after them, another rank gets the prompt
SECONDS_FOR_A_NODE_TO_ANSWER = 20.0 * _FACTOR
SECONDS_TO_REACH_A_NODE = 3.0 * _FACTOR

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
