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


@torch.no_grad()
def evaluate_every_nth(model, data):
    rank, n, was = dist.get_rank(), dist.get_world_size(), model.training
    model.eval()
    right_ones = (model(data.images[rank::n]).argmax(dim=1) == data.labels[rank::n]).sum()
    counts = torch.tensor([right_ones, len(data.labels[rank::n])])
    dist.all_reduce(counts)
    model.train(was)
    return (counts[0] / counts[1]).item()
right(evaluate_every_nth, "the six lines; no_grad as a decorator")


def evaluate_in_blocks(model, data):
    was_training = model.training
    model.eval()
    images = data.images.tensor_split(dist.get_world_size())[dist.get_rank()]
    labels = data.labels.tensor_split(dist.get_world_size())[dist.get_rank()]
    with torch.no_grad():
        hits = torch.zeros((), dtype=torch.int64)
        for x, y in zip(images.split(50), labels.split(50)):
            if len(x):
                hits += (model(x).argmax(1) == y).sum()
    if was_training:
        model.train()
    dist.all_reduce(hits)
    return hits.item() / len(data.labels)
right(evaluate_in_blocks, "contiguous blocks, batches of 50, total known to everyone")


def evaluate_one_by_one(model, data):
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    hits = 0
    with torch.inference_mode():
        for i in range(dist.get_rank(), len(data.labels), dist.get_world_size()):
            hits += int(model(data.images[i : i + 1]).argmax() == data.labels[i])
    for m, mode in modes:
        m.training = mode
    all_hits = [None] * dist.get_world_size()
    dist.all_gather_object(all_hits, hits)
    return sum(all_hits) / len(data.labels)
right(evaluate_one_by_one, "a sample at a time, the mode of each module kept, objects, inference_mode")


class Evaluating:
    def __init__(self, model):
        self.model = model

    def __enter__(self):
        self.was, self.grad = self.model.training, torch.is_grad_enabled()
        self.model.eval()
        torch.set_grad_enabled(False)

    def __exit__(self, *_):
        self.model.train(self.was)
        torch.set_grad_enabled(self.grad)


def evaluate_with_a_context_manager(model, data):
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    with Evaluating(model):
        correct = model(data.images[mine]).argmax(dim=1).eq(data.labels[mine])
    counts = torch.tensor([float(correct.sum()), float(correct.numel())], dtype=torch.float64)
    dist.all_reduce(counts)
    return counts[0].item() / counts[1].item()
right(evaluate_with_a_context_manager, "a context manager that restores mode and gradients")


def evaluate_reduce_and_tell(model, data):
    rank, n, mode = dist.get_rank(), dist.get_world_size(), model.training
    try:
        model.eval()
        with torch.no_grad():
            wrong_ones = (model(data.images[rank::n]).argmax(dim=1) != data.labels[rank::n]).sum()
    finally:
        model.train(mode)
    dist.reduce(wrong_ones, dst=0)
    dist.broadcast(wrong_ones, src=0)
    return 1 - wrong_ones.item() / len(data.images)
right(evaluate_reduce_and_tell, "counts the wrong ones; reduce and broadcast; try/finally")


def evaluate_with_index_select(model, data):
    indices = torch.arange(len(data.labels))
    indices = indices[indices % dist.get_world_size() == dist.get_rank()]
    before = model.training
    model.train(False)
    with torch.no_grad():
        read = model(data.images.index_select(0, indices)).max(dim=1).indices
    model.train(before)
    hits = torch.stack([(read == data.labels[indices]).sum(), torch.tensor(len(indices))])
    dist.all_reduce(hits)
    hits, total = hits.tolist()
    return hits / total
right(evaluate_with_index_select, "indices by modulo, max().indices for argmax")


@torch.no_grad()
def evaluate_mean_of_accuracies(model, data):
    rank, n, was = dist.get_rank(), dist.get_world_size(), model.training
    model.eval()
    accuracy = (model(data.images[rank::n]).argmax(dim=1) == data.labels[rank::n]).float().mean()
    dist.all_reduce(accuracy, dist.ReduceOp.AVG)
    model.train(was)
    return accuracy.item()
wrong(evaluate_mean_of_accuracies, "accuracies travel: the mean of means (nan for a rank without samples)", "mean of means, counts, accuracies")


@torch.no_grad()
def evaluate_with_padding_sampler(model, data):
    was = model.training
    model.eval()
    mine = list(torch.utils.data.DistributedSampler(data.labels, shuffle=False))
    counts = torch.tensor([(model(data.images[mine]).argmax(1) == data.labels[mine]).sum(), len(mine)])
    dist.all_reduce(counts)
    model.train(was)
    return (counts[0] / counts[1]).item()
wrong(evaluate_with_padding_sampler, "the sampler pads: some samples count twice", "twice, padding, exactly once, DistributedSampler")


@torch.no_grad()
def evaluate_in_training_mode(model, data):
    rank, n = dist.get_rank(), dist.get_world_size()
    counts = torch.tensor([(model(data.images[rank::n]).argmax(1) == data.labels[rank::n]).sum(), len(data.labels[rank::n])])
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()
wrong(evaluate_in_training_mode, "no eval(): dropout is on", "eval, mode, dropout")


@torch.no_grad()
def evaluate_stays_in_eval(model, data):
    rank, n = dist.get_rank(), dist.get_world_size()
    model.eval()
    counts = torch.tensor([(model(data.images[rank::n]).argmax(1) == data.labels[rank::n]).sum(), len(data.labels[rank::n])])
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()
wrong(evaluate_stays_in_eval, "the model stays in eval mode", "mode in which you found it, train")


@torch.no_grad()
def evaluate_always_train_afterwards(model, data):
    rank, n = dist.get_rank(), dist.get_world_size()
    model.eval()
    counts = torch.tensor([(model(data.images[rank::n]).argmax(1) == data.labels[rank::n]).sum(), len(data.labels[rank::n])])
    dist.all_reduce(counts)
    model.train()
    return (counts[0] / counts[1]).item()
wrong(evaluate_always_train_afterwards, "a model that was in eval mode is in training mode now", "mode in which you found it, eval")


@torch.no_grad()
def evaluate_looks_at_the_mode_too_late(model, data):
    rank, n = dist.get_rank(), dist.get_world_size()
    model.eval()
    was = model.training
    counts = torch.tensor([(model(data.images[rank::n]).argmax(1) == data.labels[rank::n]).sum(), len(data.labels[rank::n])])
    dist.all_reduce(counts)
    model.train(was)
    return (counts[0] / counts[1]).item()
wrong(evaluate_looks_at_the_mode_too_late, "asks for the mode after eval()", "mode in which you found it, eval")


@torch.no_grad()
def evaluate_own_share_only(model, data):
    rank, n, was = dist.get_rank(), dist.get_world_size(), model.training
    model.eval()
    accuracy = (model(data.images[rank::n]).argmax(1) == data.labels[rank::n]).float().mean().item()
    model.train(was)
    return accuracy
wrong(evaluate_own_share_only, "each rank returns the accuracy of its share", "same on every rank, all_reduce, share")


@torch.no_grad()
def evaluate_everything_everywhere(model, data):
    was = model.training
    model.eval()
    hits = (model(data.images).argmax(1) == data.labels).sum().item()
    model.train(was)
    return hits / len(data.labels)
wrong(evaluate_everything_everywhere, "every rank counts all samples; not shared, counted N times", "exactly once, share, every rank reads all")


@torch.no_grad()
def evaluate_drops_the_remainder(model, data):
    rank, n, was = dist.get_rank(), dist.get_world_size(), model.training
    model.eval()
    size = len(data.labels) // n
    x, y = data.images[rank * size : (rank + 1) * size], data.labels[rank * size : (rank + 1) * size]
    counts = torch.tensor([(model(x).argmax(1) == y).sum(), len(y)])
    dist.all_reduce(counts)
    model.train(was)
    return (counts[0] / counts[1]).item()
wrong(evaluate_drops_the_remainder, "the remainder is not counted", "remainder, exactly once, lost")


@torch.no_grad()
def evaluate_divides_by_own_count(model, data):
    rank, n, was = dist.get_rank(), dist.get_world_size(), model.training
    model.eval()
    y = data.labels[rank::n]
    hits = (model(data.images[rank::n]).argmax(1) == y).sum()
    dist.all_reduce(hits)
    model.train(was)
    return hits.item() / max(len(y), 1)
wrong(evaluate_divides_by_own_count, "all hits by its own samples: above 1", "count, own, all samples")


@torch.no_grad()
def evaluate_own_count_times_ranks(model, data):
    rank, n, was = dist.get_rank(), dist.get_world_size(), model.training
    model.eval()
    y = data.labels[rank::n]
    hits = (model(data.images[rank::n]).argmax(1) == y).sum()
    dist.all_reduce(hits)
    model.train(was)
    return hits.item() / max(len(y) * n, 1)
wrong(evaluate_own_count_times_ranks, "assumes equal shares; ranks differ", "shares, sample less, count")


@torch.no_grad()
def evaluate_leaves_early_without_samples(model, data):
    rank, n, was = dist.get_rank(), dist.get_world_size(), model.training
    y = data.labels[rank::n]
    if len(y) == 0:
        return 0.0
    model.eval()
    counts = torch.tensor([(model(data.images[rank::n]).argmax(1) == y).sum(), len(y)])
    dist.all_reduce(counts)
    model.train(was)
    return (counts[0] / counts[1]).item()
wrong(evaluate_leaves_early_without_samples, "a rank without samples does not come to the all_reduce", "none, waits, does not come")


def evaluate_with_gradients(model, data):
    rank, n, was = dist.get_rank(), dist.get_world_size(), model.training
    model.eval()
    counts = torch.tensor([(model(data.images[rank::n]).argmax(1) == data.labels[rank::n]).sum(), len(data.labels[rank::n])])
    dist.all_reduce(counts)
    model.train(was)
    return (counts[0] / counts[1]).item()
wrong(evaluate_with_gradients, "no torch.no_grad()", "no_grad, memory, backward")


@torch.no_grad()
def evaluate_argmax_over_samples(model, data):
    rank, n, was = dist.get_rank(), dist.get_world_size(), model.training
    model.eval()
    y = data.labels[rank::n]
    read = model(data.images[rank::n]).argmax(dim=0)
    hits = sum(int(a == b) for a, b in zip(read, y))
    counts = torch.tensor([hits, len(y)])
    dist.all_reduce(counts)
    model.train(was)
    return (counts[0] / counts[1]).item()
wrong(evaluate_argmax_over_samples, "argmax over the wrong dimension", "argmax, dim=1")


@torch.no_grad()
def evaluate_in_percent(model, data):
    rank, n, was = dist.get_rank(), dist.get_world_size(), model.training
    model.eval()
    counts = torch.tensor([(model(data.images[rank::n]).argmax(1) == data.labels[rank::n]).sum(), len(data.labels[rank::n])])
    dist.all_reduce(counts)
    model.train(was)
    return 100 * (counts[0] / counts[1]).item()
wrong(evaluate_in_percent, "percent instead of a part", "100, part, percent, above 1")


@torch.no_grad()
def evaluate_counts_in_bytes(model, data):
    rank, n, was = dist.get_rank(), dist.get_world_size(), model.training
    model.eval()
    counts = torch.tensor([(model(data.images[rank::n]).argmax(1) == data.labels[rank::n]).sum() % 256, len(data.labels[rank::n]) % 256], dtype=torch.uint8)
    dist.all_reduce(counts)
    model.train(was)
    return (counts[0] / counts[1]).item()
wrong(evaluate_counts_in_bytes, "counts in uint8 overflow at 256", "dtype, overflow, uint8")


@torch.no_grad()
def evaluate_told_to_rank_0(model, data):
    rank, n, was = dist.get_rank(), dist.get_world_size(), model.training
    model.eval()
    counts = torch.tensor([(model(data.images[rank::n]).argmax(1) == data.labels[rank::n]).sum(), len(data.labels[rank::n])])
    dist.reduce(counts, dst=0)
    model.train(was)
    if rank == 0:
        return (counts[0] / counts[1]).item()
wrong(evaluate_told_to_rank_0, "the others return None", "same on every rank, None, all_reduce")
