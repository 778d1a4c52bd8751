"""Means over all ranks, also where the ranks hold different numbers of elements."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def global_mean(tensor: Tensor) -> Tensor:
    """Return the mean over all elements of all ranks' tensors.

    The mean of the ranks' means would be another number: there a rank with few elements weighs as much as one with
    many.
    """
    # Two numbers per rank are all that has to travel, however long the tensors are.
    # In float64, since a sum grows with the number of elements, and float32 holds only seven digits of it.
    sum_and_count = torch.tensor([tensor.sum(dtype=torch.float64), tensor.numel()], dtype=torch.float64)
    dist.all_reduce(sum_and_count)
    total, count = sum_and_count
    mean: Tensor = total / count  # no dimension: one number
    return mean.to(tensor.dtype)


def mean_loss(losses: Sequence[float]) -> float:
    """Return the mean over the losses of all ranks, also if a rank has none: not all of them may be empty."""
    # A rank without losses comes to the collective as well, with a sum and a count of 0: the others wait there for it.
    sum_and_count = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.all_reduce(sum_and_count)
    total, count = sum_and_count.tolist()
    return float(total / count)
