"""In the notebook: how far the clock of a node is ahead of this machine's, measured with every ping."""

from __future__ import annotations

import math
import threading
import time

from ddp_lessons.run.wire.clocks import Clock
from ddp_lessons.run.wire.relayed import Pong

_MOST_DRIFT = 5e-5  # seconds in a second, between the clocks of two machines


class NodeClock:
    def __init__(self, node: str) -> None:
        self._node = node
        self._measured = 0.0, 0.0, math.inf  # when, the seconds that it was ahead then, the error
        self._is_known = threading.Event()

    def is_known_within(self, seconds: float) -> bool:
        return self._is_known.wait(seconds)

    def now(self) -> Clock:
        measured, ahead, error = self._measured
        return Clock(self._node, ahead, error + _MOST_DRIFT * (time.monotonic() - measured))

    def heard(self, pong: Pong) -> None:
        """Its answer was sent at about half of the round trip. A slower one counts after a while."""
        now = time.monotonic()
        if (error := (now - pong.sent) / 2) < self.now().error:
            self._measured = now, pong.here - (pong.sent + now) / 2, error
            self._is_known.set()
