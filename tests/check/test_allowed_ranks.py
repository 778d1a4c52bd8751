"""Where an instructor allows few ranks, a check judges with these, and says what it has not tried."""

from __future__ import annotations

import pytest
from ring_answers import WRONG

from ddp_lessons import check
from ddp_lessons.train.collectives_by_hand import broadcast_by_hand
from ddp_lessons.train.ring import ring_all_reduce


@pytest.mark.no_second_try
def test_what_is_right_passes_with_the_ranks_that_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_LESSONS_MOST_RANKS", "3")
    report = check.ring_all_reduce(ring_all_reduce)
    assert report.passed
    assert report.text.splitlines()[1].endswith("with 1, 2 and 3 ranks")
    sentence = "    not tried with 4, 5 and 8 ranks: the limit on this machine, set by the instructor, is 3"
    assert report.text.splitlines()[2] == sentence


@pytest.mark.no_second_try
def test_what_is_wrong_is_refused_with_two_ranks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_LESSONS_MOST_RANKS", "2")
    report = check.ring_all_reduce(WRONG[0][0])
    assert report.verdict == "not right yet"


def test_where_one_rank_is_allowed_nothing_is_judged_and_nobody_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_LESSONS_MOST_RANKS", "1")
    report = check.broadcast_by_hand(broadcast_by_hand)
    assert (report.verdict, report.is_a_try) == ("cannot be checked here", False)
    assert report.mistake == (
        "This exercise needs at least 2 ranks, but the limit on this machine, set by the instructor, is 1. Ask the "
        "instructor to raise it."
    )
