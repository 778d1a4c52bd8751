"""Each collective by hand, against torch's own."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from nights import by_day
from torch import Tensor

from ddp_lessons import launch
from ddp_lessons.train.collectives_by_hand import all_gather_by_hand, broadcast_by_hand

Answer = Tensor | list[Tensor]


def numbers(rank: int) -> Tensor:
    return torch.arange(6).view(2, 3) + 100 * (rank + 1)


def broadcast(rank: int, world_size: int, root: int) -> tuple[Answer, Answer]:
    reference = numbers(rank)
    dist.broadcast(reference, root)
    return broadcast_by_hand(numbers(rank), root), reference


def all_gather(rank: int, world_size: int, root: int) -> tuple[Answer, Answer]:
    reference = [numbers(rank) for _ in range(world_size)]
    dist.all_gather(reference, numbers(rank))
    mine = numbers(rank)
    gathered = all_gather_by_hand(mine)
    assert torch.equal(mine, numbers(rank))
    return gathered, reference


@pytest.mark.parametrize("world_size", by_day([1, 3, 8], 2))
def test_by_hand_gives_what_torch_gives_whoever_is_the_root(world_size: int) -> None:
    def run(rank: int, world_size: int) -> list[tuple[str, Answer, Answer]]:
        roots = {0, world_size - 1}
        return [(one.__name__, *one(rank, world_size, root)) for one in (broadcast, all_gather) for root in roots]

    for answers in launch(run, world_size):
        for name, by_hand, reference in answers:
            assert type(by_hand) is type(reference), name
            torch.testing.assert_close(by_hand, reference, rtol=0, atol=0, msg=name)
