"""Ranks begin a function together, however long each took to get it; and none waits for ever."""

from __future__ import annotations

import operator
import os
import time
from typing import Any

import pytest
from nights import nightly

from ddp_lessons import Workers, WorkersStuck, launch
from ddp_lessons.run.launcher import hang_watch
from ddp_lessons.run.rank.common_begin import wait_for_the_others
from ddp_lessons.run.wire.messages import Task


def unpacked_slowly(seconds: float) -> float:
    if os.environ["RANK"] == "1":
        time.sleep(seconds)
    return seconds


class Slow:
    """An argument that takes rank 1 some time to unpack."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __reduce__(self) -> Any:
        return unpacked_slowly, (self.seconds,)


def moment(rank: int, world_size: int, *given: object) -> float:
    return time.perf_counter()


def rank_1_never_returns(rank: int, world_size: int, *given: object) -> None:
    while rank == 1:
        time.sleep(0.01)


def rank_0_counts_in_native_code(rank: int, world_size: int, *given: object) -> None:
    if rank == 0:
        sum(range(10**12))  # it holds the lock of the interpreter


@nightly
def test_who_has_its_function_sooner_waits_for_the_others() -> None:
    moments = [launch(moment, 2, Slow(0.08)) for _ in range(5)]
    assert min(abs(first - second) for first, second in moments) < 0.06  # a busy machine may hold one up


def test_nobody_waits_long() -> None:
    first, second = launch(moment, 2, Slow(0.5))
    assert second - first > 0.2


def test_ranks_that_are_not_asked_are_not_waited_for() -> None:
    with Workers(3) as workers:
        begins = [(time.perf_counter(), workers.run(moment, only=[1])[1]) for _ in range(6)]
        assert min(began - asked for asked, began in begins) < 0.1


def test_without_the_file_a_rank_begins(tmp_path: Any) -> None:
    wait_for_the_others(str(tmp_path / "nowhere" / "begin"), 0, 2, Task({}, 1, 2))


@pytest.mark.parametrize("number", [1, 255, 256, 1000])
def test_an_arrival_at_an_earlier_task_is_none_at_this_one(tmp_path: Any, number: int) -> None:
    file = str(tmp_path / "begin")
    wait_for_the_others(file, 1, 2, Task({}, number - 1, 1))
    begin = time.perf_counter()
    wait_for_the_others(file, 0, 2, Task({}, number, 2))
    assert time.perf_counter() - begin > 0.09
    moments = [time.perf_counter()]
    for _ in range(3):  # a busy machine may hold one up
        wait_for_the_others(file, 1, 2, Task({}, number, 2))
        moments.append(time.perf_counter())
    assert min(map(operator.sub, moments[1:], moments)) < 0.09


@nightly
def test_loading_the_function_takes_none_of_its_time() -> None:
    assert launch(moment, 2, Slow(1.5), timeout_seconds=0.5)
    with pytest.raises(WorkersStuck, match=r"did not return within 0\.5 seconds"):
        launch(rank_1_never_returns, 2, Slow(1.5), timeout_seconds=0.5)


@nightly
def test_a_rank_that_is_too_busy_to_answer_after_it_loaded_has_no_more_time() -> None:
    with pytest.raises(WorkersStuck, match=r"rank 0 of 2 did not return within 0\.5 seconds"):
        launch(rank_0_counts_in_native_code, 2, Slow(1.0), timeout_seconds=0.5)


@nightly
def test_a_function_that_cannot_be_loaded_in_two_minutes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_watch, "SECONDS_TO_LOAD", 1.0)
    with pytest.raises(WorkersStuck, match=r"rank 1 of 2 did not return within 0\.5 seconds") as told:
        launch(moment, 2, Slow(60), timeout_seconds=0.5)
    assert "test_common_begin.py" in str(told.value)
