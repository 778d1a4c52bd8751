"""How far the ranks are apart: zero everywhere means that all hold the same."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor


def spread(tensor: Tensor) -> Tensor:
    """Return, element by element, the largest value of all ranks minus the smallest."""
    largest, smallest = tensor.clone(), tensor.clone()  # the caller's own stays as it is
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    dist.all_reduce(smallest, op=dist.ReduceOp.MIN)
    return largest - smallest
