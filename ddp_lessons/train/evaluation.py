"""Accuracy over the test samples: each sample counts exactly once, with any number of ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ddp_lessons.train.networks import unwrapped
from ddp_lessons.train.sampling import rank_and_world_size


@torch.no_grad()
def evaluate(model: nn.Module, data: Any, batch_size: int = 1000) -> float:
    """Return the accuracy over all samples of `data`, the same number on every rank.

    This is the accuracy of rank 0's model: buffers, such as BatchNorm's running means, differ between ranks that train,
    so rank 0 broadcasts its buffers first, as DistributedDataParallel does.
    """
    if len(data) == 0:
        raise ValueError("the data set is empty: evaluate the model on at least one sample")
    rank, world_size = rank_and_world_size()
    # Not a DistributedSampler, which repeats samples until all ranks have equally many, so that some would count
    # twice.
    mine = torch.arange(len(data))[rank::world_size]
    # Not the wrapped model: DistributedDataParallel may communicate in forward(), and a rank may have one batch fewer.
    inner = unwrapped(model)
    device = next(inner.parameters()).device
    counts = torch.zeros(2, dtype=torch.int64, device=device)  # correct, seen
    if world_size > 1:
        for buffer in inner.buffers():
            dist.broadcast(buffer, src=0)
    with _in_eval_mode(inner):
        # a rank without samples has no batch, because not every model accepts an empty one
        for batch in mine.split(batch_size) if len(mine) else ():
            outputs = inner(data.images[batch].to(device))
            recognized = (outputs.argmax(dim=1) == data.labels[batch].to(device)).sum()
            counts += torch.stack([recognized, torch.tensor(len(batch), device=device)])
    if world_size > 1:
        dist.all_reduce(counts)
    recognized, seen = counts.tolist()
    return float(recognized / seen)


@contextlib.contextmanager
def _in_eval_mode(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]  # per module, because some may be frozen
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
