"""Groups that plain torch makes are right here, too; those that meet by luck, or not at all, are named.

torch names a group after how many its rank has made, and only the members of a group meet, by that name.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from ddp_lessons import WorkerFailed, WorkersStuck, launch


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
        (pairs_of_one_name, 4, r"ranks 0 and 1 \[0, 1\], ranks 2 and 3 \[2, 3\]"),
        (one_after_another_group, 2, r"rank 0 \[1\] .*, rank 1 \[0, 1\]"),
    ],
)
def test_groups_that_would_meet_by_luck_are_named(function: Any, world_size: int, told: str) -> None:
    with pytest.raises((WorkerFailed, WorkersStuck), match=f"Group mismatch in new_group: {told}"):
        launch(function, world_size)
