"""How far apart the ranks are: zero everywhere means that all ranks hold the same values."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor


def spread(tensor: Tensor) -> Tensor:
    """Return, element by element, the largest value on any rank minus the smallest."""
    largest, smallest = tensor.clone(), tensor.clone()  # the caller's tensor stays unchanged
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    dist.all_reduce(smallest, op=dist.ReduceOp.MIN)
    return largest - smallest
