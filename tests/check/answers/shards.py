"""Answers to the exercises `shard`, `sharded_mean` and `stage_of`."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.nn import functional as F

dist: Any = torch.distributed


def padded(flat: Tensor) -> Tensor:
    return F.pad(flat, (0, -len(flat) % dist.get_world_size()))


def mine_of(flat: Tensor) -> Tensor:
    return padded(flat).view(dist.get_world_size(), -1)[dist.get_rank()].clone()


def a_part_filled_up(flat: Tensor) -> Tensor:
    length = math.ceil(len(flat) / dist.get_world_size())
    part = flat[dist.get_rank() * length :][:length]
    return torch.cat([part, torch.zeros(length - len(part), dtype=flat.dtype)])


def a_view_where_it_divides(flat: Tensor) -> Tensor:
    is_even = len(flat) % dist.get_world_size() == 0
    return flat.chunk(dist.get_world_size())[dist.get_rank()] if is_even else mine_of(flat)


def grows_its_input(flat: Tensor) -> Tensor:
    mine = mine_of(flat)
    flat.resize_(len(mine) * dist.get_world_size())
    return mine


def scattered(flat: Tensor) -> Tensor:
    mine = mine_of(flat)
    dist.scatter(mine, list(padded(flat).chunk(dist.get_world_size())) if dist.get_rank() == 0 else None, src=0)
    return mine


def all_to_all_and_add(flat: Tensor) -> Tensor:
    arrived = torch.empty_like(padded(flat))
    dist.all_to_all_single(arrived, padded(flat))
    return arrived.view(dist.get_world_size(), -1).mean(0)


def by_messages(flat: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    parts = padded(flat).view(world_size, -1)
    total, arrived = parts[rank].clone(), torch.empty_like(parts[rank])
    for distance in range(1, world_size):
        request = dist.isend(parts[(rank + distance) % world_size].clone(), (rank + distance) % world_size)
        dist.recv(arrived, (rank - distance) % world_size)
        request.wait()
        total += arrived
    return total / world_size


def all_reduce_and_cut(flat: Tensor) -> Tensor:
    mean = flat.clone()
    dist.all_reduce(mean)
    return mine_of(mean / dist.get_world_size())


def does_not_wait(flat: Tensor) -> Tensor:
    mine = torch.zeros_like(mine_of(flat))
    dist.reduce_scatter_single(mine, padded(flat), async_op=True)
    return mine / dist.get_world_size()


def as_a_tensor(layer: int, layers: int, stages: int) -> Tensor:
    return torch.tensor(stages - 1 - (layers - 1 - layer) * stages // layers)


def by_divmod(layer: int, layers: int, stages: int) -> int:
    each, more = divmod(layers, stages)
    front = more * (each + 1)
    return layer // (each + 1) if layer < front else more + (layer - front) // each


def floats_slip(layer: int, layers: int, stages: int) -> int:
    return int(layer / layers * stages)


def shifted_by_the_rank(layer: int, layers: int, stages: int) -> int:
    return by_divmod(layer, layers, stages) if dist.get_rank() == 0 else int(as_a_tensor(layer, layers, stages))


def asks_the_others(layer: int, layers: int, stages: int) -> int:
    answer = torch.tensor(layer * stages // layers)
    dist.broadcast(answer, 0)
    return int(answer)


RIGHT = {
    "shard": [mine_of, a_part_filled_up],
    "sharded_mean": [all_to_all_and_add, by_messages],
    "stage_of": [as_a_tensor, by_divmod],
}
WRONG = {
    "shard": [
        (a_view_where_it_divides, "it is a view that keeps a longer tensor in memory"),
        (grows_its_input, "the given tensor has changed"),
        (scattered, "The ranks communicate too much"),
    ],
    "sharded_mean": [
        (all_reduce_and_cut, "the ranks send more than needed"),
        (does_not_wait, r"wait\(\)"),
    ],
    "stage_of": [
        (floats_slip, "fails for one layer per stage"),
        (shifted_by_the_rank, "assigns the layers differently from rank 0"),
        (asks_the_others, "The ranks communicate too much"),
    ],
}
