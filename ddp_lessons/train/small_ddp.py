"""DistributedDataParallel in small: gradients travel in buckets while backward() is still at work.

Backward goes through a model from its end to its beginning, so the gradients of the last layers are there first. They
fill the first bucket, whose all_reduce is under way while the gradients of the layers before are still being computed.
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

from ddp_lessons.train.gradients import MEGABYTE, in_buckets


class SmallDDP(nn.Module):
    """Keep the models of all ranks equal: the same weights at the start, in backward() the mean of the gradients."""

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
        self._synchronises = True
        self._is_under_way = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._synchronises:
            for buffer in self.module.buffers():
                dist.broadcast(buffer, src=0)
            self._begin()
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Only add up gradients in here; the next backward() outside averages the sum."""
        self._synchronises, before = False, self._synchronises
        try:
            yield
        finally:
            self._synchronises = before

    def _begin(self) -> None:
        self._is_under_way, self._next = False, 0
        for bucket in self._buckets:
            bucket.missing = len(bucket.parameters)

    def _gradient_is_there(self, bucket: _Bucket, parameter: Tensor) -> None:
        if not self._synchronises:
            return
        if not self._is_under_way:
            self._is_under_way = True
            Variable._execution_engine.queue_callback(self._end)
        bucket.missing -= 1
        # Buckets set off in one order, the same on all ranks, whichever is full first: else two ranks would add up
        # numbers of different parameters.
        while self._next < len(self._buckets) and self._buckets[self._next].missing <= 0:
            self._buckets[self._next].set_off()
            self._next += 1

    def _end(self) -> None:
        """Backward is through: send what was not full, since some parameters had no gradient, and wait for all."""
        for bucket in self._buckets[self._next :]:
            bucket.set_off()
        for bucket in self._buckets:
            bucket.arrive()
        self._begin()


class _Bucket:
    """Some parameters whose gradients travel together."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters = parameters
        self.missing = len(parameters)

    def set_off(self) -> None:
        gradients = [parameter.grad for parameter in self.parameters]
        # A last number for each parameter tells whether it had a gradient: on a rank without one, zeros travel.
        had = torch.tensor([float(gradient is not None) for gradient in gradients]).to(self.parameters[0])
        numbers = [torch.zeros_like(p) if g is None else g for p, g in zip(self.parameters, gradients, strict=True)]
        self.flat = torch.cat([*(number.flatten() for number in numbers), had])
        self.work: Any = dist.all_reduce(self.flat, async_op=True)

    def arrive(self) -> None:
        self.work.wait()
        sizes = [parameter.numel() for parameter in self.parameters]
        *means, had = self.flat.split([*sizes, len(sizes)])
        for parameter, mean, ranks in zip(self.parameters, means, had.tolist(), strict=True):
            if ranks:  # a gradient that no rank has stays away
                parameter.grad = (mean / dist.get_world_size()).view_as(parameter)
