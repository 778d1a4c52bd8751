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


# of learners who have read only the lesson


def by_tensor_split_of_the_padded(flat: Tensor) -> Tensor:
    rank, world_size = who()
    rest = -len(flat) % world_size
    whole = torch.nn.functional.pad(flat, (0, rest))
    return whole.tensor_split(world_size)[rank].clone()


def into_zeros(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = (len(flat) + world_size - 1) // world_size
    mine = torch.zeros(length, dtype=flat.dtype)
    piece = flat[rank * length : (rank + 1) * length]
    mine[: len(piece)] = piece
    return mine


def by_chunk(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = math.ceil(flat.numel() / world_size)
    padded = torch.zeros(length * world_size, dtype=flat.dtype)
    padded[: flat.numel()].copy_(flat)
    return padded.chunk(world_size)[rank].detach().clone()


def with_indices(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = -(-flat.numel() // world_size)
    places = torch.arange(rank * length, (rank + 1) * length)
    return torch.where(places < len(flat), flat[places.clamp(max=len(flat) - 1)], torch.zeros((), dtype=flat.dtype))


def of_numbers(flat: Tensor) -> Tensor:
    rank, world_size = who()
    numbers = flat.tolist()
    while len(numbers) % world_size:
        numbers.append(0)
    length = len(numbers) // world_size
    return torch.tensor(numbers[rank * length : (rank + 1) * length], dtype=flat.dtype)


RIGHT += [by_tensor_split_of_the_padded, into_zeros, by_chunk, with_indices, of_numbers]


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
    (the_whole, "Every rank returns as many elements as the whole tensor has. Return only this rank's shard"),
    (
        without_the_rest,
        "The remainder is lost: 1 element is not assigned to any rank. Round the length up, and pad with zeros",
    ),
    (
        not_filled_up,
        "It works for a tensor of shape [120], float32, but fails for a length not divisible by world_size: "
        "the shards have different lengths, 61 and 60, but all_gather needs equal ones. Pad the shorter "
        "ones with zeros",
    ),
    (
        every_second,
        "It takes every second element, so all_gather would mix up their order. Take one contiguous slice",
    ),
    (in_the_wrong_order, "Rank 0 has the shard of rank 1. Order the shards by rank"),
    (filled_with_ones, "The padding of the last shards is not zero"),
    (filled_with_the_beginning, "The padding of the last shards is not zero"),
    (filled_up_in_front, "The padding comes before the elements. Pad at the end of the tensor"),
    (one_more_than_needed, "The shards are longer than needed. For 120 elements, use 60 per rank"),
    (a_view, "The answer is right, but it is a view that keeps a longer tensor in memory"),
    (a_slice, "The answer is right, but it is a view that keeps a longer tensor in memory"),
    (scattered, "Every rank already has the whole tensor, so no communication is needed. Only slice it"),
    (a_list, "It returns a list of length 60. Return a tensor"),
    (in_floats, "It returns a tensor of dtype float32. Return one of dtype int64"),
    (a_matrix, "It returns a tensor of shape [1, 60]. Return one of shape [60]"),
    (nothing_for_the_last, "Only rank 0 has the answer"),
    (spoils_what_it_was_given, "The answer is right, but the given tensor was changed. Work on a copy: flat.clone()"),
]


def one_too_short(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = len(padded(flat)) // world_size - 1
    return padded(flat)[rank * length : (rank + 1) * length].clone()


def cut_before_it_is_filled_up(flat: Tensor) -> Tensor:
    """The length is rounded down, and what is left over is not looked at."""
    rank, world_size = who()
    length = max(1, len(flat) // world_size)
    mine = torch.zeros(length, dtype=flat.dtype)
    piece = flat[rank * length : (rank + 1) * length]
    mine[: len(piece)] = piece
    return mine


def half_of_it(flat: Tensor) -> Tensor:
    """For two ranks it is right."""
    rank, _ = who()
    length = -(-len(flat) // 2)
    both = torch.cat([flat, flat.new_zeros(2 * length - len(flat))])
    return both[rank * length : (rank + 1) * length].clone()


def a_quarter_of_it(flat: Tensor) -> Tensor:
    rank, _ = who()
    length = -(-len(flat) // 4)
    all_of_it = torch.cat([flat, flat.new_zeros(4 * length - len(flat))])
    return all_of_it[rank * length : (rank + 1) * length].clone()


def the_last_takes_the_rest(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = len(flat) // world_size
    end = len(flat) if rank == world_size - 1 else (rank + 1) * length
    return flat[rank * length : end].clone()


def by_tensor_split(flat: Tensor) -> Tensor:
    rank, world_size = who()
    return flat.tensor_split(world_size)[rank].clone()


def fills_each_one_up(flat: Tensor) -> Tensor:
    """Cut unevenly by tensor_split, and then filled up, so that zeros stand in the middle."""
    rank, world_size = who()
    pieces = flat.tensor_split(world_size)
    return torch.nn.functional.pad(pieces[rank], (0, len(pieces[0]) - len(pieces[rank]))).clone()


def filled_up_with_the_world_size(flat: Tensor) -> Tensor:
    """A whole row of zeros more than needed where the length divides."""
    rank, world_size = who()
    rest = world_size - len(flat) % world_size
    return torch.cat([flat, flat.new_zeros(rest)]).view(world_size, -1)[rank].clone()


def columns(flat: Tensor) -> Tensor:
    rank, world_size = who()
    return padded(flat).view(-1, world_size)[:, rank].clone()


def contiguous_is_no_copy(flat: Tensor) -> Tensor:
    rank, world_size = who()
    return padded(flat).view(world_size, -1)[rank].contiguous()


def detached_only(flat: Tensor) -> Tensor:
    rank, world_size = who()
    return padded(flat).chunk(world_size)[rank].detach()


def empty_at_the_end(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = -(-len(flat) // world_size)
    mine = torch.full((length,), 7, dtype=flat.dtype)
    piece = flat[rank * length : (rank + 1) * length]
    mine[: len(piece)] = piece
    return mine


def counted_from_1(flat: Tensor) -> Tensor:
    rank, world_size = who()
    length = -(-len(flat) // world_size)
    mine = torch.zeros(length, dtype=flat.dtype)
    piece = flat[(rank + 1) * length : (rank + 2) * length]
    mine[: len(piece)] = piece
    return mine


def always_the_first(flat: Tensor) -> Tensor:
    _, world_size = who()
    return padded(flat).view(world_size, -1)[0].clone()


def broadcast_first(flat: Tensor) -> Tensor:
    whole = flat.clone()
    dist.broadcast(whole, 0)
    rank, world_size = who()
    return padded(whole).view(world_size, -1)[rank].clone()


WRONG += [
    (
        one_too_short,
        "The shards are too short: 2 times 59 elements are only 118 of 120. Round the length up",
    ),
    (
        cut_before_it_is_filled_up,
        "The remainder is lost: 1 element is not assigned to any rank. Round the length up, and pad with zeros",
    ),
    (half_of_it, "It works with 2 ranks, but not with 3: the shards have different lengths, 60 and 0"),
    (
        a_quarter_of_it,
        "The shards are too short: 2 times 30 elements are only 60 of 120. Round the length up",
    ),
    (
        the_last_takes_the_rest,
        "It works for a tensor of shape [120], float32, but fails for a length not divisible by world_size: "
        "the shards have different lengths, 61 and 60, but all_gather needs equal ones. Pad the shorter "
        "ones with zeros",
    ),
    (
        by_tensor_split,
        "It works for a tensor of shape [120], float32, but fails for a length not divisible by world_size: "
        "the shards have different lengths, 61 and 60, but all_gather needs equal ones. Pad the shorter "
        "ones with zeros",
    ),
    (fills_each_one_up, "It pads each shard after splitting, so zeros end up in the middle"),
    (filled_up_with_the_world_size, "The shards are longer than needed. For 120 elements, use 60 per rank"),
    (columns, "It takes every second element, so all_gather would mix up their order. Take one contiguous slice"),
    (contiguous_is_no_copy, "The answer is right, but it is a view that keeps a longer tensor in memory"),
    (detached_only, "The answer is right, but it is a view that keeps a longer tensor in memory"),
    (empty_at_the_end, "The padding of the last shards is not zero"),
    (counted_from_1, "Rank 0 has the shard of rank 1"),
    (always_the_first, "Rank 1 has the shard of rank 0"),
    (broadcast_first, "Every rank already has the whole tensor, so no communication is needed. Only slice it"),
]


def empty(flat: Tensor) -> None: ...


STUBS = [empty]
