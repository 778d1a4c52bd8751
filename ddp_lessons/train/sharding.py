"""Give each rank a part of the weights, their gradients and the optimizer state: sharding by hand.

All parameters are one long tensor here, cut into as many shards as there are ranks. Collectives need shards of equal
length, so the last ones are padded with zeros, which stay zero and are cut off again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

import ddp_lessons.older_torch  # noqa: F401  so that the names below exist
from ddp_lessons.train.gradients import flattened, put_back


def shard(flat: Tensor) -> Tensor:
    """Return this rank's part of a long tensor. All parts have the same length; zeros pad the last ones."""
    rank, length = dist.get_rank(), shard_length(flat)
    part = flat[rank * length : (rank + 1) * length]  # shorter at the end, or empty
    mine = flat.new_zeros(length)  # not a view, which would keep all of `flat` in memory
    mine[: len(part)] = part
    return mine


def unshard(mine: Tensor, length: int) -> Tensor:
    """Undo `shard`: return the whole tensor, of this length, on every rank."""
    whole = mine.new_empty(len(mine) * dist.get_world_size())
    dist.all_gather_single(whole, mine)
    return whole[:length]  # without the padding


def sharded_mean(flat: Tensor) -> Tensor:
    """Return this rank's shard of the mean over all ranks' tensors: the sharded form of averaging gradients."""
    world_size, mine = dist.get_world_size(), flat.new_empty(shard_length(flat))
    padded = F.pad(flat, (0, len(mine) * world_size - len(flat)))
    dist.reduce_scatter_single(mine, padded)
    mine /= world_size  # sum -> mean
    return mine


def shard_length(flat: Tensor) -> int:
    return -(-len(flat) // dist.get_world_size())  # rounded up


class ShardedOptimizer:
    """Update one shard of all weights on each rank, then give every rank all weights again.

    `mine` is a second copy of this rank's shard, because an optimizer updates whole tensors, and parameters don't start
    and end where shards do.

    `make_optimizer` creates the optimizer for a list of tensors, such as `lambda tensors: Adam(tensors, lr=0.01)`. The
    models must start equal, and every parameter needs a gradient.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], make_optimizer: Callable[[list[Tensor]], Optimizer]) -> None:
        self.parameters = list(parameters)
        self.mine = shard(flattened(parameter.detach() for parameter in self.parameters))
        self.optimizer = make_optimizer([self.mine])

    @property
    def state(self) -> dict[Tensor, dict[str, object]]:
        return self.optimizer.state

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    @torch.no_grad()
    def step(self) -> None:
        """Average the gradients and step. The two halves together are an all_reduce, with the same traffic."""
        gradients = [parameter.grad for parameter in self.parameters]
        assert all(gradient is not None for gradient in gradients), "a parameter has no gradient"
        self.mine.grad = sharded_mean(flattened(gradient for gradient in gradients if gradient is not None))
        self.optimizer.step()
        self.mine.grad = None  # it is no longer needed, and would take the memory of one more shard
        weights: list[Tensor] = list(self.parameters)
        put_back(unshard(self.mine, sum(weight.numel() for weight in weights)), weights)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
