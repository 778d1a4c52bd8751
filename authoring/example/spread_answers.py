"""Answers to the exercise `spread`: right ones, and wrong ones with the sentence that each must get."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed
Answer = Callable[[Tensor], object]


def by_gathering(tensor: Tensor) -> Tensor:
    tensors = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(tensors, tensor)
    return torch.stack(tensors).amax(0) - torch.stack(tensors).amin(0)


def the_largest(tensor: Tensor) -> Tensor:
    largest = tensor.clone()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return largest


def upside_down(tensor: Tensor) -> Tensor:
    return -by_gathering(tensor)


def without_communication(tensor: Tensor) -> Tensor:
    return tensor - tensor


def in_the_callers_tensor(tensor: Tensor) -> Tensor:
    return tensor.copy_(by_gathering(tensor))


RIGHT: list[Answer] = [by_gathering]
WRONG: list[tuple[Answer, str]] = [
    (the_largest, "That is the largest value of all ranks."),
    (upside_down, "The sign is wrong"),
    (without_communication, "compared its tensor with itself"),
    (in_the_callers_tensor, "the given tensor was changed. Work on a copy"),
]
