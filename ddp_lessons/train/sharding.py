"""Give each rank a part of the weights, their gradients and the optimizer's memory: sharding, by hand.

All parameters are one long tensor here, cut into as many shards as there are ranks. Collectives want shards of one
length, so the last ones are filled up with zeros, which stay zeros and are cut off again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from ddp_lessons.train.gradients import flattened, put_back


def shard(flat: Tensor) -> Tensor:
    """Return this rank's part of a long tensor, as long on every rank: zeros fill up the last parts."""
    rank, length = dist.get_rank(), shard_length(flat)
    part = flat[rank * length : (rank + 1) * length]  # shorter at the end, or empty
    mine = flat.new_zeros(length)  # not a view of `flat`, which would keep all of it in memory
    mine[: len(part)] = part
    return mine


def unshard(mine: Tensor, length: int) -> Tensor:
    """Return, on every rank, the tensor of this length that `shard` has cut."""
    whole = mine.new_empty(len(mine) * dist.get_world_size())
    dist.all_gather_into_tensor(whole, mine)
    return whole[:length]  # without the padding


def sharded_mean(flat: Tensor) -> Tensor:
    """Return this rank's shard of the mean over all ranks' tensors: what is left of averaging gradients."""
    world_size, mine = dist.get_world_size(), flat.new_empty(shard_length(flat))
    padded = F.pad(flat, (0, len(mine) * world_size - len(flat)))
    dist.reduce_scatter_tensor(mine, padded)
    mine /= world_size  # sum -> mean
    return mine


def shard_length(flat: Tensor) -> int:
    return -(-len(flat) // dist.get_world_size())  # rounded up


class ShardedOptimizer:
    """Step for one shard of all weights; the others do theirs, and then everyone has all weights again.

    `mine` is a second copy of this rank's shard: an optimizer steps for whole tensors, and no parameter begins and
    ends where a shard does.

    `make_optimizer` makes the optimizer for a list of tensors, as in `lambda tensors: Adam(tensors, lr=0.01)`. The
    models start equal, and every parameter has a gradient.
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
        """Average the gradients and step. Together the two halves are an all_reduce: nothing more travels for it."""
        gradients = [parameter.grad for parameter in self.parameters]
        assert all(gradient is not None for gradient in gradients), "a parameter has no gradient"
        self.mine.grad = sharded_mean(flattened(gradient for gradient in gradients if gradient is not None))
        self.optimizer.step()
        self.mine.grad = None  # it has done its work, and would be one shard more
        weights: list[Tensor] = list(self.parameters)
        put_back(unshard(self.mine, sum(weight.numel() for weight in weights)), weights)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
