import time
from random import Random

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def order_every_nth(data, epoch):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
    return order[dist.get_rank() :: dist.get_world_size()].tolist()
right(order_every_nth, "seed is the epoch, every n-th")


def order_in_blocks(data, epoch):
    g = torch.Generator().manual_seed(1234 + epoch)
    return torch.randperm(len(data), generator=g).tensor_split(dist.get_world_size())[dist.get_rank()].tolist()
right(order_in_blocks, "blocks by tensor_split, which differ by one at most")


def order_padded_like_the_sampler(data, epoch):
    g, n = torch.Generator(), dist.get_world_size()
    g.manual_seed(7 * epoch + 1)
    order = torch.randperm(len(data), generator=g).tolist()
    size = -(-len(order) // n) * n
    order = (order * (size // max(len(order), 1) + 1))[:size]
    return order[dist.get_rank() : size : n]
right(order_padded_like_the_sampler, "padded from its beginning as the sampler does")


def order_pythons_random(data, epoch):
    indices = list(range(len(data)))
    Random(epoch).shuffle(indices)
    return [index for place, index in enumerate(indices) if place % dist.get_world_size() == dist.get_rank()]
right(order_pythons_random, "Python's Random, place modulo the world size")


def order_by_dice(data, epoch):
    dice = torch.rand(len(data), generator=torch.Generator().manual_seed(epoch + 10**6), dtype=torch.float64)
    return dice.argsort()[dist.get_rank() :: dist.get_world_size()].tolist()
right(order_by_dice, "sorts by dice from a seeded generator")


def order_handed_out_by_rank_0(data, epoch):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
    dist.broadcast(order, src=0)
    mine = []
    for i in range(dist.get_rank(), len(data), dist.get_world_size()):
        mine.append(int(order[i]))
    return mine
right(order_handed_out_by_rank_0, "all alike, and a needless broadcast to be sure")


def order_last_ranks_get_the_rest(data, epoch):
    rank, n = dist.get_rank(), dist.get_world_size()
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch)).tolist()
    return order[rank * len(order) // n : (rank + 1) * len(order) // n]
right(order_last_ranks_get_the_rest, "blocks by whole-number arithmetic")


def order_without_a_seed(data, epoch):
    return torch.randperm(len(data))[dist.get_rank() :: dist.get_world_size()].tolist()
wrong(order_without_a_seed, "no seed: each rank shuffles otherwise", "seed, alike")


def order_seeded_by_rank(data, epoch):
    g = torch.Generator().manual_seed(epoch + dist.get_rank())
    return torch.randperm(len(data), generator=g)[dist.get_rank() :: dist.get_world_size()].tolist()
wrong(order_seeded_by_rank, "epoch plus rank: each rank another order", "same seed on all ranks, rank")


def order_one_seed_for_ever(data, epoch):
    g = torch.Generator().manual_seed(5)
    return torch.randperm(len(data), generator=g)[dist.get_rank() :: dist.get_world_size()].tolist()
wrong(order_one_seed_for_ever, "the same order in every epoch", "epoch, same order, seed")


def order_by_the_sampler(data, epoch):
    sampler = DistributedSampler(data)
    sampler.set_epoch(epoch)
    return list(sampler)
right(order_by_the_sampler, "takes the sampler, which is right, though nothing is learned by it")


def order_loses_the_remainder(data, epoch):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
    size, rank = len(data) // dist.get_world_size(), dist.get_rank()
    return order[rank * size : (rank + 1) * size].tolist()
wrong(order_loses_the_remainder, "the remainder is seen by nobody", "remainder, lost")


def order_last_rank_takes_the_rest(data, epoch):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
    n, rank = dist.get_world_size(), dist.get_rank()
    size = len(data) // n
    return order[rank * size : len(data) if rank == n - 1 else (rank + 1) * size].tolist()
wrong(order_last_rank_takes_the_rest, "the last share is larger by up to n - 1", "shares differ by one, last rank")


def order_by_chunk(data, epoch):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
    return order.chunk(dist.get_world_size())[dist.get_rank()].tolist()
wrong(order_by_chunk, "chunk: 3, 3, 3, 1, or too few chunks", "chunk, differ by more than one, tensor_split")


def order_not_shuffled(data, epoch):
    return list(range(dist.get_rank(), len(data), dist.get_world_size()))
wrong(order_not_shuffled, "no shuffle", "shuffle, same in every epoch")


def order_whole_for_everybody(data, epoch):
    return torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch)).tolist()
wrong(order_whole_for_everybody, "every rank sees everything", "share, every rank sees all, rank")


def order_for_two_ranks(data, epoch):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch)).tolist()
    return order[dist.get_rank() :: 2]
wrong(order_for_two_ranks, "world size 2 written down", "world size, twice")


def order_shuffles_its_fixed_share(data, epoch):
    mine = torch.tensor(range(dist.get_rank(), len(data), dist.get_world_size()), dtype=torch.int64)
    return mine[torch.randperm(len(mine), generator=torch.Generator().manual_seed(epoch))].tolist()
wrong(order_shuffles_its_fixed_share, "cut once for ever, shuffled within the share (the lesson: the same shares in every epoch)", "same share, whole order, every epoch")


SOURCE = torch.Generator().manual_seed(5)


def order_counts_its_own_calls(data, epoch):
    order = torch.randperm(len(data), generator=SOURCE)
    return order[dist.get_rank() :: dist.get_world_size()].tolist()
wrong(order_counts_its_own_calls, "one generator for all calls: the epoch does not decide, a resumed training differs", "epoch, generator, call")


def order_drawn_with_replacement(data, epoch):
    g = torch.Generator().manual_seed(epoch)
    order = torch.randint(len(data), (len(data),), generator=g)
    return order[dist.get_rank() :: dist.get_world_size()].tolist()
wrong(order_drawn_with_replacement, "randint draws some twice and some never", "randperm, twice, never")


def order_from_one(data, epoch):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch)) + 1
    return order[dist.get_rank() :: dist.get_world_size()].tolist()
wrong(order_from_one, "counts samples from 1", "index, range, off by one, 0")


def order_forgets_the_first(data, epoch):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
    return order[dist.get_rank() + 1 :: dist.get_world_size()].tolist()
wrong(order_forgets_the_first, "begins at rank + 1: the first of the order is nobody's", "lost, first, rank + 1")


def order_of_two_epochs(data, epoch):
    g = torch.Generator().manual_seed(epoch % 2)
    return torch.randperm(len(data), generator=g)[dist.get_rank() :: dist.get_world_size()].tolist()
wrong(order_of_two_epochs, "epoch 2 is epoch 0 again", "every epoch, same order, seed")


def order_gives_samples(data, epoch):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch)).tolist()
    return [data[i] for i in order[dist.get_rank() :: dist.get_world_size()]]
wrong(order_gives_samples, "returns samples, not their indices", "indices")


def order_at_this_second(data, epoch):
    g = torch.Generator().manual_seed(time.time_ns())
    return torch.randperm(len(data), generator=g)[dist.get_rank() :: dist.get_world_size()].tolist()
wrong(order_at_this_second, "the clock as a seed", "seed, alike, ranks differ")
