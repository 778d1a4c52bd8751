"""Messages between two ranks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ddp_lessons import launch
from ddp_lessons.train.point_to_point import exchange, pass_the_token, swap


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_every_rank_adds_1_to_the_token_of_rank_0(world_size: int) -> None:
    def run(rank: int, world_size: int) -> Tensor:
        return pass_the_token(torch.tensor([10 if rank == 0 else -1]))

    results = launch(run, world_size)

    assert [token.item() for token in results] == [10 + world_size, *(11 + rank for rank in range(1, world_size))]
    senders = [delivery.send.rank for delivery in results.events.deliveries]
    assert sorted(senders) == [*range(world_size)] * (world_size > 1)


def test_two_ranks_swap_and_keep_what_they_gave() -> None:
    def run(rank: int, world_size: int) -> tuple[Tensor, Tensor]:
        mine = torch.full((300, 1000), rank + 1)
        return exchange(mine), mine

    for rank, (received, mine) in enumerate(launch(run, 2)):
        assert torch.equal(received, torch.full((300, 1000), 2 - rank))
        assert torch.equal(mine, torch.full((300, 1000), rank + 1))


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_pairs_swap_and_an_odd_last_rank_keeps_its_own(world_size: int) -> None:
    def run(rank: int, world_size: int) -> tuple[Tensor, Tensor]:
        mine = torch.full((2, 1000), rank)
        return swap(mine), mine

    results = launch(run, world_size)

    partners = [1, 0, 3, 2, 5, 4, 7, 6]
    for rank, (received, mine) in enumerate(results):
        has_partner = partners[rank] < world_size
        assert torch.equal(received, torch.full((2, 1000), partners[rank] if has_partner else rank))
        assert torch.equal(mine, torch.full((2, 1000), rank))
        assert [delivery.send.rank for delivery in results.events.deliveries].count(rank) == int(has_partner)
