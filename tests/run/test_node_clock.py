"""How far a node's clock is ahead, from the round trip of a ping."""

from __future__ import annotations

import time

import pytest

from ddp_lessons.run.nodes.node_clock import NodeClock
from ddp_lessons.run.wire.relayed import Pong


@pytest.mark.parametrize("ahead", [1000.0, -1000.0, 0.0])
def test_a_clock_is_as_far_ahead_as_it_answers_and_the_error_is_half_of_the_round_trip(ahead: float) -> None:
    clock, sent = NodeClock("alpha"), time.monotonic() - 0.2
    clock.heard(Pong(sent, sent + 0.1 + ahead))
    known = clock.now()
    assert known.error >= 0.1
    assert known.seconds_ahead == pytest.approx(ahead, abs=known.error)
