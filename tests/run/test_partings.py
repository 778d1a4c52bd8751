"""Where one rank skipped a call, this is said, and not that the tensors that met then were of different shapes."""

from __future__ import annotations

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


def line_of(function: Function, text: str) -> str:
    import inspect

    source, first = inspect.getsourcelines(function)
    return f"test_partings.py line {first + next(n for n, line in enumerate(source) if text in line)}"


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


def test_a_call_inside_of_the_loop_is_skipped_by_the_rank_that_comes_round_without_it() -> None:
    message = failure(saves_on_rank_0)
    line = line_of(saves_on_rank_0, "dist.all_reduce(torch.ones(1))")
    assert f"Rank 1 skipped the call at {line}, or rank 0 makes one too many" in message


@pytest.mark.parametrize(
    ("function", "line", "says"),
    [
        (swallows, "model(batch)", "Rank 1 skipped the call at {} after making it 3 times"),
        (skips_the_first, "dist.all_reduce(large)", "Rank 1 skipped the call at {}, or rank 0 makes one too many"),
        (leaves_the_loop, "dist.all_reduce(torch.ones(5))", "Rank 1 skipped the call at {} after making it 3 times"),
        (skips_what_fits, "dist.all_reduce(loss)", "Rank 1 skipped the call at {}, or rank 0 makes one too many"),
    ],
)
def test_the_skipped_call_is_named(function: Function, line: str, says: str) -> None:
    message = failure(function)
    assert says.format(line_of(function, line)) in message
    assert "same shape" not in message
    assert "a swallowed exception" in message.partition("Next: ")[2]


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
    assert "skipped" not in message
