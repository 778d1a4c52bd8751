"""One epoch of training in three ways that differ in one line: who averages the gradients.

Each returns the losses of the whole batches, step by step, the same on every rank. They travel once, when the epoch is
over: asking the others in every step would make everyone wait for the slowest, for a number that only we look at.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from ddp_lessons.train.gradients import average_gradients
from ddp_lessons.train.sampling import GlobalBatches


def train_alone(model: nn.Module, batches: GlobalBatches, optimizer: Optimizer, epoch: int) -> list[float]:
    """Train in one process that sees the whole batch."""
    losses = []
    for inputs, labels, scale in batches.epoch(epoch):
        optimizer.zero_grad()
        loss = scale * F.nll_loss(model(inputs), labels, reduction="sum")
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def train_by_hand(
    model: nn.Module,
    batches: GlobalBatches,
    optimizer: Optimizer,
    epoch: int,
    average: Callable[[nn.Module], None] = average_gradients,
) -> list[float]:
    """Train on all ranks, where `average` makes the ranks' gradients one."""
    losses = []
    for inputs, labels, scale in batches.epoch(epoch):
        optimizer.zero_grad()
        loss = scale * F.nll_loss(model(inputs), labels, reduction="sum")
        loss.backward()
        average(model)
        optimizer.step()
        losses.append(loss.detach())
    return mean_over_ranks(losses)


def train_with_ddp(model: nn.Module, batches: GlobalBatches, optimizer: Optimizer, epoch: int) -> list[float]:
    """Train on all ranks, where the model is wrapped in DistributedDataParallel: backward() averages."""
    losses = []
    for inputs, labels, scale in batches.epoch(epoch):
        optimizer.zero_grad()
        loss = scale * F.nll_loss(model(inputs), labels, reduction="sum")
        loss.backward()  # and, meanwhile, the average
        optimizer.step()
        losses.append(loss.detach())
    return mean_over_ranks(losses)


def mean_over_ranks(losses: list[Tensor]) -> list[float]:
    """Every rank has as many steps, so that all of them can travel at once."""
    means = torch.stack(losses)
    dist.all_reduce(means)
    means /= dist.get_world_size()
    return means.tolist()
