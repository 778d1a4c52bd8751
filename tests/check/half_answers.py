"""Answers to the exercise `sum_of_half`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


def both_groups() -> list[Any]:
    return [dist.new_group(range(first, dist.get_world_size(), 2)) for first in (0, 1)]


# right


def two_groups(tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor, group=both_groups()[dist.get_rank() % 2])
    return tensor


def in_place(tensor: Tensor) -> None:
    two_groups(tensor)


def by_enumeration(tensor: Tensor) -> Tensor:
    world_size, total = dist.get_world_size(), tensor.clone()
    mine, _ = dist.new_subgroups_by_enumeration([list(range(first, world_size, 2)) for first in (0, 1)])
    dist.all_reduce(total, group=mine)
    return total


def a_group_that_only_its_members_make(tensor: Tensor) -> Tensor:
    half = range(dist.get_rank() % 2, dist.get_world_size(), 2)
    dist.all_reduce(tensor, group=dist.new_group(half, use_local_synchronization=True))
    return tensor


def two_sums_over_all(tensor: Tensor) -> Tensor:
    both = torch.stack([torch.zeros_like(tensor), torch.zeros_like(tensor)])
    both[dist.get_rank() % 2] = tensor
    dist.all_reduce(both)
    return both[dist.get_rank() % 2]


def gathers_and_takes_every_second(tensor: Tensor) -> Tensor:
    received = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(received, tensor)
    return torch.stack(received[dist.get_rank() % 2 :: 2]).sum(0, dtype=tensor.dtype)


def by_messages(tensor: Tensor) -> Tensor:
    half = range(dist.get_rank() % 2, dist.get_world_size(), 2)
    received = torch.empty_like(tensor)
    if dist.get_rank() == half[0]:
        for other in half[1:]:
            dist.recv(received, other)
            tensor += received
        for other in half[1:]:
            dist.send(tensor, other)
    else:
        dist.send(tensor, half[0])
        dist.recv(tensor, half[0])
    return tensor


RIGHT = [
    two_groups,
    in_place,
    by_enumeration,
    a_group_that_only_its_members_make,
    two_sums_over_all,
    gathers_and_takes_every_second,
    by_messages,
]


# of learners who have read only the lesson


def groups_from_a_list(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    halves = [[one for one in range(world_size) if one % 2 == parity] for parity in (0, 1)]
    groups = [dist.new_group(ranks=half) for half in halves]
    dist.all_reduce(tensor, group=groups[rank % 2])
    return tensor


def by_new_subgroups(tensor: Tensor) -> Tensor:
    world_size = dist.get_world_size()
    halves = [list(range(parity, world_size, 2)) for parity in (0, 1)]
    mine, _ = dist.new_subgroups_by_enumeration(halves)
    total = tensor.clone()
    dist.all_reduce(total, group=mine)
    return total


def gathers_in_its_group(tensor: Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    groups = {parity: dist.new_group(list(range(parity, world_size, 2))) for parity in (1, 0)}
    received = [torch.empty_like(tensor) for _ in range(rank % 2, world_size, 2)]
    dist.all_gather(received, tensor.clone(), group=groups[rank % 2])
    tensor.copy_(torch.stack(received).sum(dim=0, dtype=tensor.dtype))


RIGHT += [groups_from_a_list, by_new_subgroups, gathers_in_its_group]


# wrong


def over_all_ranks(tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor)
    return tensor


def front_and_back(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    middle = world_size // 2
    groups = [dist.new_group(range(middle)), dist.new_group(range(middle, world_size))]
    dist.all_reduce(tensor, group=groups[rank >= middle])
    return tensor


def the_other_half(tensor: Tensor) -> Tensor:
    total, received = torch.zeros_like(tensor), [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(received, tensor)
    for other in received[1 - dist.get_rank() % 2 :: 2]:
        total += other
    return total


def only_even_ranks(tensor: Tensor) -> Tensor:
    groups = both_groups()
    if dist.get_rank() % 2 == 0:
        dist.all_reduce(tensor, group=groups[0])
    return tensor


def the_mean(tensor: Tensor) -> Tensor:
    two_groups(tensor)
    return tensor / len(range(dist.get_rank() % 2, dist.get_world_size(), 2))


def only_the_first_of_a_half_has_it(tensor: Tensor) -> Tensor:
    rank, groups, total = dist.get_rank(), both_groups(), tensor.clone()
    dist.reduce(total, rank % 2, group=groups[rank % 2])
    return total if rank < 2 else tensor


def makes_groups_of_its_own_order(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    mine = dist.new_group(range(rank % 2, world_size, 2))
    dist.new_group(range(1 - rank % 2, world_size, 2))
    received = [torch.empty_like(tensor) for _ in range(world_size)]
    dist.all_gather(received, tensor)
    assert mine is not None
    return torch.stack(received[rank % 2 :: 2]).sum(0, dtype=tensor.dtype)


def alone(tensor: Tensor) -> Tensor:
    both_groups()
    return tensor.clone()


WRONG = [
    (over_all_ranks, "Rank 0 ends with the sum over ranks 0 to 3. Sum over all ranks of its half: ranks 0 and 2"),
    (front_and_back, "Rank 0 ends with the sum over ranks 0 and 1. Sum over all ranks of its half: ranks 0 and 2"),
    (the_other_half, "Rank 0 ends with the sum over ranks 1 and 3. Sum over all ranks of its half: ranks 0 and 2"),
    (only_even_ranks, "Rank 1 ends with its own tensor. Sum over all ranks of its half: ranks 1 and 3"),
    (the_mean, "It returns the mean. Leave out the division"),
    (
        only_the_first_of_a_half_has_it,
        "Rank 2 ends with its own tensor. Sum over all ranks of its half: ranks 0 and 2. reduce gives the "
        "sum to one rank only. "
        "Use all_reduce",
    ),
    (makes_groups_of_its_own_order, "The ranks do not create the same groups in the same order"),
    (alone, "Rank 0 ends with its own tensor"),
]


def forgets_to_name_the_group(tensor: Tensor) -> Tensor:
    both_groups()
    dist.all_reduce(tensor)
    return tensor


def reduces_in_its_group(tensor: Tensor) -> Tensor:
    group = both_groups()[dist.get_rank() % 2]
    dist.reduce(tensor, dst=dist.get_rank() % 2, group=group)
    return tensor


def the_group_of_the_others(tensor: Tensor) -> Tensor:
    groups = both_groups()
    group = groups[1 - dist.get_rank() % 2]
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total


def in_single_precision(tensor: Tensor) -> Tensor:
    total = tensor.float()
    dist.all_reduce(total, group=both_groups()[dist.get_rank() % 2])
    return total.to(tensor.dtype)


def adds_a_zero_of_the_others_wrongly(tensor: Tensor) -> Tensor:
    """Two sums over all ranks, and each takes the other."""
    rank = dist.get_rank()
    sums = [tensor.clone() if rank % 2 == parity else torch.zeros_like(tensor) for parity in (0, 1)]
    for one in sums:
        dist.all_reduce(one)
    return sums[(rank + 1) % 2]


def does_not_wait(tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor, group=both_groups()[dist.get_rank() % 2], async_op=True)
    return tensor


WRONG += [
    (
        forgets_to_name_the_group,
        "Rank 0 ends with the sum over ranks 0 to 3. Sum over all ranks of its half: ranks 0 and 2",
    ),
    (reduces_in_its_group, "reduce gives the sum to one rank only"),
    (the_group_of_the_others, "Rank 0 ends with its own tensor"),
    (in_single_precision, "but fails for integers (int64)"),
    (
        adds_a_zero_of_the_others_wrongly,
        "Rank 0 ends with the sum over ranks 1 and 3. Sum over all ranks of its half: ranks 0 and 2",
    ),
    (does_not_wait, "It reads the result of all_reduce too early"),
]


# hanging


def each_makes_its_own_group(tensor: Tensor) -> Tensor:
    """The program of the exercise."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    half = dist.new_group(range(rank % 2, world_size, 2))
    dist.all_reduce(tensor, group=half)
    return tensor


def odd_groups_first_on_odd_ranks(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    mine = dist.new_group(range(rank % 2, world_size, 2))
    dist.new_group(range(1 - rank % 2, world_size, 2))
    dist.all_reduce(tensor, group=mine)
    return tensor


def only_rank_0_makes_a_group(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        dist.all_reduce(tensor, group=dist.new_group(range(0, dist.get_world_size(), 2)))
    return tensor


HANGING = [
    (each_makes_its_own_group, "The ranks do not create the same groups in the same order"),
    (odd_groups_first_on_odd_ranks, "The ranks do not create the same groups in the same order"),
    (only_rank_0_makes_a_group, "The ranks do not create the same groups in the same order"),
]
