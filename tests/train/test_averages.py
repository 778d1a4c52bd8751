"""The mean over ranks, against one process that has all the data."""

from __future__ import annotations

import random
import statistics

import pytest
import torch
from torch import Tensor

from ddp_lessons import launch
from ddp_lessons.train.averages import global_mean, mean_loss


def data(rank: int, dtype: torch.dtype, longest: int) -> Tensor:
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(longest // (rank + 1), generator=generator, dtype=dtype) + 10 * rank


DATA = [(torch.float64, 12), (torch.float32, 200_000), (torch.float32, 1)]  # of the last, only rank 0 has any


@pytest.mark.parametrize("world_size", [1, 3])
def test_ranks_with_unequal_counts_agree_on_the_mean_of_all(world_size: int) -> None:
    def run(rank: int, world_size: int) -> list[tuple[Tensor, bool]]:
        all_mine = [data(rank, *kind) for kind in DATA]
        return [
            (global_mean(mine), torch.equal(mine, data(rank, *kind))) for mine, kind in zip(all_mine, DATA, strict=True)
        ]

    results = launch(run, world_size)

    for number, kind in enumerate(DATA):
        reference = torch.cat([data(rank, *kind) for rank in range(world_size)]).mean()
        for answers in results:
            mean, is_unchanged = answers[number]
            torch.testing.assert_close(mean, reference)
            assert is_unchanged
    assert max(event.bytes for event in results.events) <= 16


@pytest.mark.parametrize("world_size", [1, 4])
def test_ranks_without_losses_come_too_and_all_have_the_mean(world_size: int) -> None:
    def losses(rank: int) -> list[float]:
        return [random.Random(f"{rank} {number}").random() for number in range(5 * rank % 3 + (rank == 0))]

    results = launch(lambda rank, world_size: mean_loss(losses(rank)), world_size)

    assert world_size == 1 or not all(losses(rank) for rank in range(world_size))
    everything = [loss for rank in range(world_size) for loss in losses(rank)]
    assert list(results) == pytest.approx([statistics.mean(everything)] * world_size)
