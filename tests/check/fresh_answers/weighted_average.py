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


def weighted_multiply_sum_divide(model, samples):
    total = torch.tensor(float(samples))
    dist.all_reduce(total)
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= samples
            dist.all_reduce(p.grad)
            p.grad /= total
right(weighted_multiply_sum_divide, "the plain way")


def weighted_scaled_before(model, samples):
    total = torch.tensor(samples)
    dist.all_reduce(total)
    for p in model.parameters():
        if p.grad is not None:
            p.grad.mul_(samples / total.item())
            dist.all_reduce(p.grad)
right(weighted_scaled_before, "weight first, then only the sum")


def weighted_counts_as_objects(model, samples):
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, samples)
    share = samples / sum(counts)
    for g in (p.grad for p in model.parameters() if p.grad is not None):
        g *= share
        dist.all_reduce(g)
right(weighted_counts_as_objects, "counts by all_gather_object")


def weighted_count_in_the_bucket(model, samples):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    count = torch.tensor([float(samples)], dtype=grads[0].dtype if grads else None)
    bucket = torch.cat([g.flatten() * samples for g in grads] + [count])
    dist.all_reduce(bucket)
    bucket /= bucket[-1].clone()
    for g, part in zip(grads, bucket.split([g.numel() for g in grads] + [1])):
        g.copy_(part.view_as(g))
right(weighted_count_in_the_bucket, "one call: the count rides at the end of the bucket")


def weighted_by_avg(model, samples):
    mean_count = torch.tensor(float(samples), dtype=torch.float64)
    dist.all_reduce(mean_count, dist.ReduceOp.AVG)
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= samples / mean_count.item()
            dist.all_reduce(p.grad, dist.ReduceOp.AVG)
right(weighted_by_avg, "AVG twice: the world size cancels")


def weighted_gathered(model, samples):
    n = dist.get_world_size()
    counts = [torch.zeros(1) for _ in range(n)]
    dist.all_gather(counts, torch.tensor([float(samples)]))
    for p in model.parameters():
        if p.grad is None:
            continue
        grads = [torch.zeros_like(p.grad) for _ in range(n)]
        dist.all_gather(grads, p.grad)
        p.grad.copy_(sum(c.item() * g for c, g in zip(counts, grads)) / sum(counts).item())
right(weighted_gathered, "everything gathered, the weighted mean written out")


def weighted_in_background(model, samples):
    total, handles = torch.tensor(samples), []
    for p in model.parameters():
        if p.grad is not None:
            p.grad.mul_(samples)
            handles.append(dist.all_reduce(p.grad, async_op=True))
    dist.all_reduce(total)
    for h in handles:
        h.wait()
    for p in model.parameters():
        if p.grad is not None:
            p.grad.div_(total)
right(weighted_in_background, "async, the count travels last")


def weighted_plain_mean(model, samples):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
wrong(weighted_plain_mean, "the mean of means: samples are not used", "mean of means, samples, weight")


def weighted_then_divided_by_ranks(model, samples):
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= samples
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
wrong(weighted_then_divided_by_ranks, "weighted sum by the number of ranks", "samples of all ranks, world size")


def weighted_divided_by_own_samples(model, samples):
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= samples
            dist.all_reduce(p.grad)
            p.grad /= samples
wrong(weighted_divided_by_own_samples, "divides by its own count, 0 among them", "own samples, all ranks, total")


def weighted_all_have_as_many(model, samples):
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= samples
            dist.all_reduce(p.grad)
            p.grad /= samples * dist.get_world_size() or 1
wrong(weighted_all_have_as_many, "assumes that all ranks have as many samples", "counts differ, total, all_reduce")


def weighted_without_samples_stays_away(model, samples):
    if samples == 0:
        return
    total = torch.tensor(float(samples))
    dist.all_reduce(total)
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= samples
            dist.all_reduce(p.grad)
            p.grad /= total
wrong(weighted_without_samples_stays_away, "a rank without samples does not come: the others wait", "no samples, come all the same, 0")


def weighted_none_is_zero(model, samples):
    total = torch.tensor(float(samples))
    dist.all_reduce(total)
    for p in model.parameters():
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        p.grad *= samples
        dist.all_reduce(p.grad)
        p.grad /= total
wrong(weighted_none_is_zero, "None does not stay None", "None, zeros")


def weighted_no_guard(model, samples):
    total = torch.tensor(float(samples))
    dist.all_reduce(total)
    for p in model.parameters():
        p.grad *= samples
        dist.all_reduce(p.grad)
        p.grad /= total
wrong(weighted_no_guard, "fails on None", "None")


def weighted_total_reduced_in_the_loop(model, samples):
    total = torch.tensor(float(samples))
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= samples
            dist.all_reduce(total)
            dist.all_reduce(p.grad)
            p.grad /= total
wrong(weighted_total_reduced_in_the_loop, "the total is added up again for each parameter", "total, once, in the loop")


def weighted_total_never_reduced(model, samples):
    total = torch.tensor(float(max(samples, 1)))
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= samples
            dist.all_reduce(p.grad)
            p.grad /= total
wrong(weighted_total_never_reduced, "the total is the own count", "total, own, all_reduce")


def weighted_after_the_sum(model, samples):
    total = torch.tensor(float(samples))
    dist.all_reduce(total)
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad *= samples / total
wrong(weighted_after_the_sum, "weighs the sum with the own count: ranks differ", "before, own gradient, ranks differ")


def weighted_forgets_to_weigh(model, samples):
    total = torch.tensor(float(samples))
    dist.all_reduce(total)
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= total
wrong(weighted_forgets_to_weigh, "takes the gradients for sums, but they are means", "multiply, samples, means")


def weighted_mean_of_busy_ranks(model, samples):
    busy = torch.tensor(float(samples > 0))
    dist.all_reduce(busy)
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= busy
wrong(weighted_mean_of_busy_ranks, "mean over the ranks that have samples, unweighted", "mean of means, samples, weight")


def weighted_removes_the_empty_gradient(model, samples):
    total = torch.tensor(float(samples))
    dist.all_reduce(total)
    for p in model.parameters():
        if samples == 0:
            p.grad = None
        if p.grad is not None:
            p.grad *= samples
            dist.all_reduce(p.grad)
            p.grad /= total
wrong(weighted_removes_the_empty_gradient, "a rank without samples throws its gradients away and makes fewer calls", "no samples, fewer calls, waits")


def weighted_unwaited(model, samples):
    total = torch.tensor(float(samples))
    dist.all_reduce(total)
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= samples
            dist.all_reduce(p.grad, async_op=True)
            p.grad /= total
wrong(weighted_unwaited, "divides before wait", "wait, async")


def weighted_on_rank_0(model, samples):
    total = torch.tensor(float(samples))
    dist.reduce(total, 0)
    for p in model.parameters():
        if p.grad is not None:
            p.grad *= samples
            dist.reduce(p.grad, 0)
            p.grad /= total
wrong(weighted_on_rank_0, "only rank 0 has the sums", "reduce, only rank 0")


def weighted_into_a_new_tensor(model, samples):
    total = torch.tensor(float(samples))
    dist.all_reduce(total)
    for p in model.parameters():
        if p.grad is not None:
            g = p.grad * samples
            dist.all_reduce(g)
            g /= total
wrong(weighted_into_a_new_tensor, "the mean is not put back", "in place, new tensor, unchanged")


def weighted_the_wrong_way_round(model, samples):
    total = torch.tensor(float(samples))
    dist.all_reduce(total)
    for p in model.parameters():
        if p.grad is not None:
            p.grad /= max(samples, 1)
            dist.all_reduce(p.grad)
            p.grad *= total / dist.get_world_size() ** 2
wrong(weighted_the_wrong_way_round, "few samples count most", "weight, multiply by samples")
