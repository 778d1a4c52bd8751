"""Partitions: every sample in exactly one of them, whatever the sizes, and the same on all ranks."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
import torch.distributed as dist
from torch.utils.data import DataLoader

from ddp_lessons import launch
from ddp_lessons.train.partition import DataPartitioner, Partition


def content(partition: Partition) -> list[int]:
    return [partition[index] for index in range(len(partition))]


def together(shares: list[list[int]]) -> list[int]:
    return [sample for share in shares for sample in share]


def random_sizes(dice: random.Random, count: int) -> list[float]:
    weights = [dice.choice([0.0, 1.0, dice.random(), 50 * dice.random()]) for _ in range(count)]
    weights[dice.randrange(count)] += 0.1
    return [weight / sum(weights) for weight in weights]


def test_every_sample_is_in_exactly_one_partition_of_about_its_size() -> None:
    dice = random.Random(0)
    for _ in range(500):
        world_size = dice.randint(1, 12)
        data = range(1000, 1000 + dice.choice([world_size, world_size + 1, dice.randint(world_size, 400)]))
        sizes = random_sizes(dice, world_size)
        parts = DataPartitioner(data, sizes, seed=dice.randint(0, 99))
        shares = [content(parts.use(rank)) for rank in range(world_size)]
        assert sorted(together(shares)) == list(data)
        for share, size in zip(shares, sizes, strict=True):
            assert abs(len(share) - size * len(data)) < 1 + 1e-6


def test_equal_sizes_leave_nobody_without_samples_and_differ_by_one() -> None:
    for world_size in range(1, 20):
        for count in range(world_size, 60):
            parts = DataPartitioner(range(count), [1 / world_size] * world_size)
            lengths = {len(parts.use(rank)) for rank in range(world_size)}
            assert lengths <= {count // world_size, -(-count // world_size)}


def test_a_size_of_one_sample_is_one_sample_also_between_halves() -> None:
    parts = DataPartitioner(range(10), [0.15, 0.1, 0.75])
    assert [len(parts.use(rank)) for rank in range(3)] == [2, 1, 7]


def test_all_ranks_cut_alike_without_a_word_and_another_seed_cuts_otherwise() -> None:
    def run(rank: int, world_size: int) -> tuple[list[int], list[list[int]], list[int]]:
        random.seed(rank)  # what a rank has drawn before is of no consequence
        parts = DataPartitioner(range(50), [0.5, 0.3, 0.2])
        others = DataPartitioner(range(50), [0.5, 0.3, 0.2], seed=7)
        everyones = [content(parts.use(other)) for other in range(world_size)]
        return content(parts.use(rank)), everyones, content(others.use(rank))

    results = launch(run, 3)
    mine = [answer[0] for answer in results]
    assert all(seen == mine for _, seen, _ in results)
    assert sorted(together(mine)) == list(range(50))
    assert together(mine) != list(range(50)), "not shuffled"
    assert [answer[2] for answer in results] != mine
    assert not results.events


def test_a_partition_is_a_data_set_for_a_loader() -> None:
    partition = Partition("abcdefgh", [6, 1, 4])
    assert len(partition) == 3
    assert [batch for (batch,) in DataLoader(partition, batch_size=1)] == ["g", "b", "e"]
    with pytest.raises(IndexError):
        partition[3]


@pytest.mark.parametrize("world_size", [1, 4])
def test_ranks_that_cut_their_batches_too_see_each_sample_once_in_batches_of_the_same_size(world_size: int) -> None:
    def partition_dataset(data: Sequence[int]) -> DataLoader[int]:
        mine = DataPartitioner(data, [1 / dist.get_world_size()] * dist.get_world_size()).use(dist.get_rank())
        return DataLoader(mine, batch_size=128 // dist.get_world_size(), shuffle=True)

    results = launch(lambda rank, size: [batch.tolist() for batch in partition_dataset(range(1024))], world_size)
    assert [sum(map(len, batches)) for batches in zip(*results, strict=True)] == [128] * 8
    assert sorted(sample for batches in results for batch in batches for sample in batch) == list(range(1024))


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ([0.3] * 4, "partition sizes must add up to 1, not 1.2"),
        ([0.33, 0.33, 0.33], "must add up to 1, not 0.99"),
        ([], "must add up to 1, not 0"),
        ([1.5, -0.5], r"must be numbers from 0 to 1, not \[1.5, -0.5\]"),
        ([math.nan, 1.0], r"must be numbers from 0 to 1, not \[nan, 1.0\]"),
        ([0.25] * 4, "3 samples cannot be divided into 4 partitions"),
    ],
)
def test_sizes_that_cannot_be_are_refused_with_a_sentence(sizes: list[float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DataPartitioner("abc", sizes)
