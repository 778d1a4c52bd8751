import os
import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


import math

import torch.nn.functional as F


def shard_pad_then_clone(flat):
    rank, n = dist.get_rank(), dist.get_world_size()
    size = -(-len(flat) // n)
    padded = torch.cat([flat, flat.new_zeros(size * n - len(flat))])
    return padded[rank * size : (rank + 1) * size].clone()
right(shard_pad_then_clone, "pads the whole, clones the slice")


def shard_zeros_and_copy(flat):
    size = math.ceil(flat.numel() / dist.get_world_size())
    mine = flat.new_zeros(size)
    part = flat[dist.get_rank() * size :][:size]
    mine[: len(part)] = part
    return mine
right(shard_zeros_and_copy, "zeros, filled as far as there is something")


def shard_functional_pad(flat):
    n = dist.get_world_size()
    padded = F.pad(flat, (0, -len(flat) % n))
    return padded.view(n, -1)[dist.get_rank()].clone() if len(padded) else flat.clone()
right(shard_functional_pad, "F.pad, a table with a row for each rank")


def shard_by_a_list(flat):
    n, rank = dist.get_world_size(), dist.get_rank()
    size = (len(flat) + n - 1) // n
    numbers = flat.tolist() + [0] * (size * n)
    return torch.tensor(numbers[rank * size : rank * size + size], dtype=flat.dtype, device=flat.device)
right(shard_by_a_list, "through a Python list")


def shard_by_index_and_mask(flat):
    size = -(-flat.shape[0] // dist.get_world_size())
    places = torch.arange(size) + dist.get_rank() * size
    mine = torch.zeros(size, dtype=flat.dtype)
    mine[places < len(flat)] = flat[places[places < len(flat)]]
    return mine
right(shard_by_index_and_mask, "indices and a mask")


def shard_split_and_pad(flat):
    n = dist.get_world_size()
    size = max(1, -(-len(flat) // n)) if len(flat) else 0
    parts = list(flat.split(size)) if size else []
    parts += [flat[:0]] * (n - len(parts))
    mine = parts[dist.get_rank()]
    return torch.cat((mine, torch.zeros_like(flat[: size - len(mine)])))
right(shard_split_and_pad, "split by size, missing parts are empty, cat makes a copy")


def size_of(flat):
    return -(-len(flat) // dist.get_world_size())


def shard_is_a_view(flat):
    rank, size = dist.get_rank(), size_of(flat)
    padded = torch.cat([flat, flat.new_zeros(size * dist.get_world_size() - len(flat))])
    return padded[rank * size : (rank + 1) * size]
wrong(shard_is_a_view, "a view of the padded copy keeps all of that alive", "view, clone, memory of its own")


def shard_slice_where_it_divides(flat):
    rank, n = dist.get_rank(), dist.get_world_size()
    if len(flat) % n == 0:
        return flat.chunk(n)[rank]
    size = size_of(flat)
    mine = flat.new_zeros(size)
    part = flat[rank * size : (rank + 1) * size]
    mine[: len(part)] = part
    return mine
wrong(shard_slice_where_it_divides, "a view wherever no zeros are needed", "view, clone, memory of its own")


def shard_contiguous(flat):
    rank, size = dist.get_rank(), size_of(flat)
    return F.pad(flat, (0, size * dist.get_world_size() - len(flat)))[rank * size : (rank + 1) * size].contiguous()
wrong(shard_contiguous, "contiguous() makes no copy of what is contiguous", "view, clone, contiguous")


def shard_by_chunk(flat):
    return flat.chunk(dist.get_world_size())[dist.get_rank()].clone()
wrong(shard_by_chunk, "chunk: a short last one, or too few", "equally long, zeros, chunk")


def shard_by_tensor_split(flat):
    return flat.tensor_split(dist.get_world_size())[dist.get_rank()].clone()
wrong(shard_by_tensor_split, "tensor_split: lengths differ by one", "equally long, zeros")


def shard_tensor_split_padded_each(flat):
    mine = flat.tensor_split(dist.get_world_size())[dist.get_rank()]
    return torch.cat([mine, flat.new_zeros(size_of(flat) - len(mine))])
wrong(shard_tensor_split_padded_each, "each unequal part gets its own zero: zeros in the middle", "zeros at the end, last ones, in order")


def shard_loses_the_remainder(flat):
    size = len(flat) // dist.get_world_size()
    return flat[dist.get_rank() * size : (dist.get_rank() + 1) * size].clone()
wrong(shard_loses_the_remainder, "rounds down: the remainder is in no shard", "round up, remainder, lost")


def shard_last_takes_the_rest(flat):
    rank, n = dist.get_rank(), dist.get_world_size()
    size = len(flat) // n
    return flat[rank * size : None if rank == n - 1 else (rank + 1) * size].clone()
wrong(shard_last_takes_the_rest, "the last shard is longer", "equally long, last")


def shard_one_too_many(flat):
    n, rank = dist.get_world_size(), dist.get_rank()
    size = len(flat) // n + 1
    mine = flat.new_zeros(size)
    part = flat[rank * size : (rank + 1) * size]
    mine[: len(part)] = part
    return mine
wrong(shard_one_too_many, "// + 1 is one too many where it divides", "round up, divides, length")


def shard_every_nth(flat):
    n, rank = dist.get_world_size(), dist.get_rank()
    mine = flat[rank::n]
    return torch.cat([mine, flat.new_zeros(size_of(flat) - len(mine))])
wrong(shard_every_nth, "every n-th number instead of a piece", "in order, neighboring, part")


def shard_zeros_in_front(flat):
    rank, size, n = dist.get_rank(), size_of(flat), dist.get_world_size()
    padded = torch.cat([flat.new_zeros(size * n - len(flat)), flat])
    return padded[rank * size : (rank + 1) * size].clone()
wrong(shard_zeros_in_front, "zeros in front", "zeros at the end")


def shard_zeros_of_float32(flat):
    rank, size = dist.get_rank(), size_of(flat)
    mine = torch.zeros(size)
    part = flat[rank * size : (rank + 1) * size]
    mine[: len(part)] = part
    return mine
wrong(shard_zeros_of_float32, "always float32", "dtype, new_zeros")


def shard_scattered(flat):
    n, size = dist.get_world_size(), size_of(flat)
    mine = flat.new_zeros(size)
    padded = torch.cat([flat, flat.new_zeros(size * n - len(flat))])
    dist.scatter(mine, list(padded.split(size)) if dist.get_rank() == 0 else None, src=0)
    return mine
wrong(shard_scattered, "rank 0 scatters what all have", "nothing has to travel, scatter, message")


def shard_last_not_padded(flat):
    size = size_of(flat)
    return flat[dist.get_rank() * size : (dist.get_rank() + 1) * size].clone()
wrong(shard_last_not_padded, "rounds up, but adds no zeros", "zeros, equally long, last")


def shard_for_four(flat):
    rank, size = dist.get_rank(), -(-len(flat) // 4)
    mine = flat.new_zeros(size)
    part = flat[rank * size : (rank + 1) * size]
    mine[: len(part)] = part
    return mine
wrong(shard_for_four, "four ranks written down", "world size")


def shard_of_the_next_rank(flat):
    rank, size = dist.get_rank() + 1, size_of(flat)
    mine = flat.new_zeros(size)
    part = flat[(rank - 1) * size + 1 : rank * size + 1]
    mine[: len(part)] = part
    return mine
wrong(shard_of_the_next_rank, "shifted by one: counts from 1", "off by one, first number")


def shard_grows_its_input(flat):
    rank, size, old = dist.get_rank(), size_of(flat), len(flat)
    flat.resize_(size * dist.get_world_size())
    flat[old:] = 0
    return flat[rank * size : (rank + 1) * size].clone()
wrong(shard_grows_its_input, "makes the caller's tensor longer", "changed, resize_, input")


def shard_keeps_everything(flat):
    mine, size = torch.zeros_like(flat), size_of(flat)
    a = dist.get_rank() * size
    mine[a : a + size] = flat[a : a + size]
    return mine
wrong(shard_keeps_everything, "as long as the whole, zeros outside of its part", "length, part, shard")
