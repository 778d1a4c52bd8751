"""While ranks start: do all nodes still reach the first one, where the ranks meet?

torch waits for minutes for a rank that can't connect. A node that only starts slowly must not be taken for one that
can't, so the nodes try it.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time

from ddp_lessons.run.nodes.node_commands import NodeLost
from ddp_lessons.run.nodes.node_group import NodeGroup

_SECONDS_BETWEEN_LOOKS = 2.0


class MeetingWatch:
    """Of one start. Looks in a thread, because the launcher must not wait for the answer."""

    def __init__(self, group: NodeGroup, world_size: int) -> None:
        self._group, self._world_size = group, world_size
        self._why_apart = ""
        self._next = time.monotonic() + _SECONDS_BETWEEN_LOOKS

    def check(self) -> None:
        """Call it often.

        Raises:
            NodeLost: a node does not reach the first one.
        """
        if self._why_apart:
            raise NodeLost(self._why_apart)
        if time.monotonic() > self._next:
            self._next = math.inf  # until it has looked
            threading.Thread(target=self._look_twice, daemon=True).start()

    def _look_twice(self) -> None:
        """One lost packet proves nothing."""
        with contextlib.suppress(OSError, NodeLost):  # an agent is gone, and its ranks with it: the launcher sees that
            if self._group.why_apart(self._world_size):
                self._why_apart = self._group.why_apart(self._world_size)
        self._next = time.monotonic() + _SECONDS_BETWEEN_LOOKS
