import time

import torch
import torch.distributed as dist
from torch import nn

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def mean_sum_and_count_in_one(tensor):
    both = torch.tensor([tensor.sum().item(), len(tensor)], dtype=torch.float64)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()
right(mean_sum_and_count_in_one, "one all_reduce of two doubles, returns a float")


def mean_two_all_reduces(tensor):
    total, count = tensor.double().sum(), torch.tensor(tensor.numel())
    dist.all_reduce(total)
    dist.all_reduce(count)
    return total / count
right(mean_two_all_reduces, "two calls, returns a tensor of no dimension")


def mean_from_objects(tensor):
    pairs = [None] * dist.get_world_size()
    dist.all_gather_object(pairs, (tensor.sum().item(), tensor.shape[0]))
    return sum(s for s, _ in pairs) / sum(c for _, c in pairs)
right(mean_from_objects, "two numbers per rank, as an object")


def mean_ratio_of_averages(tensor):
    both = torch.stack([tensor.double().sum(), torch.tensor(len(tensor)).double()])
    dist.all_reduce(both, dist.ReduceOp.AVG)
    return both[0] / both[1]
right(mean_ratio_of_averages, "mean sum by mean count: the world size cancels")


def mean_gathered_pairs(tensor):
    mine = torch.tensor([float(tensor.sum()), float(len(tensor))], dtype=torch.float64)
    room = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(room, mine)
    total, count = torch.stack(room).sum(dim=0).tolist()
    return total / count
right(mean_gathered_pairs, "all_gather of the pairs")


def mean_reduce_and_broadcast(tensor):
    both = torch.tensor([tensor.sum(), len(tensor)], dtype=torch.float64)
    dist.reduce(both, dst=0)
    if dist.get_rank() == 0:
        both[0] /= both[1]
    dist.broadcast(both, src=0)
    return both[0]
right(mean_reduce_and_broadcast, "rank 0 divides and tells everyone")


def mean_in_the_background(tensor):
    numbers = [tensor.to(torch.float64).sum(), torch.tensor(float(len(tensor)), dtype=torch.float64)]
    for handle in [dist.all_reduce(n, async_op=True) for n in numbers]:
        handle.wait()
    return (numbers[0] / numbers[1]).item()
right(mean_in_the_background, "async_op, both waited for")


def mean_my_part_of_the_mean(tensor):
    count = torch.tensor(len(tensor))
    dist.all_reduce(count)
    part = tensor.double().sum() / count
    dist.all_reduce(part)
    return part.item()
right(mean_my_part_of_the_mean, "first the count, then the sum of the parts of the mean")


def mean_of_means_avg(tensor):
    mean = tensor.mean()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean.item()
wrong(mean_of_means_avg, "the mean of means", "mean of means, unequal lengths, count")


def mean_of_means_by_hand(tensor):
    mean = tensor.mean()
    dist.all_reduce(mean)
    return mean / dist.get_world_size()
wrong(mean_of_means_by_hand, "the mean of means, divided by hand", "mean of means, count")


def mean_local_length_times_ranks(tensor):
    total = tensor.sum()
    dist.all_reduce(total)
    return total / (len(tensor) * dist.get_world_size())
wrong(mean_local_length_times_ranks, "takes its own length for everybody's", "own length, count, all_reduce the count")


def mean_sum_by_own_length(tensor):
    total = tensor.sum()
    dist.all_reduce(total)
    return total / len(tensor)
wrong(mean_sum_by_own_length, "global sum by local count", "own length, count over all ranks")


def mean_sum_by_world_size(tensor):
    total = tensor.sum()
    dist.all_reduce(total)
    return total / dist.get_world_size()
wrong(mean_sum_by_world_size, "divides by the ranks, not by the elements", "world size, elements, count")


def mean_gathers_tensors_of_other_lengths(tensor):
    room = [torch.zeros_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(room, tensor)
    return torch.cat(room).mean()
wrong(mean_gathers_tensors_of_other_lengths, "gathers tensors of unequal length", "length, shape, sum and count")


def mean_gathers_the_data_as_objects(tensor):
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, tensor.tolist())
    numbers = [n for one in lists for n in one]
    return sum(numbers) / len(numbers)
wrong(mean_gathers_the_data_as_objects, "sends the data; the text says not to", "data, two numbers, sum and count")


def mean_pads_to_a_thousand(tensor):
    padded = torch.full((1000,), float("nan"), dtype=tensor.dtype)
    padded[: len(tensor)] = tensor
    room = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
    dist.all_gather(room, padded)
    return torch.cat(room).nanmean()
wrong(mean_pads_to_a_thousand, "sends the data, padded; fails beyond a thousand", "data, two numbers")


def mean_known_to_rank_0_only(tensor):
    both = torch.tensor([tensor.sum(), len(tensor)], dtype=torch.float64)
    dist.reduce(both, dst=0)
    return both[0] / both[1]
wrong(mean_known_to_rank_0_only, "reduce: only dst has the sum", "reduce, only rank 0, all_reduce")


def mean_returned_by_rank_0_only(tensor):
    both = torch.tensor([tensor.sum(), len(tensor)], dtype=torch.float64)
    dist.all_reduce(both)
    if dist.get_rank() == 0:
        return both[0] / both[1]
wrong(mean_returned_by_rank_0_only, "the others return None", "None, every rank, return")


def mean_adds_the_tensors_up(tensor):
    dist.all_reduce(tensor)
    return tensor.mean() / dist.get_world_size()
wrong(mean_adds_the_tensors_up, "all_reduces tensors of unequal length, in place", "length, shape, sum and count, changed")


def mean_scales_its_input(tensor):
    count = torch.tensor(float(len(tensor)))
    dist.all_reduce(count)
    tensor /= count
    part = tensor.double().sum()
    dist.all_reduce(part)
    return part
wrong(mean_scales_its_input, "changes the caller's tensor", "leave tensor as it was, changed, in place")


def mean_in_whole_numbers(tensor):
    both = torch.tensor([tensor.sum(), len(tensor)], dtype=torch.int64)
    dist.all_reduce(both)
    return (both[0] / both[1]).item()
wrong(mean_in_whole_numbers, "the sum is cut to a whole number", "int, whole number, dtype")


def mean_floor_division(tensor):
    both = torch.tensor([tensor.sum(), len(tensor)], dtype=torch.float64)
    dist.all_reduce(both)
    return (both[0] // both[1]).item()
wrong(mean_floor_division, "// cuts off the fraction", "//, division")


def mean_not_waited_for(tensor):
    both = torch.tensor([tensor.sum(), len(tensor)], dtype=torch.float64)
    dist.all_reduce(both, async_op=True)
    return (both[0] / both[1]).item()
wrong(mean_not_waited_for, "reads before wait", "wait, async")


def mean_largest_count(tensor):
    total, count = tensor.double().sum(), torch.tensor(float(len(tensor)))
    dist.all_reduce(total)
    dist.all_reduce(count, dist.ReduceOp.MAX)
    return total / (count * dist.get_world_size())
wrong(mean_largest_count, "MAX of the counts", "count, MAX, sum of the counts")


def mean_count_is_not_sent(tensor):
    both = torch.tensor([tensor.sum(), len(tensor)], dtype=torch.float64)
    dist.all_reduce(both[0])
    return both[0] / both[1]
wrong(mean_count_is_not_sent, "only the sum is added up", "count, own length")


def mean_average_of_int_count(tensor):
    total, count = tensor.double().sum(), torch.tensor(len(tensor))
    dist.all_reduce(total, dist.ReduceOp.AVG)
    dist.all_reduce(count, dist.ReduceOp.AVG)
    return total / count
wrong(mean_average_of_int_count, "AVG on whole numbers is refused", "AVG, float, whole numbers")
