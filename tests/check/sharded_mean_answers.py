"""Answers to the exercise `sharded_mean`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.nn import functional as F

dist: Any = torch.distributed


def pieces(flat: Tensor) -> list[Tensor]:
    world_size = dist.get_world_size()
    return list(F.pad(flat, (0, -len(flat) % world_size)).chunk(world_size))


# right


def from_a_list(flat: Tensor) -> Tensor:
    parts = pieces(flat)
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, [part.contiguous() for part in parts])
    return mine / dist.get_world_size()


def divided_before(flat: Tensor) -> Tensor:
    parts = torch.cat(pieces(flat / dist.get_world_size()))
    mine = flat.new_empty(len(parts) // dist.get_world_size())
    dist.reduce_scatter_single(mine, parts)
    return mine


def all_to_all_and_add(flat: Tensor) -> Tensor:
    parts = torch.cat(pieces(flat))
    theirs = torch.empty_like(parts)
    dist.all_to_all_single(theirs, parts)
    return theirs.view(dist.get_world_size(), -1).mean(0)


def reduced_one_by_one(flat: Tensor) -> Tensor:
    parts = [part.clone() for part in pieces(flat)]
    for rank, part in enumerate(parts):
        dist.reduce(part, rank)
    return parts[dist.get_rank()] / dist.get_world_size()


RIGHT = [from_a_list, divided_before, all_to_all_and_add, reduced_one_by_one]


# of learners who have read only the lesson


def padded_to_a_multiple(flat: Tensor) -> Tensor:
    rest = -len(flat) % dist.get_world_size()
    return torch.nn.functional.pad(flat, (0, rest))


def into_a_new_tensor(flat: Tensor) -> Tensor:
    whole = padded_to_a_multiple(flat)
    mine = whole.new_empty(len(whole) // dist.get_world_size())
    dist.reduce_scatter_single(mine, whole)
    return mine / dist.get_world_size()


def with_a_handle(flat: Tensor) -> Tensor:
    whole = padded_to_a_multiple(flat) / dist.get_world_size()
    mine = torch.empty(len(whole) // dist.get_world_size(), dtype=flat.dtype)
    work = dist.reduce_scatter_single(mine, whole, op=dist.ReduceOp.SUM, async_op=True)
    work.wait()
    return mine


def by_messages(flat: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    parts = list(padded_to_a_multiple(flat).chunk(world_size))
    total = parts[rank].clone()
    for distance in range(1, world_size):
        arrived = torch.empty_like(total)
        request = dist.isend(parts[(rank + distance) % world_size].clone(), (rank + distance) % world_size)
        dist.recv(arrived, (rank - distance) % world_size)
        request.wait()
        total += arrived
    return total.div_(world_size)


def all_to_all_in_one(flat: Tensor) -> Tensor:
    whole = padded_to_a_multiple(flat).contiguous()
    arrived = torch.empty_like(whole)
    dist.all_to_all_single(arrived, whole)
    return arrived.view(dist.get_world_size(), -1).mean(dim=0)


def round_a_ring(flat: Tensor) -> Tensor:
    """The first half of the ring all-reduce."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    parts = [part.clone() for part in padded_to_a_multiple(flat).chunk(world_size)]
    for step in range(world_size - 1):
        arrived = torch.empty_like(parts[0])
        request = dist.isend(parts[(rank - step - 1) % world_size], (rank + 1) % world_size)
        dist.recv(arrived, (rank - 1) % world_size)
        request.wait()
        parts[(rank - step - 2) % world_size] += arrived
    return parts[rank] / world_size


RIGHT += [into_a_new_tensor, with_a_handle, by_messages, all_to_all_in_one, round_a_ring]


# wrong


def all_reduce_and_cut(flat: Tensor) -> Tensor:
    mean = torch.cat(pieces(flat))
    dist.all_reduce(mean)
    return (mean / dist.get_world_size()).chunk(dist.get_world_size())[dist.get_rank()].clone()


def gathers_everything(flat: Tensor) -> Tensor:
    everything = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(everything, flat)
    return pieces(torch.stack(everything).mean(0))[dist.get_rank()].clone()


def the_sum(flat: Tensor) -> Tensor:
    return from_a_list(flat) * dist.get_world_size()


def alone(flat: Tensor) -> Tensor:
    return pieces(flat)[dist.get_rank()].clone()


def the_next_ones(flat: Tensor) -> Tensor:
    parts = pieces(flat)
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, [part.contiguous() for part in (*parts[1:], parts[0])])
    return mine / dist.get_world_size()


def the_whole_mean(flat: Tensor) -> Tensor:
    mean = flat.clone()
    dist.all_reduce(mean)
    return mean / dist.get_world_size()


def without_the_rest(flat: Tensor) -> Tensor:
    world_size = dist.get_world_size()
    length = len(flat) // world_size
    mine = flat.new_empty(length)
    dist.reduce_scatter(mine, [flat[n * length : (n + 1) * length].clone() for n in range(world_size)])
    return mine / world_size


def not_filled_up(flat: Tensor) -> Tensor:
    world_size = dist.get_world_size()
    mine = flat.new_empty(-(-len(flat) // world_size))
    dist.reduce_scatter_single(mine, flat)
    return mine / world_size


def not_filled_up_as_a_list(flat: Tensor) -> Tensor:
    world_size = dist.get_world_size()
    mine = flat.new_empty(-(-len(flat) // world_size))
    dist.reduce_scatter(mine, list(flat.chunk(world_size)))
    return mine / world_size


def swapped(flat: Tensor) -> Tensor:
    parts = torch.cat(pieces(flat))
    mine = flat.new_empty(len(parts) // dist.get_world_size())
    dist.reduce_scatter_single(parts, mine)
    return mine / dist.get_world_size()


def cut_and_all_reduce(flat: Tensor) -> Tensor:
    mine = pieces(flat)[dist.get_rank()].clone()
    dist.all_reduce(mine)
    return mine / dist.get_world_size()


def cut_and_all_gather(flat: Tensor) -> Tensor:
    mine = pieces(flat)[dist.get_rank()].clone()
    everything = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everything, mine)
    return torch.stack(everything).sum(0)


def divided_by_the_length(flat: Tensor) -> Tensor:
    return the_sum(flat) / len(flat)


def divided_twice(flat: Tensor) -> Tensor:
    return from_a_list(flat / dist.get_world_size())


def off_by_a_fraction(flat: Tensor) -> Tensor:
    return from_a_list(flat) * 0.3


def split_in_parts(flat: Tensor) -> Tensor:
    parts = [part.clone() for part in flat.tensor_split(dist.get_world_size())]
    for rank, part in enumerate(parts):
        dist.reduce(part, rank)
    return parts[dist.get_rank()] / dist.get_world_size()


def forgets_to_return(flat: Tensor) -> None:
    from_a_list(flat)


def spoils_what_it_was_given(flat: Tensor) -> Tensor:
    mine = from_a_list(flat)
    flat.zero_()
    return mine


WRONG = [
    (
        all_reduce_and_cut,
        "The answer is right, but 2 times as much is communicated as needed. Each rank needs only its shard of "
        "the mean, so use reduce_scatter",
    ),
    (
        gathers_everything,
        "times as much is communicated as needed. Each rank needs only its shard of the mean, so use reduce_scatter",
    ),
    (the_sum, "It returns the sum. Divide it by the number of ranks"),
    (alone, "Rank 0 returns only its own values. Sum the values over all ranks, then divide by the number of ranks"),
    (the_next_ones, "Rank 0 has the shard of rank 1. Order the shards by rank"),
    (the_whole_mean, "Every rank returns as many elements as the whole tensor has. Return only this rank's shard"),
    (
        without_the_rest,
        "The remainder is lost: 1 element is not assigned to any rank. Round the length up, and pad with zeros",
    ),
    (not_filled_up, "Pad the tensor with zeros to a multiple of world_size, and pass the shard first"),
    (
        not_filled_up_as_a_list,
        "Pad the tensor with zeros to a multiple of world_size, and pass the shard first",
    ),
    (swapped, "The arguments of reduce_scatter_single are swapped. Pass the shard first, then the whole tensor"),
    (
        cut_and_all_reduce,
        "It adds up pieces from different positions. For shard r, add up piece r of every rank's tensor",
    ),
    (
        cut_and_all_gather,
        "It adds up pieces from different positions. For shard r, add up piece r of every rank's tensor",
    ),
    (divided_by_the_length, "It divides the sum by 120. Divide by the number of ranks, here 2"),
    (divided_twice, "It divides the sum by 4. Divide by the number of ranks, here 2"),
    (off_by_a_fraction, "It is 0.3 times the mean. Divide the sum by the number of ranks, here 2"),
    (
        split_in_parts,
        "It works for a tensor of shape [120], float32, but fails for a length not divisible by world_size: "
        "the shards have different lengths, 61 and 60, but all_gather needs equal ones. Pad the shorter "
        "ones with zeros",
    ),
    (forgets_to_return, "It returns None. Return the answer, and leave the given tensor unchanged"),
    (spoils_what_it_was_given, "The answer is right, but the given tensor was changed. Work on a copy: flat.clone()"),
]


def one_too_short(flat: Tensor) -> Tensor:
    mine = into_a_new_tensor(flat)
    return mine[:-1].clone()


def without_what_fills_up(flat: Tensor) -> Tensor:
    """Zeros are cut off again."""
    mine, rank = into_a_new_tensor(flat), dist.get_rank()
    return mine[: max(0, len(flat) - rank * len(mine))].clone()


def reduce_to_rank_0(flat: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    whole = padded_to_a_multiple(flat).clone()
    dist.reduce(whole, 0)
    return whole.chunk(world_size)[rank].clone() / world_size


def reduced_and_scattered(flat: Tensor) -> Tensor:
    """All through rank 0."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    whole = padded_to_a_multiple(flat).clone()
    dist.reduce(whole, 0)
    mine = torch.empty(len(whole) // world_size, dtype=flat.dtype)
    dist.scatter(mine, [part.clone() for part in whole.chunk(world_size)] if rank == 0 else None, 0)
    return mine / world_size


def only_rank_0_divides(flat: Tensor) -> Tensor:
    mine = into_a_new_tensor(flat)
    return mine if dist.get_rank() == 0 else mine * dist.get_world_size()


def the_largest(flat: Tensor) -> Tensor:
    whole = padded_to_a_multiple(flat)
    mine = torch.empty(len(whole) // dist.get_world_size(), dtype=flat.dtype)
    dist.reduce_scatter_single(mine, whole, op=dist.ReduceOp.MAX)
    return mine


def for_four_ranks(flat: Tensor) -> Tensor:
    whole = torch.nn.functional.pad(flat, (0, -len(flat) % 4))
    mine = torch.empty(len(whole) // 4, dtype=flat.dtype)
    dist.reduce_scatter_single(mine, whole)
    return mine / 4


def in_single_precision(flat: Tensor) -> Tensor:
    return into_a_new_tensor(flat.float())


def filled_up_in_front(flat: Tensor) -> Tensor:
    return into_a_new_tensor(torch.nn.functional.pad(flat, (-len(flat) % dist.get_world_size(), 0)))


def the_mean_over_its_elements(flat: Tensor) -> Tensor:
    mine = into_a_new_tensor(flat)
    return mine.mean().expand(len(mine)).clone()


def does_not_wait(flat: Tensor) -> Tensor:
    whole = padded_to_a_multiple(flat)
    mine = torch.zeros(len(whole) // dist.get_world_size(), dtype=flat.dtype)
    dist.reduce_scatter_single(mine, whole, async_op=True)
    return mine / dist.get_world_size()


def scattered_from_rank_0(flat: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    whole = padded_to_a_multiple(flat)
    mine = torch.empty(len(whole) // world_size, dtype=flat.dtype)
    dist.scatter(mine, list(whole.chunk(world_size)) if rank == 0 else None, 0)
    return mine


def by_columns(flat: Tensor) -> Tensor:
    world_size = dist.get_world_size()
    whole = padded_to_a_multiple(flat)
    turned = whole.view(-1, world_size).t().reshape(-1).contiguous()
    mine = torch.empty(len(whole) // world_size, dtype=flat.dtype)
    dist.reduce_scatter_single(mine, turned)
    return mine / world_size


def takes_what_the_call_returns(flat: Tensor) -> Tensor:
    whole = padded_to_a_multiple(flat)
    mine = torch.empty(len(whole) // dist.get_world_size(), dtype=flat.dtype)
    return dist.reduce_scatter_single(mine, whole) / dist.get_world_size()


def half_for_each(flat: Tensor) -> Tensor:
    whole = padded_to_a_multiple(flat)
    mine = torch.empty(len(whole) // 2, dtype=flat.dtype)
    dist.reduce_scatter_single(mine, whole)
    return mine / dist.get_world_size()


WRONG += [
    (
        one_too_short,
        "The shards are too short: 2 times 59 elements are only 118 of 120. Round the length up",
    ),
    (
        without_what_fills_up,
        "It works for a tensor of shape [120], float32, but fails for a length not divisible by world_size: "
        "the shards have different lengths, 61 and 60, but all_gather needs equal ones. Pad the shorter "
        "ones with zeros",
    ),
    (reduce_to_rank_0, "reduce gives the sum to one rank only"),
    (
        reduced_and_scattered,
        "times as much is communicated as needed. Each rank needs only its shard of the mean, so use reduce_scatter",
    ),
    (only_rank_0_divides, "Only rank 0 is right. On rank 1, it returns the sum. Divide it by the number of ranks"),
    (the_largest, "Rank 0 has the largest of the ranks' elements, not their mean"),
    (
        for_four_ranks,
        "Size mismatch in reduce_scatter_single: 2 shards of 30 elements make 60 elements, but the whole tensor "
        "has 120. Divide its length by dist.get_world_size()",
    ),
    (in_single_precision, "It returns a tensor of dtype float32. Return one of dtype float64"),
    (filled_up_in_front, "The padding comes before the elements. Pad at the end of the tensor"),
    (the_mean_over_its_elements, "are equal. Take the mean over the ranks, not over the elements"),
    (does_not_wait, "too early"),
    (
        scattered_from_rank_0,
        "Rank 0 returns only its own values. Sum the values over all ranks, then divide by the number of ranks",
    ),
    (by_columns, "It takes every second element, so all_gather would mix up their order. Take one contiguous slice"),
    (takes_what_the_call_returns, "reduce_scatter_single returns None"),
    (
        half_for_each,
        "It works with 2 ranks, but not with 3: size mismatch in reduce_scatter_single: 3 shards of 60 elements "
        "make 180 elements, but",
    ),
]


def only_rank_0_comes(flat: Tensor) -> Tensor:
    return from_a_list(flat) if dist.get_rank() == 0 else flat


HANGING = [(only_rank_0_comes, "Not every rank calls reduce_scatter, so the ranks that call it wait forever")]


def empty(flat: Tensor) -> None: ...


STUBS = [empty]
