"""How many of the test samples are recognised: every one counted exactly once, whatever the number of ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ddp_lessons.train.networks import unwrapped
from ddp_lessons.train.sampling import rank_and_world_size


@torch.no_grad()
def evaluate(model: nn.Module, data: Any, batch_size: int = 1000) -> float:
    """Return the accuracy over all samples of `data`, the same number on every rank."""
    rank, world_size = rank_and_world_size()
    # Not a DistributedSampler: it repeats samples until all ranks have equally many, and those would count twice.
    mine = torch.arange(rank, len(data), world_size)
    # Not the wrapped model: DistributedDataParallel may talk in forward(), and a rank may have one batch less.
    inner = unwrapped(model)
    device = next(inner.parameters()).device
    was_training = inner.training
    inner.eval()
    counts = torch.zeros(2, dtype=torch.int64, device=device)  # recognised, seen
    for batch in mine.split(batch_size):
        outputs = inner(data.images[batch].to(device))
        recognised = (outputs.argmax(dim=1) == data.labels[batch].to(device)).sum()
        counts += torch.stack([recognised, torch.tensor(len(batch), device=device)])
    inner.train(was_training)
    if world_size > 1:
        dist.all_reduce(counts)
    recognised, seen = counts.tolist()
    return float(recognised / seen)
