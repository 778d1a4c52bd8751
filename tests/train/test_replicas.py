"""A fingerprint is the same for equal bits, and another for anything else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import launch
from ddp_lessons.train.replicas import fingerprint


def model() -> Any:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


def test_it_is_eight_hex_digits_and_equal_for_equal_bits() -> None:
    one, other = model(), model()
    assert one[0].weight.data_ptr() != other[0].weight.data_ptr()
    assert fingerprint(one) == fingerprint(other) == fingerprint(copy.deepcopy(one))
    assert len(fingerprint(one)) == 8
    int(fingerprint(one), 16)


def next_number_up(changed: Any) -> None:
    weight = changed[0].weight.data
    weight[2, 3] = torch.nextafter(weight[2, 3], torch.tensor(9.0))


def another_buffer(changed: Any) -> None:
    changed[1].running_mean[0] += 1


def a_count_in_a_buffer(changed: Any) -> None:
    changed[1].num_batches_tracked += 1


def another_order(changed: Any) -> None:
    changed[2].bias.data = changed[2].bias.data.flip(0)


@pytest.mark.parametrize("change", [next_number_up, another_buffer, a_count_in_a_buffer, another_order])
def test_one_bit_anywhere_makes_another(change: Callable[[nn.Module], None]) -> None:
    changed = model()
    change(changed)
    assert fingerprint(changed) != fingerprint(model())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.complex64])
def test_every_dtype_has_one(dtype: torch.dtype) -> None:
    def of(number: float) -> str:
        holder = nn.Module()
        holder.register_buffer("scale", torch.tensor(number, dtype=dtype))
        holder.weight = nn.Parameter(torch.ones(3, 4, dtype=dtype).t())
        return fingerprint(holder)

    assert of(1.0) == of(1.0) != of(1.5)


def test_gradients_do_not_count_and_a_model_without_tensors_has_one_too() -> None:
    one = model()
    before = fingerprint(one)
    one(torch.ones(2, 4)).sum().backward()
    one[1].running_mean, one[1].running_var = model()[1].running_mean, model()[1].running_var
    one[1].num_batches_tracked = model()[1].num_batches_tracked
    assert all(parameter.grad is not None for parameter in one.parameters())
    assert fingerprint(one) == before
    assert fingerprint(nn.ReLU()) == fingerprint(nn.Tanh())


def test_a_wrapped_model_has_the_same_and_ranks_with_other_weights_another() -> None:
    def run(rank: int, world_size: int) -> list[str]:
        torch.manual_seed(rank)
        mine = nn.Linear(3, 2)
        return [fingerprint(mine), fingerprint(DistributedDataParallel(mine)), fingerprint(mine)]

    first, second = launch(run, 2)
    assert first[0] == first[1] == first[2] == second[1] == second[2] != second[0]
