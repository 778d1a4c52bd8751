"""Average gradients over all ranks, by hand.

Call it between backward() and step(): afterwards every rank holds the same gradients, takes the same step, and models
that were equal stay equal.
"""

from __future__ import annotations

import torch.distributed as dist
from torch import nn


def average_gradients(model: nn.Module) -> None:
    """Make every gradient the mean over the ranks' gradients. What has no gradient stays without."""
    for parameter in model.parameters():
        # The only question to ask. `type(parameter) is torch.Tensor` is false for each of them: their type is
        # Parameter, and a loop with that guard averages nothing, and nobody is told.
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()  # sum -> mean
