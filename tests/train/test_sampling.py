"""Who sees which sample: against one process."""

from __future__ import annotations

import itertools

import pytest
import torch
from made_up_samples import Samples
from nights import by_day
from torch import Tensor
from torch.utils.data import DataLoader

from ddp_lessons import launch
from ddp_lessons.train.sampling import GlobalBatches, ShardedStream


def numbered(count: int) -> Samples:
    return Samples(torch.arange(count, dtype=torch.float64).view(count, 1), torch.arange(count))


@pytest.mark.parametrize("world_size", by_day([3, 1], 1))
def test_the_ranks_shares_make_the_batches_of_one_process(world_size: int) -> None:
    sizes = [(33, 8), (7, 7), (5, 100), (6, 1), (12, 3)]

    def run(rank: int, world_size: int) -> list[list[tuple[Tensor, Tensor, float]]]:
        torch.manual_seed(rank)  # what a rank has drawn before is of no consequence
        return [
            [batch for epoch in range(2) for batch in GlobalBatches(numbered(count), size).epoch(epoch)]
            for count, size in sizes
        ]

    results = launch(run, world_size)
    for number, (count, size) in enumerate(sizes):
        batches = GlobalBatches(numbered(count), size)
        alone = [batch for epoch in range(2) for batch in batches.epoch(epoch)]
        assert len(alone) == 2 * len(batches)
        for step, (inputs, labels, scale) in enumerate(alone):
            shares = [of_rank[number][step] for of_rank in results]
            assert sorted(torch.cat([share[1] for share in shares]).tolist()) == sorted(labels.tolist())
            assert all(torch.equal(share[0].flatten().long(), share[1]) for share in shares)
            assert scale == pytest.approx(1 / len(labels))
            # the part of each rank, averaged over the ranks: the mean over the whole batch
            parts = [share_scale * share_inputs.sum() for share_inputs, _, share_scale in shares]
            assert torch.stack(parts).mean().item() == pytest.approx(inputs.mean().item())
            lengths = [len(share[1]) for share in shares]
            assert max(lengths) - min(lengths) <= 1


def test_every_epoch_holds_every_sample_once_in_another_order() -> None:
    batches = GlobalBatches(numbered(33), 8, seed=3)
    orders = [torch.cat([labels for _, labels, _ in batches.epoch(epoch)]).tolist() for epoch in range(4)]
    assert all(sorted(order) == list(range(33)) for order in orders)
    assert all(one != other for one, other in itertools.combinations(orders, 2))
    again = torch.cat([labels for _, labels, _ in batches.epoch(2)]).tolist()
    assert again == orders[2]


def test_a_rank_without_samples_gets_empty_inputs_of_the_right_shape() -> None:
    data = Samples(torch.zeros(2, 1, 4, 4), torch.arange(2))
    results = launch(lambda rank, size: [(i.shape, s) for i, _, s in GlobalBatches(data, 8).epoch(0)], 3)
    assert [tuple(shape) for ((shape, _),) in results] == [(1, 1, 4, 4), (1, 1, 4, 4), (0, 1, 4, 4)]
    assert {scale for ((_, scale),) in results} == {1.5}


@pytest.mark.parametrize(("count", "workers"), [(10, 0), (1, 3), (10, 3)])
def test_of_a_stream_each_sample_comes_once_over_all_ranks_and_workers(count: int, workers: int) -> None:
    def read(rank: int, world_size: int) -> list[int]:
        return list(DataLoader(ShardedStream(range(count)), batch_size=None, num_workers=workers))

    results = launch(read, 2, quiet=True)
    assert sorted(itertools.chain(*results)) == list(range(count))
    assert abs(len(results[0]) - len(results[1])) <= max(workers, 1)


def test_a_stream_that_is_read_in_a_process_without_a_group_keeps_its_part() -> None:
    """As in a worker that is spawned: it gets a copy, and has not joined."""
    assert list(ShardedStream(range(5))) == [0, 1, 2, 3, 4]
    streams = launch(lambda rank, world_size: ShardedStream(range(5)), 2, quiet=True)
    assert [list(stream) for stream in streams] == [[0, 2, 4], [1, 3]]
