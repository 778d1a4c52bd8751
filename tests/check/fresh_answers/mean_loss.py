import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def mean_loss_without_the_line(losses):
    sum_and_count = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.all_reduce(sum_and_count)
    return (sum_and_count[0] / sum_and_count[1]).item()
right(mean_loss_without_the_line, "the early return deleted")


def mean_loss_from_pairs(losses):
    pairs = [None for _ in range(dist.get_world_size())]
    dist.all_gather_object(pairs, (sum(losses), len(losses)))
    sums, counts = zip(*pairs)
    return sum(sums) / sum(counts)
right(mean_loss_from_pairs, "pairs as objects")


def mean_loss_of_lists(losses):
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, losses)
    everything = [loss for one in lists for loss in one]
    return sum(everything) / len(everything)
right(mean_loss_of_lists, "all losses travel as objects (the text does not forbid it here)")


def mean_loss_zeros_in_hand(losses):
    if losses:
        both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    else:
        both = torch.zeros(2, dtype=torch.float64)
    dist.all_reduce(both)
    total, count = both.tolist()
    return total / count
right(mean_loss_zeros_in_hand, "keeps the if, but comes with zeros")


def mean_loss_two_calls(losses):
    total = torch.tensor(losses, dtype=torch.float64).sum()
    count = torch.tensor(len(losses))
    for t in (total, count):
        dist.all_reduce(t)
    return total.item() / count.item()
right(mean_loss_two_calls, "two calls, on every rank")


def mean_loss_by_reduce_and_broadcast(losses):
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.reduce(both, 0)
    dist.broadcast(both, 0)
    return float(both[0] / both[1])
right(mean_loss_by_reduce_and_broadcast, "reduce, then broadcast")


def mean_loss_weighted(losses):
    count = torch.tensor([float(len(losses))], dtype=torch.float64)
    dist.all_reduce(count)
    part = torch.tensor([sum(loss / count.item() for loss in losses)], dtype=torch.float64)
    dist.all_reduce(part)
    return part.item()
right(mean_loss_weighted, "each loss by the global count, then the sum")


def mean_loss_as_found(losses):
    if not losses:
        return 0.0
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()
wrong(mean_loss_as_found, "unchanged: an empty rank does not come", "empty, return, does not come, all_reduce")


def mean_loss_comes_but_returns_0(losses):
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.all_reduce(both)
    if not losses:
        return 0.0
    return (both[0] / both[1]).item()
wrong(mean_loss_comes_but_returns_0, "an empty rank comes, but returns 0.0", "every rank, the mean, 0.0")


def mean_loss_barrier_for_the_empty(losses):
    if not losses:
        dist.barrier()
        return 0.0
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()
wrong(mean_loss_barrier_for_the_empty, "an empty rank meets the others' all_reduce with a barrier", "barrier, all_reduce, different calls")


def mean_loss_none_instead(losses):
    if not losses:
        return None
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()
wrong(mean_loss_none_instead, "changes what is returned, not that it returns", "empty, return, does not come")


def mean_loss_counts_an_empty_rank_as_one(losses):
    both = torch.tensor([sum(losses), len(losses) or 1], dtype=torch.float64)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()
wrong(mean_loss_counts_an_empty_rank_as_one, "an empty rank counts as one loss of 0", "count, 0, empty")


def mean_loss_adds_a_zero(losses):
    losses = losses or [0.0]
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()
wrong(mean_loss_adds_a_zero, "puts a 0.0 into an empty list, which is counted", "count, 0, empty")


def mean_loss_mean_of_means(losses):
    mean = torch.tensor([sum(losses) / max(len(losses), 1)], dtype=torch.float64)
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()
wrong(mean_loss_mean_of_means, "the mean of means", "mean of means, count, sum")


def mean_loss_mean_of_busy_ranks(losses):
    both = torch.tensor([sum(losses) / max(len(losses), 1), bool(losses)], dtype=torch.float64)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()
wrong(mean_loss_mean_of_busy_ranks, "the mean of the means of those that have some", "mean of means, count")


def mean_loss_by_ranks(losses):
    total = torch.tensor([sum(losses)], dtype=torch.float64)
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
wrong(mean_loss_by_ranks, "divides by the number of ranks", "count, losses, world size")


def mean_loss_by_own_count(losses):
    total = torch.tensor([sum(losses)], dtype=torch.float64)
    dist.all_reduce(total)
    return total.item() / max(len(losses), 1)
wrong(mean_loss_by_own_count, "divides by its own count", "own count, all ranks")


def mean_loss_other_dtype_when_empty(losses):
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64) if losses else torch.zeros(2)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()
wrong(mean_loss_other_dtype_when_empty, "an empty rank brings float32, the others float64", "dtype, float32, float64")


def mean_loss_all_reduces_the_lists(losses):
    t = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(t)
    return (t.sum() / max(len(t), 1)).item()
wrong(mean_loss_all_reduces_the_lists, "lists of unequal lengths are added up", "length, shape, sum and count")


def mean_loss_group_of_the_busy(losses):
    group = dist.new_group([dist.get_rank()] if not losses else None)
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.all_reduce(both, group=group)
    return (both[0] / both[1]).item() if losses else 0.0
wrong(mean_loss_group_of_the_busy, "a group that ranks make differently", "new_group, same on all ranks, empty")


def mean_loss_unwaited(losses):
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.all_reduce(both, async_op=True)
    return (both[0] / both[1]).item() if both[1] else 0.0
wrong(mean_loss_unwaited, "does not wait", "wait, async")


def mean_loss_whole_numbers(losses):
    both = torch.tensor([int(sum(losses)), len(losses)])
    dist.all_reduce(both)
    return (both[0] / both[1]).item()
wrong(mean_loss_whole_numbers, "sum cut to whole numbers", "int, whole, float")


def mean_loss_on_rank_0(losses):
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.reduce(both, dst=0)
    return (both[0] / both[1]).item() if both[1] else 0.0
wrong(mean_loss_on_rank_0, "only rank 0 has the sums", "reduce, every rank, all_reduce")


def mean_loss_last_loss_only(losses):
    both = torch.tensor([losses[-1] if losses else 0.0, 1.0 if losses else 0.0], dtype=torch.float64)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()
wrong(mean_loss_last_loss_only, "one loss per rank", "all losses, sum, len")
