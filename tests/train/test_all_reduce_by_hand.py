"""Three ways to add up over ranks, against torch's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from nights import by_day
from torch import Tensor

from ddp_lessons import launch
from ddp_lessons.train.ring import all_reduce_by_tree, all_reduce_through_rank_0, ring_all_reduce

Way = Callable[[Tensor], Tensor]
WAYS = [all_reduce_through_rank_0, all_reduce_by_tree, ring_all_reduce]


def inputs(rank: int) -> list[Tensor]:
    """Of every kind: whole numbers, fewer than ranks, none, not divisible, with gaps in memory."""
    kinds = [
        torch.arange(5.0),
        torch.tensor(2.0),
        torch.empty(0),
        torch.arange(100_001, dtype=torch.float64),
        torch.arange(12.0).view(3, 4).t(),
        torch.arange(20)[::3],
        torch.full((2, 3, 4), 2**40),
    ]
    return [kind.add_(rank) for kind in kinds]


@pytest.mark.parametrize("world_size", by_day([1, 3, 4, 8], 2))
def test_all_give_the_sum_torch_gives_in_place_and_returned(world_size: int) -> None:
    def run(rank: int, world_size: int) -> list[tuple[str, Tensor, Tensor, bool]]:
        found = []
        for way in WAYS:
            for mine in inputs(rank):
                reference = mine.clone(memory_format=torch.contiguous_format)
                dist.all_reduce(reference)
                returned = way(mine)
                found.append((way.__name__, mine, reference, returned is mine))
        return found

    for answers in launch(run, world_size):
        for name, mine, reference, is_the_same in answers:
            torch.testing.assert_close(mine, reference, rtol=0, atol=0, msg=name)
            assert is_the_same, name


@pytest.mark.parametrize("world_size", [2, 4])
def test_the_ring_moves_what_the_textbook_says_and_only_to_the_next(world_size: int) -> None:
    def run(rank: int, world_size: int) -> None:
        ring_all_reduce(torch.zeros(24 * 100))

    events = launch(run, world_size).events

    whole = 24 * 100 * 4
    for rank in range(world_size):
        assert events.bytes_sent(rank) == 2 * (world_size - 1) * whole // world_size
        after = {event.peer for event in events.of(rank) if event.operation == "send"}
        assert after == {(rank + 1) % world_size}


@pytest.mark.parametrize(("way", "tensors"), [(all_reduce_through_rank_0, 7), (all_reduce_by_tree, 3)])
def test_without_chunks_rank_0_sends_the_most(way: Way, tensors: int) -> None:
    def run(rank: int, world_size: int) -> None:
        way(torch.zeros(100))

    events = launch(run, 8).events

    assert max(events.bytes_sent(rank) for rank in range(8)) == events.bytes_sent(0) == tensors * 400
    assert sum(events.bytes_sent(rank) for rank in range(8)) == 2 * 7 * 400
