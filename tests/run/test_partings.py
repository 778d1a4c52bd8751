"""Where one rank skipped a call, the first call at which the ranks differ is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from ddp_lessons import WorkerFailed, WorkersStuck, launch

Function = Callable[[int, int], Any]


def failure(function: Function, world_size: int = 2) -> str:
    with pytest.raises((WorkerFailed, WorkersStuck)) as caught:
        launch(function, world_size, quiet=True)
    return str(caught.value)


def swallows(rank: int, world_size: int) -> None:
    model = nn.parallel.DistributedDataParallel(nn.Linear(10, 5))
    for step in range(4):
        batch = torch.randn(20, 11 if (rank, step) == (1, 2) else 10)
        try:
            model(batch).sum().backward()
        except RuntimeError:
            print("skipped a bad batch")
    dist.all_reduce(torch.ones(1))


def skips_the_first(rank: int, world_size: int) -> None:
    large, small = torch.ones(5), torch.ones(1)
    if rank == 0:
        dist.all_reduce(large)
    dist.all_reduce(small)


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


def saves_on_rank_0(rank: int, world_size: int) -> None:
    for _ in range(3):
        list(map(dist.all_reduce, torch.ones(3, 5)))
        if rank == 0:
            dist.all_reduce(torch.ones(1))


@pytest.mark.parametrize(
    ("function", "rank_0", "rank_1", "begins", "advice"),
    [  # the lines of the ranks count from the `def`
        (swallows, 5, 8, "Mismatched collectives: rank 0 DDP's all_reduce", "a swallowed exception"),
        (leaves_the_loop, 4, 6, "Mismatched collectives: rank 0 all_reduce of float32 [5]", "a swallowed exception"),
        (saves_on_rank_0, 4, 2, "Mismatched collectives: rank 0 all_reduce of float32 [1]", "a swallowed exception"),
        (skips_what_fits, 3, 4, "In collective call 1, the ranks are on different lines", "a swallowed exception"),
        (skips_the_first, 3, 4, "Shape mismatch in this all_reduce: rank 0 [5] float32", "meant to meet"),
    ],
)
def test_the_call_at_which_they_differ_is_named(
    function: Any, rank_0: int, rank_1: int, begins: str, advice: str
) -> None:
    message, begin = failure(function), function.__code__.co_firstlineno
    (told,) = (line.strip() for line in message.splitlines() if line.strip().startswith(begins))
    lines = [int(number) - begin for number in re.findall(r"py line (\d+)", told)]
    assert lines == [rank_0, rank_1]
    assert advice in message.partition("Next: ")[2]


def two_branches(rank: int, world_size: int) -> None:
    if rank == 0:
        dist.all_reduce(torch.ones(5))
    else:
        dist.all_reduce(torch.ones(1))


def one_line(rank: int, world_size: int) -> None:
    for _ in range(3):
        dist.all_reduce(torch.ones(5 - rank))


@pytest.mark.parametrize("function", [two_branches, one_line])
def test_calls_that_are_meant_to_meet_differ_in_their_tensors(function: Function) -> None:
    message = failure(function)
    assert "Shape mismatch in this all_reduce" in message
    assert "different lines" not in message
