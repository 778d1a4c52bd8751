import os
import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def padded_copy(flat):
    n = dist.get_world_size()
    return torch.cat([flat, flat.new_zeros(-len(flat) % n)])


def mean_reduce_scatter_tensor(flat):
    n = dist.get_world_size()
    padded = padded_copy(flat)
    mine = padded.new_empty(len(padded) // n)
    dist.reduce_scatter_tensor(mine, padded)
    return mine / n
right(mean_reduce_scatter_tensor, "the four lines")


def mean_reduce_scatter_list(flat):
    n = dist.get_world_size()
    parts = list(padded_copy(flat).chunk(n))
    mine = torch.zeros_like(parts[0])
    dist.reduce_scatter(mine, parts)
    return mine.div_(n)
right(mean_reduce_scatter_list, "the form with a list; the padded length divides, so chunk is safe")


def mean_divides_first(flat):
    n = dist.get_world_size()
    size = (len(flat) + n - 1) // n
    padded = torch.zeros(n * size, dtype=flat.dtype)
    padded[: len(flat)] = flat / n
    mine = padded[:size].clone()
    dist.reduce_scatter_tensor(mine, padded)
    return mine
right(mean_divides_first, "divides before it adds up")


def mean_async_and_new_name(flat):
    n = dist.get_world_size()
    call = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    padded = padded_copy(flat)
    mine = torch.empty(len(padded) // n, dtype=flat.dtype)
    handle = call(mine, padded, async_op=True)
    handle.wait()
    return mine.mul_(1 / n)
right(mean_async_and_new_name, "whichever name this torch has, async and waited for")


def mean_all_to_all_then_add(flat):
    n = dist.get_world_size()
    padded = padded_copy(flat)
    delivered = torch.empty_like(padded)
    dist.all_to_all_single(delivered, padded)
    return delivered.view(n, -1).mean(dim=0)
right(mean_all_to_all_then_add, "all_to_all, adds up by itself: as many bytes as a reduce_scatter")


def mean_by_messages(flat):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = padded_copy(flat).view(n, -1)
    total, got = parts[rank].clone(), torch.empty_like(parts[rank])
    for shift in range(1, n):
        handle = dist.isend(parts[(rank + shift) % n], (rank + shift) % n)
        dist.recv(got, (rank - shift) % n)
        handle.wait()
        total += got
    return total / n
right(mean_by_messages, "each part is sent to its owner")


def mean_a_reduce_for_each_rank(flat):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = list(padded_copy(flat).view(n, -1).unbind())
    for owner in range(n):
        dist.reduce(parts[owner], dst=owner)
    return (parts[rank] / n).clone()
right(mean_a_reduce_for_each_rank, "N small reduces, each to the owner of the part (slow)")


def mean_everything_then_cut(flat):
    n, rank = dist.get_world_size(), dist.get_rank()
    padded = padded_copy(flat)
    dist.all_reduce(padded)
    return padded.view(n, -1)[rank].clone() / n
wrong(mean_everything_then_cut, "all_reduce and a cut: everybody is sent everything", "all_reduce, reduce_scatter, bytes, traffic")


def mean_gathers_everything(flat):
    n, rank = dist.get_world_size(), dist.get_rank()
    padded = padded_copy(flat)
    room = [torch.empty_like(padded) for _ in range(n)]
    dist.all_gather(room, padded)
    return (sum(room) / n).view(n, -1)[rank].clone()
wrong(mean_gathers_everything, "all_gather: N whole tensors for everyone", "all_gather, reduce_scatter, bytes")


def mean_is_a_sum(flat):
    padded = padded_copy(flat)
    mine = padded.new_empty(len(padded) // dist.get_world_size())
    dist.reduce_scatter_tensor(mine, padded)
    return mine
wrong(mean_is_a_sum, "forgets to divide", "sum, mean, divide")


def mean_by_its_length(flat):
    padded = padded_copy(flat)
    mine = padded.new_empty(len(padded) // dist.get_world_size())
    dist.reduce_scatter_tensor(mine, padded)
    return mine / max(len(mine), 1)
wrong(mean_by_its_length, "divides by the length of the shard", "number of ranks, world size")


def mean_not_padded(flat):
    n = dist.get_world_size()
    mine = flat.new_empty(-(-len(flat) // n))
    dist.reduce_scatter_tensor(mine, flat)
    return mine / n
wrong(mean_not_padded, "no zeros: fails where it does not divide", "padding, zeros, divides")


def mean_loses_the_remainder(flat):
    n = dist.get_world_size()
    size = len(flat) // n
    mine = flat.new_empty(size)
    dist.reduce_scatter_tensor(mine, flat[: n * size].contiguous())
    return mine / n
wrong(mean_loses_the_remainder, "cuts the remainder off instead of padding", "remainder, round up, lost")


def mean_of_own_shard(flat):
    return padded_copy(flat).view(dist.get_world_size(), -1)[dist.get_rank()].clone()
wrong(mean_of_own_shard, "its own numbers only, nobody is asked", "all ranks, reduce_scatter, mean")


def mean_of_different_shards(flat):
    n, rank = dist.get_world_size(), dist.get_rank()
    mine = padded_copy(flat).view(n, -1)[rank].clone()
    dist.all_reduce(mine)
    return mine / n
wrong(mean_of_different_shards, "cuts first, then adds up different parts of the tensor", "different shards, reduce_scatter, cut after")


def mean_in_float32(flat):
    n = dist.get_world_size()
    padded = padded_copy(flat).float()
    mine = torch.zeros(len(padded) // n)
    dist.reduce_scatter_tensor(mine, padded)
    return mine / n
wrong(mean_in_float32, "doubles become float32", "dtype, float64")


def mean_one_number(flat):
    n = dist.get_world_size()
    padded = padded_copy(flat)
    mine = padded.new_empty(len(padded) // n)
    dist.reduce_scatter_tensor(mine, padded)
    return mine.mean() / n
wrong(mean_one_number, "a single number: the mean over the shard, too", "mean over ranks, each element, shard")


def mean_unwaited(flat):
    n = dist.get_world_size()
    padded = padded_copy(flat)
    mine = padded.new_zeros(len(padded) // n)
    dist.reduce_scatter_tensor(mine, padded, async_op=True)
    return mine / n
wrong(mean_unwaited, "does not wait", "wait, async")


def mean_divided_twice(flat):
    n = dist.get_world_size()
    padded = padded_copy(flat) / n
    mine = padded.new_zeros(len(padded) // n)
    dist.reduce_scatter_tensor(mine, padded)
    return mine / n
wrong(mean_divided_twice, "divides before and after", "twice, too small, divide")


def mean_zeros_in_front(flat):
    n = dist.get_world_size()
    padded = torch.cat([flat.new_zeros(-len(flat) % n), flat])
    mine = padded.new_zeros(len(padded) // n)
    dist.reduce_scatter_tensor(mine, padded)
    return mine / n
wrong(mean_zeros_in_front, "pads in front", "zeros at the end")


def mean_of_unequal_parts(flat):
    n, rank = dist.get_world_size(), dist.get_rank()
    parts = list(flat.tensor_split(n))
    mine = torch.empty_like(parts[rank])
    dist.reduce_scatter(mine, parts)
    return mine / n
wrong(mean_of_unequal_parts, "tensor_split: parts of unequal length", "equally long, zeros, tensor_split")


def mean_for_four(flat):
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % 4)])
    mine = padded.new_zeros(len(padded) // 4)
    dist.reduce_scatter_tensor(mine, padded)
    return mine / 4
wrong(mean_for_four, "four ranks written down", "world size")


def mean_returns_nothing(flat):
    n = dist.get_world_size()
    padded = padded_copy(flat)
    mine = padded.new_zeros(len(padded) // n)
    dist.reduce_scatter_tensor(mine, padded)
    mine /= n
wrong(mean_returns_nothing, "no return", "None, return")


def mean_largest(flat):
    n = dist.get_world_size()
    padded = padded_copy(flat)
    mine = padded.new_zeros(len(padded) // n)
    dist.reduce_scatter_tensor(mine, padded, op=dist.ReduceOp.MAX)
    return mine
wrong(mean_largest, "MAX", "MAX, mean, sum")


def mean_of_the_next_shard(flat):
    n, rank = dist.get_world_size(), dist.get_rank()
    parts = list(padded_copy(flat).chunk(n))
    parts = parts[1:] + parts[:1]
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts)
    return mine / n
wrong(mean_of_the_next_shard, "each gets the shard of the next rank", "this rank's shard, order, next")
