"""Which calls can never end, at moments made by hand: a real rank passes the moment before its message is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from recorded import BEGAN, call

from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Recorded, Standing
from ddp_lessons.run.diagnosis.waits import never_ending

ALL = (0, 1, 2)
OVER = 1.0


def a(operation: str, peer: int | None = None, end: float | None = None, **options: Any) -> Event:
    return call(operation, 0, end, peer=peer, group_ranks=ALL, **options)


def at_this_moment(calls: Sequence[Sequence[Event]]) -> Events:
    """Each rank is held in its last call, unless that is over."""
    return Events(
        [
            Recorded(BEGAN, tuple(mine), standing=Standing(is_free=is_over(mine), held_in=(len(mine) - 1,)))
            for mine in calls
        ]
    )


def is_over(calls: Sequence[Event]) -> bool:
    return not calls or calls[-1].end is not None


FROM_ANYONE = a("recv")
MOMENTS: dict[str, tuple[Sequence[Sequence[Event]], set[tuple[int, str]]]] = {
    "a message for whoever takes it is on its way": (
        [[FROM_ANYONE], [a("send", 0, OVER), a("recv", 0)], [a("recv", 0)]],
        set(),
    ),
    "the message has gone to an earlier call": (
        [[a("recv", 1, OVER), FROM_ANYONE], [a("send", 0, OVER), a("recv", 0)], [a("recv", 0)]],
        {(0, "recv"), (1, "recv"), (2, "recv")},
    ),
    "it is taken by a call from anyone that waits": (
        [[FROM_ANYONE, a("barrier")], [a("barrier")], [a("send", 0)]],
        set(),
    ),
    "the one call from anyone has had its message": (
        [[FROM_ANYONE, a("barrier")], [a("send", 0, OVER), a("barrier")], [a("send", 0)]],
        {(0, "barrier"), (1, "barrier"), (2, "send")},
    ),
}


@pytest.mark.no_second_try
@pytest.mark.parametrize(("calls", "ends_never"), MOMENTS.values(), ids=MOMENTS.keys())
def test_these_calls_can_never_end(calls: Sequence[Sequence[Event]], ends_never: set[tuple[int, str]]) -> None:
    assert {(event.rank, event.operation) for event in never_ending(at_this_moment(calls))} == ends_never
