"""Inside a rank: how long its main thread had a core between its calls of torch.distributed.

A thread that sleeps, waits for data, or has to share the core, does not have it in that time. Only the main thread's
clock is read: gloo's threads handle messages while a rank sleeps.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from ddp_lessons.record.rank_record import Gap

_SHORTEST_SECONDS = 1e-4  # shorter gaps are not measured: reading the clock takes a microsecond, on some machines three


class GapClock:
    """Call `held` when a call blocks the thread, and `free` when the thread goes on."""

    def __init__(self, most: int) -> None:
        self._gaps: deque[Gap] = deque(maxlen=most)
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """The main thread is about to run the function."""
        self._gaps.clear()
        self._main = threading.get_ident()
        self._since, self._clock = now, time.thread_time()

    def held(self, now: float) -> None:
        if now - self._since >= _SHORTEST_SECONDS and threading.get_ident() == self._main:
            clock = time.thread_time()
            self._gaps.append((self._since, now, clock - self._clock))
            self._since, self._clock = now, clock

    def free(self, now: float) -> None:
        if now - self._since >= _SHORTEST_SECONDS and threading.get_ident() == self._main:
            self._since, self._clock = now, time.thread_time()

    def gaps(self, now: float) -> tuple[Gap, ...]:
        """The newest gaps, including the current one. Any thread may call it."""
        since, before = self._since, self._clock
        clock = self._main_clock()
        return (*self._gaps, *([] if clock is None else [(since, now, clock - before)]))

    def _main_clock(self) -> float | None:
        if threading.get_ident() == self._main:
            return time.thread_time()
        if not hasattr(time, "pthread_getcpuclockid"):  # macOS cannot read the clock of another thread
            return None
        return time.clock_gettime(time.pthread_getcpuclockid(self._main))
