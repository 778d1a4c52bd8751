"""A small DistributedDataParallel: it averages gradients while backward() is still running.

Backward goes through a model from its last layer to its first, so the gradients of the last layers are ready first, and
their all_reduce runs while those of earlier layers are still being computed.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn


class Overlapped(nn.Module):
    """The smallest wrapper that communicates during backward(): one call per gradient, and no buckets."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        for tensor in itertools.chain(module.parameters(), module.buffers()):
            dist.broadcast(tensor.detach(), src=0)
            if tensor.requires_grad:
                tensor.register_post_accumulate_grad_hook(self.gradient_is_ready)
        self.expected = sum(parameter.requires_grad for parameter in module.parameters())
        self.pending: list[tuple[Tensor, Any]] = []

    def gradient_is_ready(self, parameter: Tensor) -> None:
        assert parameter.grad is not None
        self.pending.append((parameter.grad, dist.all_reduce(parameter.grad, async_op=True)))
        if len(self.pending) == self.expected:  # the last gradient of this backward()
            for gradient, work in self.pending:
                work.wait()
                gradient /= dist.get_world_size()  # sum -> mean
            self.pending.clear()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)
