"""The cause that a message names: a missing rank, the call at which the ranks part, a wait that timed out."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from ddp_lessons import WorkerFailed, WorkersStuck, launch

SOON = timedelta(seconds=0.5)
LONGER_SECONDS = 1.5


def message_of(function: Any, **options: Any) -> str:
    with pytest.raises((WorkerFailed, WorkersStuck)) as caught:
        launch(function, 2, quiet=True, **options)
    return str(caught.value)


# --- a rank that does not exist is named at once ---------------------------------------------------------------------


def sends(rank: int) -> None:
    if rank == 2:
        dist.send(torch.ones(1), rank + 1)


def receives(rank: int) -> None:
    dist.recv(torch.zeros(1), rank - 1)


@pytest.mark.parametrize(("function", "missing"), [(sends, "no rank 3"), (receives, "no rank -1")])
def test_a_peer_that_does_not_exist_is_named_at_once(function: Callable[[int], None], missing: str) -> None:
    with pytest.raises(WorkerFailed, match=f"raised ValueError: there is {missing} in a world of 3") as failed:
        launch(lambda rank, world_size: function(rank), 3, quiet=True)
    assert "    test_causes.py line " in str(failed.value)
    assert "(rank + 1) % world_size" in str(failed.value).partition("Next: ")[2]


# --- where one rank skipped a call, the first call at which they differ is named --------------------------------------


def leaves_the_loop(rank: int, world_size: int) -> None:
    for step in range(4):
        if (rank, step) == (1, 2):
            continue
        dist.all_reduce(torch.ones(5))
        dist.all_reduce(torch.ones(1))
    dist.all_reduce(torch.ones(3))


def skips_what_fits(rank: int, world_size: int) -> None:
    loss, right = torch.ones(1), torch.ones(1)
    if rank == 0:
        dist.all_reduce(loss)
    dist.all_reduce(right)


@pytest.mark.parametrize(
    ("function", "rank_0", "rank_1", "begins"),
    [  # the lines of the ranks count from the `def`
        (leaves_the_loop, 4, 6, "Mismatched collectives: rank 0 called all_reduce of float32 [5]"),
        (skips_what_fits, 3, 4, "The ranks call collective 1 on different lines"),
    ],
)
def test_the_call_at_which_they_differ_is_named(function: Any, rank_0: int, rank_1: int, begins: str) -> None:
    message, begin = message_of(function), function.__code__.co_firstlineno
    (told,) = (line.strip() for line in message.splitlines() if line.strip().startswith(begins))
    lines = [int(number) - begin for number in re.findall(r"py line (\d+)", told)]
    assert lines == [rank_0, rank_1]
    assert "a swallowed exception" in message.partition("Next: ")[2]


def test_calls_that_are_meant_to_meet_differ_in_their_tensors() -> None:
    def two_branches(rank: int, world_size: int) -> None:
        if rank == 0:
            dist.all_reduce(torch.ones(5))
        else:
            dist.all_reduce(torch.ones(1))

    message = message_of(two_branches)
    assert "Shape mismatch in this all_reduce" in message
    assert "different lines" not in message


# --- a wait that reached its limit is told as the cause of what fails after it ----------------------------------------


def test_who_did_not_come_in_time_is_named() -> None:
    def function(rank: int, world_size: int) -> None:
        group: Any = dist.new_group(timeout=SOON)
        if rank != 1:
            dist.all_reduce(torch.ones(1), group=group)
        time.sleep(LONGER_SECONDS)

    message = message_of(function)
    assert "Timeout: rank 0 waited" in message
    assert "but rank 1 did not " in message
    assert "timeout" in message.partition("Next: ")[2]


def test_who_did_not_join_in_time_is_named() -> None:
    def function(rank: int, world_size: int) -> None:
        if rank == 1:
            time.sleep(2 * LONGER_SECONDS)
        dist.init_process_group("gloo", rank=rank, world_size=world_size, timeout=SOON)

    message = message_of(function, join=False)
    assert "Timeout: rank 0 waited" in message
    assert "init_process_group, but rank 1 did not call it" in message


def test_ranks_that_join_at_different_places_are_named(tmp_path: Path) -> None:
    def function(rank: int, world_size: int) -> None:
        place = f"file://{tmp_path}/of rank {rank}"
        dist.init_process_group("gloo", init_method=place, rank=rank, world_size=world_size)

    assert "Rendezvous mismatch in init_process_group: rank 0 tried to join at " in message_of(function, join=False)


# --- torch names a group after how many its rank has made, and only its members meet, by that name --------------------


def total(rank: int, group: Any) -> float:
    mine = torch.tensor([float(rank)])
    dist.all_reduce(mine, group=group)
    return mine.item()


def by_its_members_only(rank: int, world_size: int) -> float | None:
    return total(rank, dist.new_group([0, 1])) if rank < 2 else None


def test_a_group_that_only_its_members_make_is_right() -> None:
    assert list(launch(by_its_members_only, 4)) == [1.0, 1.0, None, None]


def pairs_of_one_name(rank: int, world_size: int) -> float:
    return total(rank, dist.new_group([0, 1] if rank < 2 else [2, 3]))


def one_after_another_group(rank: int, world_size: int) -> float:
    if rank == 0:
        dist.new_group([1])
    return total(rank, dist.new_group([0, 1]))


@pytest.mark.parametrize(
    ("function", "world_size", "told"),
    [
        (pairs_of_one_name, 4, r"ranks 0 and 1 passed \[0, 1\], ranks 2 and 3 passed \[2, 3\]"),
        (one_after_another_group, 2, r"rank 0 passed \[1\] .*, rank 1 passed \[0, 1\]"),
    ],
)
def test_groups_that_would_meet_by_luck_are_named(function: Any, world_size: int, told: str) -> None:
    with pytest.raises((WorkerFailed, WorkersStuck), match=f"Group mismatch in new_group: {told}"):
        launch(function, world_size)
