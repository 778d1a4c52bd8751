"""Answers to the exercises `shard`, `sharded_mean` and `stage_of`."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import bisect
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


def of_numbers(flat: Tensor) -> Tensor:
    numbers = [*flat.tolist(), *[0] * (-len(flat) % dist.get_world_size())]
    length = len(numbers) // dist.get_world_size()
    return torch.tensor(numbers[dist.get_rank() * length :][:length], dtype=flat.dtype)


def by_places(flat: Tensor) -> Tensor:
    length = -(-len(flat) // dist.get_world_size())
    places = torch.arange(length) + dist.get_rank() * length
    return torch.where(places < len(flat), flat[places.clamp(max=len(flat) - 1)], torch.zeros((), dtype=flat.dtype))


def half_of_it(flat: Tensor) -> Tensor:
    """Right for two ranks."""
    length = -(-len(flat) // 2)
    return F.pad(flat, (0, 2 * length - len(flat)))[dist.get_rank() * length :][:length].clone()


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


def from_a_list(flat: Tensor) -> Tensor:
    parts = list(padded(flat).chunk(dist.get_world_size()))
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts)
    return mine / dist.get_world_size()


def all_to_all_and_add(flat: Tensor) -> Tensor:
    arrived = torch.empty_like(padded(flat))
    dist.all_to_all_single(arrived, padded(flat))
    return arrived.view(dist.get_world_size(), -1).mean(0)


def reduced_one_by_one(flat: Tensor) -> Tensor:
    parts = [part.clone() for part in padded(flat).chunk(dist.get_world_size())]
    for rank, part in enumerate(parts):
        dist.reduce(part, rank)
    return parts[dist.get_rank()] / dist.get_world_size()


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


def through_rank_0(flat: Tensor) -> Tensor:
    whole, mine = padded(flat).clone(), mine_of(flat)
    dist.reduce(whole, 0)
    dist.scatter(mine, list(whole.chunk(dist.get_world_size())) if dist.get_rank() == 0 else None, 0)
    return mine / dist.get_world_size()


def in_single_precision(flat: Tensor) -> Tensor:
    return from_a_list(flat.float())


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


def by_rounded_borders(layer: int, layers: int, stages: int) -> int:
    return bisect.bisect_right([round(stage * layers / stages) for stage in range(1, stages)], layer)


def dealt_and_sorted(layer: int, layers: int, stages: int) -> int:
    return sorted(other % stages for other in range(layers))[layer]


def floats_slip(layer: int, layers: int, stages: int) -> int:
    return int(layer / layers * stages)


def shifted_by_the_rank(layer: int, layers: int, stages: int) -> int:
    return by_divmod(layer, layers, stages) if dist.get_rank() == 0 else int(as_a_tensor(layer, layers, stages))


def a_whole_float(layer: int, layers: int, stages: int) -> float:
    return float(layer * stages // layers)


def asks_the_others(layer: int, layers: int, stages: int) -> int:
    answer = torch.tensor(layer * stages // layers)
    dist.broadcast(answer, 0)
    return int(answer)


RIGHT = {
    "shard": [mine_of, a_part_filled_up, of_numbers, by_places],
    "sharded_mean": [from_a_list, all_to_all_and_add, reduced_one_by_one, by_messages],
    "stage_of": [as_a_tensor, by_divmod, by_rounded_borders, dealt_and_sorted],
}
WRONG = {
    "shard": [half_of_it, a_view_where_it_divides, grows_its_input, scattered],
    "sharded_mean": [all_reduce_and_cut, through_rank_0, in_single_precision, does_not_wait],
    "stage_of": [floats_slip, shifted_by_the_rank, a_whole_float, asks_the_others],
}
