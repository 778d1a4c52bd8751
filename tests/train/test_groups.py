"""What ranks agree on, against what one process finds that sees all of them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ddp_lessons import launch
from ddp_lessons.train.groups import share_best, sum_of_half

SCORES = [
    [0.1, 0.7, 0.3, 0.9, 0.2, 0.8, 0.4, 0.6],
    [-3.5, -7.0, -1.5, -2.0, -1.0, -4.0, -5.0, -6.0],
    [2.0] * 8,
    [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0],
    [1.0, 1.0 + 2**-40, 1.0, 1.0 + 2**-30, 1.0, 1.0, 1.0, 1.0],  # equal in float32
]


@pytest.mark.parametrize("world_size", [1, 3, 8])
def test_every_rank_gets_the_tensor_of_the_first_of_the_best(world_size: int) -> None:
    def run(rank: int, world_size: int) -> list[Tensor]:
        return [share_best(scores[rank], torch.full((2, 3), rank)) for scores in SCORES]

    best = [max(range(world_size), key=scores.__getitem__) for scores in SCORES]
    for tensors in launch(run, world_size):
        assert [tensor.unique().tolist() for tensor in tensors] == [[rank] for rank in best]


@pytest.mark.parametrize("world_size", [2, 5])
def test_even_and_odd_ranks_add_up_apart(world_size: int) -> None:
    def run(rank: int, world_size: int) -> list[Tensor]:
        return [sum_of_half(torch.full((2, 3), 10**rank)) for _ in range(3)]

    for rank, tensors in enumerate(launch(run, world_size)):
        right = sum(10**other for other in range(rank % 2, world_size, 2))
        assert [tensor.unique().tolist() for tensor in tensors] == [[right]] * 3
