"""Each collective by hand, against torch's own."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from nights import by_day
from torch import Tensor

from ddp_lessons import launch
from ddp_lessons.train.collectives_by_hand import (
    all_gather_by_hand,
    all_reduce_by_hand,
    all_to_all_by_hand,
    barrier_by_hand,
    broadcast_by_hand,
    gather_by_hand,
    reduce_by_hand,
    reduce_scatter_by_hand,
    scatter_by_hand,
)

Answer = Tensor | list[Tensor] | None
WORLD_SIZES = [1, 2, 3, 4, 5, 8]


def numbers(rank: int) -> Tensor:
    return torch.arange(6).view(2, 3) + 100 * (rank + 1)


def parts(rank: int, world_size: int) -> list[Tensor]:
    return [numbers(rank) + 1000 * (other + 1) for other in range(world_size)]


def broadcast(rank: int, world_size: int, root: int) -> tuple[Answer, Answer]:
    reference = numbers(rank)
    dist.broadcast(reference, root)
    return broadcast_by_hand(numbers(rank), root), reference


def reduce(rank: int, world_size: int, root: int) -> tuple[Answer, Answer]:
    reference = numbers(rank)
    dist.reduce(reference, root)
    by_hand = reduce_by_hand(numbers(rank), root)
    return (by_hand, reference) if rank == root else (None, None)  # torch leaves something of no meaning elsewhere


def all_reduce(rank: int, world_size: int, root: int) -> tuple[Answer, Answer]:
    reference = numbers(rank)
    dist.all_reduce(reference)
    return all_reduce_by_hand(numbers(rank)), reference


def scatter(rank: int, world_size: int, root: int) -> tuple[Answer, Answer]:
    reference = numbers(rank)
    mine = parts(rank, world_size) if rank == root else None
    dist.scatter(reference, mine, root)
    return scatter_by_hand(numbers(rank), mine, root), reference


def gather(rank: int, world_size: int, root: int) -> tuple[Answer, Answer]:
    reference = [numbers(rank) for _ in range(world_size)] if rank == root else None
    dist.gather(numbers(rank), reference, root)
    return gather_by_hand(numbers(rank), root), reference


def all_gather(rank: int, world_size: int, root: int) -> tuple[Answer, Answer]:
    reference = [numbers(rank) for _ in range(world_size)]
    dist.all_gather(reference, numbers(rank))
    mine = numbers(rank)
    gathered = all_gather_by_hand(mine)
    assert torch.equal(mine, numbers(rank))
    return gathered, reference


def reduce_scatter(rank: int, world_size: int, root: int) -> tuple[Answer, Answer]:
    reference = numbers(rank)
    dist.reduce_scatter(reference, parts(rank, world_size))
    mine = parts(rank, world_size)
    sum_for_this_rank = reduce_scatter_by_hand(mine)
    assert torch.equal(mine[0], parts(rank, world_size)[0])
    return sum_for_this_rank, reference


def all_to_all(rank: int, world_size: int, root: int) -> tuple[Answer, Answer]:
    reference = [numbers(rank) for _ in range(world_size)]
    dist.all_to_all(reference, parts(rank, world_size))
    return all_to_all_by_hand(parts(rank, world_size)), reference


COLLECTIVES = [broadcast, reduce, all_reduce, scatter, gather, all_gather, reduce_scatter, all_to_all]


@pytest.mark.parametrize("world_size", by_day(WORLD_SIZES, 2))
def test_by_hand_gives_what_torch_gives_whoever_is_the_root(world_size: int) -> None:
    def run(rank: int, world_size: int) -> list[tuple[str, Answer, Answer]]:
        roots = {0, world_size - 1}
        return [(one.__name__, *one(rank, world_size, root)) for one in COLLECTIVES for root in roots]

    for answers in launch(run, world_size):
        for name, by_hand, reference in answers:
            assert type(by_hand) is type(reference), name
            torch.testing.assert_close(by_hand, reference, rtol=0, atol=0, msg=name)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_nobody_leaves_the_barrier_before_the_last_has_come(world_size: int) -> None:
    def run(rank: int, world_size: int) -> tuple[float, float]:
        import time

        if rank == world_size - 1:
            time.sleep(0.05)
        come = time.monotonic()
        barrier_by_hand()
        return come, time.monotonic()

    came, left = zip(*launch(run, world_size), strict=True)
    assert min(left) >= max(came)


def test_they_are_built_of_messages_alone() -> None:
    def run(rank: int, world_size: int) -> None:
        scatter_by_hand(numbers(rank), parts(rank, world_size))
        gather_by_hand(numbers(rank))
        all_reduce_by_hand(numbers(rank))
        reduce_scatter_by_hand(parts(rank, world_size))
        all_gather_by_hand(numbers(rank))
        all_to_all_by_hand(parts(rank, world_size))
        barrier_by_hand()

    assert {event.operation for event in launch(run, 3).events} == {"send", "recv"}
