"""Means over all ranks, even if the ranks have different numbers of elements."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def global_mean(tensor: Tensor) -> Tensor:
    """Return the mean over all elements of all ranks' tensors.

    The mean of the ranks' means would be wrong: it gives a rank with few elements the same weight as one with many.
    """
    # Only two numbers per rank are sent, however long the tensors are.
    # In float64, because the sum grows with the number of elements and float32 has only seven digits.
    sum_and_count = torch.tensor([tensor.sum(dtype=torch.float64), tensor.numel()], dtype=torch.float64)
    dist.all_reduce(sum_and_count)
    total, count = sum_and_count
    mean: Tensor = total / count  # a scalar
    return mean.to(tensor.dtype)


def mean_loss(losses: Sequence[float]) -> float:
    """Return the mean of all ranks' losses. Some ranks may have no losses, but not all of them."""
    # A rank without losses must also call the collective, with a sum and a count of 0, because the others wait.
    sum_and_count = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.all_reduce(sum_and_count)
    total, count = sum_and_count.tolist()
    return float(total / count)
