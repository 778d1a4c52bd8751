"""The cause that a message names: a missing rank, the call at which the ranks part, a wait that timed out."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from ddp_lessons import WorkerFailed, WorkersStuck, check, launch

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


def receive(rank: int) -> None:
    dist.recv(torch.zeros(1), rank - 1)


def isend(rank: int) -> None:
    if rank == 0:
        dist.isend(torch.ones(1), 3)
    dist.barrier()


@pytest.mark.parametrize(
    ("function", "missing"),
    [
        (sends, "no rank 3 in a world of 3"),
        (receive, "no rank -1 in a world of 3"),
        (isend, "no rank 3 in a world of 3"),
    ],
)
def test_a_peer_that_does_not_exist_is_named_at_once(function: Callable[[int], None], missing: str) -> None:
    with pytest.raises(WorkerFailed, match=f"raised ValueError: there is {missing}") as failed:
        launch(lambda rank, world_size: function(rank), 3, quiet=True)
    assert "    test_causes.py line " in str(failed.value)
    assert "(rank + 1) % world_size" in str(failed.value).partition("Next: ")[2]


def test_a_root_that_does_not_exist_is_named_with_what_to_do() -> None:
    with pytest.raises(
        WorkerFailed, match=r"invalid root rank: 3\n(.|\n)*Next: pass a rank from 0 to world_size - 1 as src or dst"
    ):
        launch(lambda rank, world_size: dist.broadcast(torch.ones(1), 3), 3, quiet=True)


def test_a_check_says_so_soon() -> None:
    def pass_the_token(token: torch.Tensor) -> torch.Tensor:
        dist.recv(token, dist.get_rank() - 1)
        return token

    report = check.pass_the_token(pass_the_token)
    assert "there is no rank -1 in a world of 2 (ranks 0 to 1)" in report.text


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
        (leaves_the_loop, 4, 6, "Mismatched collectives: rank 0 all_reduce of float32 [5]"),
        (skips_what_fits, 3, 4, "In collective call 1, the ranks are on different lines"),
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


def of_the_group(tensor: torch.Tensor, group: Any) -> None:
    dist.all_reduce(tensor, group=group)


def of_the_functional_collective(tensor: torch.Tensor, group: Any) -> None:
    functional.wait_tensor(functional.all_reduce(tensor, "sum", group))


@pytest.mark.parametrize("all_reduce", [of_the_group, of_the_functional_collective])
def test_who_did_not_come_in_time_is_named(all_reduce: Callable[[torch.Tensor, Any], None]) -> None:
    def function(rank: int, world_size: int) -> None:
        group = dist.new_group(timeout=SOON)
        if rank != 1:
            all_reduce(torch.ones(1), group)
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
