"""One step over micro-batches of unequal lengths, with the gradient of the mean over all tokens of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.train.texts import PADDING


def token_mean_loss(model: DistributedDataParallel, micro_batches: Sequence[tuple[Tensor, Tensor]]) -> float:
    """Run forward and backward passes of one optimizer step. Return the mean loss over all tokens."""
    own = sum((targets != PADDING).sum() for _, targets in micro_batches)
    count = torch.as_tensor(own, dtype=torch.float64)
    dist.all_reduce(count)
    scale = dist.get_world_size() / count  # DDP divides by the world size
    mean = torch.zeros((), dtype=torch.float64)
    for number, (tokens, targets) in enumerate(micro_batches, start=1):
        with nullcontext() if number == len(micro_batches) else model.no_sync():
            outputs = model(tokens).flatten(0, 1)
            loss = cross_entropy(outputs, targets.flatten(), reduction="sum", ignore_index=PADDING)
            (loss * scale).backward()
        mean += loss.detach() / count
    dist.all_reduce(mean)
    return mean.item()
