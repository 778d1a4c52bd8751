"""How far a node's clock is ahead, from the round trip of a question, and its times on our clock."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from recorded import call

from ddp_lessons.record.rank_record import Recorded, Told
from ddp_lessons.run.nodes.node_link import NodeLink
from ddp_lessons.run.wire.clocks import Clock, on_our_clock
from ddp_lessons.run.wire.messages import Raised


def test_a_clock_is_as_far_ahead_as_it_answers_and_the_error_is_half_of_the_round_trip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(link: NodeLink, method: str) -> float:
        time.sleep(0.15)  # to the node, and a third of that back
        there = time.monotonic() + 1000.0
        time.sleep(0.05)
        return there

    monkeypatch.setattr(NodeLink, "ask", answer)
    link = NodeLink.__new__(NodeLink)  # without a node
    link.name = "alpha"
    known = link._measured_clock()
    assert known.node == "alpha"
    assert known.error >= 0.1
    assert known.seconds_ahead == pytest.approx(1000.0, abs=known.error)


def test_all_times_of_a_rank_on_a_node_arrive_as_our_clock_shows_them() -> None:
    ahead = Clock("alpha", 1000.0, 0.1)
    told = on_our_clock(Told(1005.0, "loss", {}), ahead)
    assert isinstance(told, Told)
    assert told.seconds == 5.0

    there = Recorded(
        1002.0, (replace(call("send", 0, 0), begin=1003.0, end=1004.0),), until=1005.0, gaps=((1002.5, 1003.0, 0.1),)
    )
    raised = on_our_clock(Raised("ValueError", "", (), "", 1006.0, there), ahead)
    assert isinstance(raised, Raised)
    assert raised.moment == 6.0
    here = raised.recorded
    assert here is not None
    assert (here.began, here.until, here.gaps) == (2.0, 5.0, ((2.5, 3.0, 0.1),))
    assert (here.node, here.clock_error) == ("alpha", 0.1)
    assert (here.calls[0].begin, here.calls[0].end) == (3.0, 4.0)
