import os
import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def half_all_make_both_groups(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    halves = [dist.new_group(range(first, n, 2)) for first in range(min(2, n))]
    dist.all_reduce(tensor, group=halves[rank % 2])
    return tensor
right(half_all_make_both_groups, "everyone makes both groups in the same order")


def half_even_and_odd_by_name(tensor):
    ranks = list(range(dist.get_world_size()))
    evens = dist.new_group(ranks[::2])
    odds = dist.new_group(ranks[1::2]) if len(ranks) > 1 else None
    if dist.get_rank() % 2 == 0:
        dist.all_reduce(tensor, group=evens)
    else:
        dist.all_reduce(tensor, group=odds)
    return tensor
right(half_even_and_odd_by_name, "two names, an if")


def half_without_groups_by_gathering(tensor):
    room = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(room, tensor)
    tensor.copy_(sum(room[dist.get_rank() % 2 :: 2]))
    return tensor
right(half_without_groups_by_gathering, "no groups: all_gather and every second one")


def half_in_two_rows(tensor):
    table = torch.stack([torch.zeros_like(tensor)] * 2)
    table[dist.get_rank() % 2] = tensor
    dist.all_reduce(table)
    tensor.copy_(table[dist.get_rank() % 2])
    return tensor
right(half_in_two_rows, "one all_reduce of two rows, mine in one of them")


def half_two_masked_sums(tensor):
    mine = dist.get_rank() % 2
    sums = [tensor.clone() if mine == half else torch.zeros_like(tensor) for half in (0, 1)]
    for s in sums:
        dist.all_reduce(s)
    tensor.copy_(sums[mine])
    return tensor
right(half_two_masked_sums, "two all_reduces of the whole world, zeros from the other half")


def half_by_messages(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    leader, got = rank % 2, torch.empty_like(tensor)
    if rank == leader:
        for other in range(leader + 2, n, 2):
            dist.recv(got, other)
            tensor += got
        for other in range(leader + 2, n, 2):
            dist.send(tensor, other)
    else:
        dist.send(tensor, leader)
        dist.recv(tensor, leader)
    return tensor
right(half_by_messages, "messages to 0 and to 1")


def half_subgroups_by_enumeration(tensor):
    ranks = range(dist.get_world_size())
    lists = [list(part) for part in (ranks[::2], ranks[1::2]) if part]
    mine, _ = dist.new_subgroups_by_enumeration(lists)
    dist.all_reduce(tensor, group=mine)
    return tensor
right(half_subgroups_by_enumeration, "torch's own: new_subgroups_by_enumeration")


def half_local_synchronization(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(list(range(rank % 2, n, 2)), use_local_synchronization=True)
    dist.all_reduce(tensor, group=group)
    return tensor
right(half_local_synchronization, "torch documents that with use_local_synchronization only members need to call (gloo)")


def half_as_found(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(range(rank % 2, n, 2))
    dist.all_reduce(tensor, group=group)
    return tensor
wrong(half_as_found, "unchanged: each makes only its own group", "new_group, every rank, both groups")


def half_own_group_first(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    mine = dist.new_group(range(rank % 2, n, 2))
    if n > 1:
        dist.new_group(range(1 - rank % 2, n, 2))
    dist.all_reduce(tensor, group=mine)
    return tensor
wrong(half_own_group_first, "both groups, but everyone its own first: another order", "same order, new_group")


def half_members_only(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank % 2 == 0:
        group = dist.new_group(list(range(0, n, 2)))
    else:
        group = dist.new_group(list(range(1, n, 2)))
    dist.all_reduce(tensor, group=group)
    return tensor
wrong(half_members_only, "the same mistake as an if", "new_group, every rank, both groups")


def half_barrier_before_the_group(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    group = dist.new_group(range(rank % 2, n, 2))
    dist.all_reduce(tensor, group=group)
    return tensor
wrong(half_barrier_before_the_group, "believes a barrier cures it", "new_group, every rank, barrier")


def half_odds_come_later(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    time.sleep(0.1 * (rank % 2))
    group = dist.new_group(range(rank % 2, n, 2))
    dist.all_reduce(tensor, group=group)
    return tensor
wrong(half_odds_come_later, "lets the odd ranks come later", "new_group, every rank, sleep")


def half_of_the_whole_world(tensor):
    dist.all_reduce(tensor)
    return tensor
wrong(half_of_the_whole_world, "the sum over all", "group, even, all ranks")


def half_divided_by_two(tensor):
    dist.all_reduce(tensor)
    return tensor / 2
wrong(half_divided_by_two, "takes half of the sum for the sum of half", "group, half, sum over even ranks")


def half_lower_and_upper(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    lower = dist.new_group(range((n + 1) // 2))
    upper = dist.new_group(range((n + 1) // 2, n)) if n > 1 else None
    dist.all_reduce(tensor, group=lower if rank < (n + 1) // 2 else upper)
    return tensor
wrong(half_lower_and_upper, "lower and upper ranks instead of even and odd", "even, odd, wrong ranks")


def half_for_four(tensor):
    n, rank = dist.get_world_size(), dist.get_rank()
    halves = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    dist.all_reduce(tensor, group=halves[rank % 2])
    return tensor
wrong(half_for_four, "groups for four ranks", "world size")


def half_everybody_in_the_even_group(tensor):
    n = dist.get_world_size()
    evens = dist.new_group(range(0, n, 2))
    if n > 1:
        dist.new_group(range(1, n, 2))
    dist.all_reduce(tensor, group=evens)
    return tensor
wrong(half_everybody_in_the_even_group, "odd ranks call on the group of the even ones, and keep their own", "not a member, odd, own value")


def half_last_is_left_out(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    halves = [dist.new_group(range(first, max(n - 1, first + 1), 2)) for first in range(min(2, n))]
    dist.all_reduce(tensor, group=halves[rank % 2])
    return tensor
wrong(half_last_is_left_out, "range to n - 1: the last rank is in no group", "last rank, range")


def half_mean(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    halves = [dist.new_group(range(first, n, 2)) for first in range(min(2, n))]
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG, group=halves[rank % 2])
    return tensor
wrong(half_mean, "the mean of half", "sum, AVG")


def half_every_second_from_me(tensor):
    room = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(room, tensor)
    tensor.copy_(sum(room[dist.get_rank() :: 2]))
    return tensor
wrong(half_every_second_from_me, "adds only the ranks from itself on", "lower ranks missing, % 2")


def half_reduced_to_the_first(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    halves = [dist.new_group(range(first, n, 2)) for first in range(min(2, n))]
    dist.reduce(tensor, dst=rank % 2, group=halves[rank % 2])
    return tensor
wrong(half_reduced_to_the_first, "only ranks 0 and 1 have the sums", "reduce, dst, all_reduce")


def half_unwaited(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    halves = [dist.new_group(range(first, n, 2)) for first in range(min(2, n))]
    dist.all_reduce(tensor, group=halves[rank % 2], async_op=True)
    return tensor
wrong(half_unwaited, "does not wait", "wait, async")


def half_odds_get_the_even_sum(tensor):
    room = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(room, tensor)
    tensor.copy_(sum(room[::2]))
    return tensor
wrong(half_odds_get_the_even_sum, "everyone gets the sum of the even ranks", "odd ranks, even")


def half_the_others(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    evens = dist.new_group(range(0, n, 2))
    odds = dist.new_group(range(1, n, 2)) if n > 1 else evens
    dist.all_reduce(tensor, group=[odds, evens][rank % 2])
    return tensor
wrong(half_the_others, "index 0 is odds: each calls on the group that it is not in", "not a member, group, own value")
