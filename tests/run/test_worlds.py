"""A function that joins by itself may join several worlds: one after the other, or two side by side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from ddp_lessons import WorkerFailed, WorkersStuck, launch

Program = Callable[[int, int, str], float]


def join(folder: str, name: str, rank: int, world_size: int) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/{name}", rank=rank, world_size=world_size)


def total() -> float:
    mine = torch.ones(1)
    dist.all_reduce(mine)
    return mine.item()


def small_then_large(rank: int, world_size: int, folder: str) -> float:
    if rank < 2:
        join(folder, "two", rank, 2)
        total()
        dist.destroy_process_group()
    join(folder, "all", world_size - 1 - rank, world_size)  # and the other way round
    return total()


def side_by_side(rank: int, world_size: int, folder: str) -> float:
    join(folder, f"job {rank // 2}", rank % 2, 2)
    dist.send(torch.ones(1), 0) if rank % 2 else dist.recv(torch.zeros(1), 1)
    return total()


@pytest.mark.parametrize(("program", "world_size", "answer"), [(small_then_large, 3, 3.0), (side_by_side, 4, 2.0)])
def test_worlds_that_plain_torch_joins_are_right(
    program: Program, world_size: int, answer: float, tmp_path: Path
) -> None:
    assert list(launch(program, world_size, str(tmp_path), join=False)) == [answer] * world_size


def one_skips(rank: int, world_size: int, folder: str) -> float:
    join(folder, f"job {rank // 2}", rank % 2, 2)
    return total() if rank != 3 else 0.0


def two_places(rank: int, world_size: int, folder: str) -> float:
    join(folder, f"all, said rank {rank % 2}", rank, world_size)
    return total()


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (one_skips, r"rank 2   waits in all_reduce(.|\n)*every rank in its group calls it\. Rank 3 returned"),
        (two_places, r"Rendezvous mismatch in init_process_group: ranks 0 and 2 at .*rank 0 .*, ranks 1 and 3 at .*"),
    ],
)
def test_a_mistake_in_one_of_them_is_told_in_the_numbers_of_the_launch(
    program: Program, told: str, tmp_path: Path
) -> None:
    with pytest.raises((WorkerFailed, WorkersStuck), match=told):
        launch(program, 4, str(tmp_path), join=False)
