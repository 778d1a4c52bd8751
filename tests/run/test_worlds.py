"""A function that joins by itself may join several worlds: one after the other, or two side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from nights import by_day

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
    join(folder, "all", rank, world_size)
    return total()


def side_by_side(rank: int, world_size: int, folder: str) -> float:
    join(folder, f"job {rank // 2}", rank % 2, 2)
    if rank % 2:
        dist.send(torch.ones(1), 0)
    else:
        dist.recv(torch.zeros(1), 1)
    return total()


def the_other_way_round(rank: int, world_size: int, folder: str) -> float:
    join(folder, "all", world_size - 1 - rank, world_size)
    return total()


def twice_at_one_port(rank: int, world_size: int, folder: str) -> float:
    found = 0.0
    for turn in range(1, 3):
        dist.init_process_group("gloo", rank=rank, world_size=world_size)
        found += total()
        dist.destroy_process_group()
        Path(folder, f"rank {rank} has left {turn}").touch()
        while len(list(Path(folder).iterdir())) < turn * world_size:  # else one may still find the old store
            time.sleep(0.01)
    return found


@pytest.mark.parametrize(
    ("program", "world_size", "answer"),
    by_day(
        [
            (small_then_large, 3, 3.0),
            (side_by_side, 4, 2.0),
            (the_other_way_round, 3, 3.0),
            (twice_at_one_port, 2, 4.0),
        ],
        3,
    ),
)
def test_worlds_that_plain_torch_joins_are_right(
    program: Program, world_size: int, answer: float, tmp_path: Path
) -> None:
    assert list(launch(program, world_size, str(tmp_path), join=False)) == [answer] * world_size


def one_skips(rank: int, world_size: int, folder: str) -> float:
    join(folder, f"job {rank // 2}", rank % 2, 2)
    return total() if rank != 3 else 0.0


def two_sizes(rank: int, world_size: int, folder: str) -> float:
    join(folder, f"job {rank // 2}", rank % 2, 2)
    mine = torch.ones(2 if rank == 3 else 1)
    dist.all_reduce(mine)
    return 0.0


def two_places(rank: int, world_size: int, folder: str) -> float:
    join(folder, f"all, said rank {rank % 2}", rank, world_size)
    return total()


def joins_another_job(rank: int, world_size: int, folder: str) -> float:
    join(folder, f"job {rank // 2}" if rank < 3 else "job", rank % 2, 2)
    return total()


@pytest.mark.parametrize(
    ("program", "told"),
    by_day(
        [
            (one_skips, r"rank 2   waits in all_reduce(.|\n)*every rank in its group calls it\. Rank 3 returned"),
            (two_sizes, r"Shape mismatch in this all_reduce: rank 2 \[1\] float32, rank 3 \[2\] float32"),
            (
                two_places,
                r"Rendezvous mismatch in init_process_group: ranks 0 and 2 at .*said rank 0 .*, ranks 1 and 3 at .*",
            ),
            (joins_another_job, r"Rendezvous mismatch in init_process_group: rank 2 at .*job 1 .*rank 3 at .*job"),
        ],
        2,
    ),
)
def test_a_mistake_in_one_of_them_is_told_in_the_numbers_of_the_launch(
    program: Program, told: str, tmp_path: Path
) -> None:
    with pytest.raises((WorkerFailed, WorkersStuck), match=told):
        launch(program, 4, str(tmp_path), join=False)
