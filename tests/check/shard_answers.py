"""Answers to the exercise `shard`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.nn import functional as F

dist: Any = torch.distributed


def who() -> tuple[int, int]:
    return dist.get_rank(), dist.get_world_size()


def padded(flat: Tensor) -> Tensor:
    return F.pad(flat, (0, -len(flat) % dist.get_world_size()))


# right


def a_row_of_the_padded(flat: Tensor) -> Tensor:
    rank, world_size = who()
    return padded(flat).view(world_size, -1)[rank].clone()


def a_chunk_filled_up(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = math.ceil(len(flat) / world_size)
    part = flat[rank * length : (rank + 1) * length]
    return torch.cat([part, torch.zeros(length - len(part), dtype=flat.dtype)])


def number_by_number(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = -(-len(flat) // world_size)
    numbers = flat.tolist() + [0] * (length * world_size - len(flat))
    return torch.tensor(numbers[rank * length : (rank + 1) * length], dtype=flat.dtype)


RIGHT = [a_row_of_the_padded, a_chunk_filled_up, number_by_number]


# wrong


def the_whole(flat: Tensor) -> Tensor:
    return flat.clone()


def without_the_rest(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = len(flat) // world_size
    return flat[rank * length : (rank + 1) * length].clone()


def not_filled_up(flat: Tensor) -> Tensor:
    rank, world_size = who()
    return flat.tensor_split(world_size)[rank].clone()


def every_second(flat: Tensor) -> Tensor:
    rank, world_size = who()
    return padded(flat)[rank::world_size].clone()


def in_the_wrong_order(flat: Tensor) -> Tensor:
    rank, world_size = who()
    return padded(flat).chunk(world_size)[world_size - 1 - rank].clone()


def filled_with_ones(flat: Tensor) -> Tensor:
    rank, world_size = who()
    return F.pad(flat, (0, -len(flat) % world_size), value=1).chunk(world_size)[rank].clone()


def filled_with_the_beginning(flat: Tensor) -> Tensor:
    rank, world_size = who()
    rest = -len(flat) % world_size
    return torch.cat([flat, flat[:1].expand(rest)]).chunk(world_size)[rank].clone()


def filled_up_in_front(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = -(-len(flat) // world_size)
    part = flat[rank * length : (rank + 1) * length]
    return F.pad(part, (length - len(part), 0))


def one_more_than_needed(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = len(flat) // world_size + 1
    return F.pad(flat, (0, length * world_size - len(flat)))[rank * length : (rank + 1) * length].clone()


def a_view(flat: Tensor) -> Tensor:
    rank, world_size = who()
    return padded(flat).chunk(world_size)[rank]


def a_slice(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = -(-len(flat) // world_size)
    part = flat[rank * length : (rank + 1) * length]
    return part if len(part) == length else F.pad(part, (0, length - len(part)))


def scattered(flat: Tensor) -> Tensor:
    rank, world_size = who()
    whole = padded(flat)
    mine = torch.empty(len(whole) // world_size, dtype=flat.dtype)
    dist.scatter(mine, list(whole.chunk(world_size)) if rank == 0 else None, src=0)
    return mine


def a_list(flat: Tensor) -> list[float]:
    return a_row_of_the_padded(flat).tolist()


def in_floats(flat: Tensor) -> Tensor:
    return a_row_of_the_padded(flat).float()


def a_matrix(flat: Tensor) -> Tensor:
    return a_row_of_the_padded(flat)[None].clone()


def nothing_for_the_last(flat: Tensor) -> Tensor | None:
    rank, world_size = who()
    return a_row_of_the_padded(flat) if rank < world_size - 1 else None


def spoils_what_it_was_given(flat: Tensor) -> Tensor:
    mine = a_row_of_the_padded(flat)
    flat.zero_()
    return mine


WRONG = [
    (the_whole, "Every rank keeps the whole tensor: return only the part of this rank"),
    (without_the_rest, "The remainder is lost, 1 element is on no rank: round the length up"),
    (not_filled_up, "The shards have different lengths, 61 and 60, and all_gather wants equal ones"),
    (every_second, "It takes every second element: a shard is one piece"),
    (in_the_wrong_order, "Rank 0 has the shard of rank 1: shards follow each other in the order of the ranks"),
    (filled_with_ones, "What fills up the last shards is not zero"),
    (filled_with_the_beginning, "What fills up the last shards is not zero"),
    (filled_up_in_front, "The zeros stand before the elements: fill up at the end"),
    (one_more_than_needed, "The shards are longer than they have to be: 60 elements for each rank are enough for 120"),
    (a_view, "it is a view of something longer, and as long as it lives, all of that stays in memory"),
    (a_slice, "it is a view of something longer"),
    (scattered, "Every rank has the whole tensor already: nothing has to travel"),
    (a_list, "It returns a list of 60, not a tensor"),
    (in_floats, "It returns a tensor of another dtype: float32 instead of int64"),
    (a_matrix, "It returns a tensor of another shape: [1, 60]"),
    (nothing_for_the_last, "Only rank 0 has the answer"),
    (spoils_what_it_was_given, "The answer is right, but the given tensor was changed on the way"),
]


def empty(flat: Tensor) -> None: ...


STUBS = [empty]
