"""One epoch of training in three ways, which differ only in how gradients are averaged, and a complete loop with DDP.

The three return the losses of the global batches, step by step, the same on every rank. The losses are exchanged
once, after the epoch. Exchanging them in every step would make all ranks wait for the straggler, only for a log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

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
    """Train on all ranks; `average` averages their gradients."""
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
    """Train on all ranks with a model wrapped in DistributedDataParallel, whose backward() averages the gradients."""
    losses = []
    for inputs, labels, scale in batches.epoch(epoch):
        optimizer.zero_grad()
        loss = scale * F.nll_loss(model(inputs), labels, reduction="sum")
        loss.backward()  # and averages at the same time
        optimizer.step()
        losses.append(loss.detach())
    return mean_over_ranks(losses)


def train_loop(
    rank: int, world_size: int, net: Callable[[], nn.Module], data: Dataset[Any], epochs: int, batch_size: int = 32
) -> dict[str, Tensor]:
    """Train a new network on the CPU and return its weights. `batch_size` is that of all ranks together."""
    torch.manual_seed(1)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    sampler: DistributedSampler[Any] = DistributedSampler(data, world_size, rank)
    loader = DataLoader(data, batch_size // world_size, sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)  # otherwise every epoch has the same order
        for images, labels in loader:
            optimizer.zero_grad()
            F.nll_loss(model(images), labels).backward()
            optimizer.step()
    weights: dict[str, Tensor] = model.module.state_dict()
    return weights


def mean_over_ranks(losses: list[Tensor]) -> list[float]:
    """Every rank has the same number of steps, so one call can send all losses."""
    means = torch.stack(losses)
    dist.all_reduce(means)
    means /= dist.get_world_size()
    return means.tolist()
