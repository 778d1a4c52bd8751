"""Arguments of trials: tensors of every kind, numbers and models, all drawn from seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ddp_lessons.check.differences import dtype_name
from ddp_lessons.check.exercise import Trial

AGAIN = "the same shape a second time"


def tensor(shape: tuple[int, ...], dtype: str = "float32", sign: int = 1, largest: int = 0) -> Any:
    """Each rank is given its own tensor. Floats hold whole numbers, so that a sum is exact in any order."""
    return partial(_tensor, shape=shape, dtype=dtype, sign=sign, largest=largest)


def _tensor(
    rank: int, world_size: int, chance: torch.Generator, shape: tuple[int, ...], dtype: str, sign: int, largest: int
) -> tuple[Tensor]:
    most = largest or (2**57 if dtype == "int64" else 10_000)  # int64 values do not fit into a float
    numbers = sign * torch.randint(1, most, (math.prod(shape),), generator=chance)
    # a copy, because a tensor in flight is watched for changes, and changes of a view go unnoticed
    return (numbers.to(getattr(torch, dtype)).view(shape).clone(),)


def of_every_kind(matrix: tuple[int, int] = (4, 7)) -> list[Trial]:
    """For functions of tensors that have the same shape and dtype on every rank."""
    uneven = "a length not divisible by world_size"
    return [
        Trial(tensor((120,))),  # 120 is divisible by each world size that is tried
        Trial(tensor((120,)), AGAIN),
        Trial(tensor((120,), sign=-1), "negative numbers", largest_world=3),
        Trial(tensor((120,), "int64"), "integers (int64)"),
        Trial(tensor((120,), "float64"), "another dtype (float64)", largest_world=3),
        Trial(tensor((121,)), uneven),
        Trial(tensor((119,)), uneven, largest_world=4),
        Trial(tensor(matrix), "a two-dimensional tensor", largest_world=3),
        Trial(tensor((1,)), "a tensor with one element", largest_world=4),
        Trial(tensor((3,), "int64"), "a tensor with fewer elements than ranks"),
        Trial(tensor((262_147,)), "a large tensor", largest_world=3),
    ]


def in_words(names: Sequence[str], arguments: Sequence[Any]) -> str:
    """What a rank was given: "a tensor of shape [120], float32, and samples = 3"."""
    words = [_one_in_words(name, argument) for name, argument in zip(names, arguments, strict=False)]
    return ", and ".join(filter(None, words))


def _one_in_words(name: str, argument: Any) -> str:
    if isinstance(argument, Tensor):
        return f"a tensor of shape {list(argument.shape)}, {dtype_name(argument)}"
    if isinstance(argument, nn.Module):
        parameters = list(argument.parameters())
        many = "parameter" if len(parameters) == 1 else "parameters"
        return f"a model with {len(parameters)} {many}, {dtype_name(parameters[0])}"
    if isinstance(argument, list) and all(isinstance(one, int | float) for one in argument) and len(argument) < 9:
        return f"{name} = [{', '.join(f'{one:.3g}' for one in argument)}]"
    if argument is None or isinstance(argument, bool | int | float | str):
        return f"{name} = {argument!r}"
    if isinstance(argument, list) and argument and isinstance(argument[0], Tensor):
        return f"a list of {len(argument)} tensors"
    if hasattr(argument, "in_words"):
        return str(argument.in_words)
    return f"{name} of length {len(argument)}" if hasattr(argument, "__len__") else ""
