"""A small DistributedDataParallel: it averages gradients in buckets while backward() is still running.

Backward goes through a model from its last layer to its first, so the gradients of the last layers are ready first.
They fill the first bucket, and its all_reduce runs while the gradients of earlier layers are still being computed.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Variable

from ddp_lessons.train.gradients import MEGABYTE, flattened, in_buckets


class SmallDDP(nn.Module):
    """Keep the models of all ranks equal: the same initial weights, and averaged gradients in backward()."""

    def __init__(self, module: nn.Module, bucket_bytes: int = 25 * MEGABYTE) -> None:
        super().__init__()
        self.module = module
        for tensor in itertools.chain(module.parameters(), module.buffers()):
            dist.broadcast(tensor.detach(), src=0)
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self._buckets = [_Bucket(bucket) for bucket in in_buckets(reversed(trained), bucket_bytes)]
        for bucket in self._buckets:
            for parameter in bucket.parameters:
                parameter.register_post_accumulate_grad_hook(functools.partial(self._gradient_is_there, bucket))
        self._synchronizes, self._averages = True, False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self._averages = self._synchronizes  # the setting at forward() applies to its backward() too
        if self._averages:
            for buffer in self.module.buffers():
                dist.broadcast(buffer, src=0)
            self._begin()  # also after a backward() that raised
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """For forward() calls in here, gradients only accumulate; the next one outside averages the sum."""
        self._synchronizes, before = False, self._synchronizes
        try:
            yield
        finally:
            self._synchronizes = before

    def _begin(self) -> None:
        self._is_under_way, self._next = False, 0
        for bucket in self._buckets:
            bucket.missing = len(bucket.parameters)

    def _gradient_is_there(self, bucket: _Bucket, parameter: Tensor) -> None:
        if not self._averages:
            return
        if not self._is_under_way:
            self._is_under_way = True
            Variable._execution_engine.queue_callback(self._end)  # when this backward() is complete
        bucket.missing -= 1
        # Buckets are sent in the same order on all ranks, whichever is full first. Otherwise two ranks would add up
        # gradients of different parameters.
        while self._next < len(self._buckets) and self._buckets[self._next].missing <= 0:
            self._buckets[self._next].set_off()
            self._next += 1

    def _end(self) -> None:
        """After backward: send the buckets that lack gradients of unused parameters, and wait for all buckets."""
        for bucket in self._buckets[self._next :]:
            bucket.set_off()
        for bucket in self._buckets:
            bucket.arrive()
        self._begin()


class _Bucket:
    """Some parameters whose gradients are sent together."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters = parameters
        self.missing = len(parameters)

    def set_off(self) -> None:
        gradients = [parameter.grad for parameter in self.parameters]
        # One more value per parameter says whether it had a gradient; if not, zeros are sent for it.
        had = torch.tensor([float(gradient is not None) for gradient in gradients]).to(self.parameters[0])
        numbers = [torch.zeros_like(p) if g is None else g for p, g in zip(self.parameters, gradients, strict=True)]
        self.flat = flattened([*numbers, had])
        self.work: Any = dist.all_reduce(self.flat, async_op=True)

    def arrive(self) -> None:
        self.work.wait()
        self.flat /= dist.get_world_size()  # sum -> mean
        sizes = [parameter.numel() for parameter in self.parameters]
        *means, had = self.flat.split([*sizes, len(sizes)])
        for parameter, mean, share_of_ranks in zip(self.parameters, means, had.tolist(), strict=True):
            if share_of_ranks:  # no gradient if no rank has one
                parameter.grad = torch.empty_like(parameter) if parameter.grad is None else parameter.grad
                parameter.grad.copy_(mean.view_as(parameter))
