"""Shards and an optimizer that is cut into them, against one process that holds everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import by_day
from torch import Tensor, nn
from torch.nn import functional as F

from ddp_lessons import launch
from ddp_lessons.train.sharding import ShardedOptimizer, shard, sharded_mean, unshard

LENGTHS = (1, 3, 7, 12, 24, 1001)


@pytest.mark.parametrize("world_size", by_day([1, 3, 8], 2))
def test_shards_are_the_padded_tensor_in_order_and_give_it_back(world_size: int) -> None:
    tensors = [torch.arange(1, length + 1, dtype=torch.float64) for length in LENGTHS]

    def run(rank: int, world_size: int) -> list[tuple[Tensor, Tensor]]:
        return [(shard(flat), unshard(shard(flat), len(flat))) for flat in tensors]

    results = launch(run, world_size)
    for number, flat in enumerate(tensors):
        padded = F.pad(flat, (0, -len(flat) % world_size))
        assert torch.equal(torch.stack([answers[number][0] for answers in results]), padded.view(world_size, -1))
        assert all(torch.equal(answers[number][1], flat) for answers in results)


@pytest.mark.parametrize("world_size", [1, 3])
def test_a_sharded_mean_is_the_shard_of_the_mean(world_size: int) -> None:
    def run(rank: int, world_size: int) -> list[tuple[Tensor, Tensor]]:
        pairs = []
        for length in LENGTHS:
            brought = torch.rand(length, generator=torch.Generator().manual_seed(rank), dtype=torch.float64)
            mean = brought.clone()
            dist.all_reduce(mean)
            pairs.append((sharded_mean(brought), shard(mean / world_size)))
        return pairs

    for pairs in launch(run, world_size):
        for ours, right in pairs:
            torch.testing.assert_close(ours, right, rtol=1e-14, atol=1e-14)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adam": lambda tensors: torch.optim.Adam(tensors, lr=0.01),
    "momentum": lambda tensors: torch.optim.SGD(tensors, lr=0.05, momentum=0.9, weight_decay=0.01),
}
INPUTS, TARGETS = torch.randn(2, 12, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def train(rank: int, world_size: int, name: str) -> tuple[list[Tensor], int]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 5)).double()
    optimizer: Any = ShardedOptimizer(model.parameters(), OPTIMIZERS[name]) if world_size > 1 else None
    optimizer = optimizer or OPTIMIZERS[name](model.parameters())
    for _ in range(20):
        optimizer.zero_grad()
        (model(INPUTS.chunk(world_size)[rank]) - TARGETS.chunk(world_size)[rank]).square().mean().backward()
        optimizer.step()
    state = sum(v.numel() for s in optimizer.state.values() for v in s.values() if isinstance(v, Tensor) and v.dim())
    return [parameter.detach() for parameter in model.parameters()], state


@pytest.mark.parametrize("world_size", by_day([3, 4], 1))
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_sharded_optimizer_takes_the_steps_of_one_process_and_remembers_its_part(name: str, world_size: int) -> None:
    ((right, whole_state),) = launch(train, 1, name)
    for weights, state in launch(train, world_size, name):
        torch.testing.assert_close(weights, right, rtol=1e-10, atol=1e-10)
        assert whole_state / world_size <= state < whole_state / world_size + 2


def test_after_a_step_the_gradients_of_the_shard_are_let_go() -> None:
    def run(rank: int, world_size: int) -> tuple[bool, int]:
        model = nn.Linear(3, 4)
        optimizer = ShardedOptimizer(model.parameters(), OPTIMIZERS["adam"])
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        kept = [tensor for group in optimizer.param_groups for tensor in group["params"]]
        return [tensor.grad for tensor in kept] == [None], sum(tensor.numel() for tensor in kept)

    assert list(launch(run, 2)) == [(True, 8)] * 2
