"""A fingerprint is the same for equal bits, and another for anything else."""

from __future__ import annotations

import re
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


def next_number_up(changed: Any) -> None:
    weight = changed[0].weight.data
    weight[2, 3] = torch.nextafter(weight[2, 3], torch.tensor(9.0))


def a_count_in_a_buffer(changed: Any) -> None:
    changed[1].num_batches_tracked += 1


def another_order(changed: Any) -> None:
    changed[2].bias.data = changed[2].bias.data.flip(0)


@pytest.mark.parametrize("change", [next_number_up, a_count_in_a_buffer, another_order, nn.Module.double])
def test_one_bit_anywhere_makes_another_and_gradients_do_not_count(change: Callable[[nn.Module], None]) -> None:
    changed = model().eval()
    changed(torch.ones(2, 4)).sum().backward()
    assert fingerprint(changed) == fingerprint(model())
    change(changed)
    assert fingerprint(changed) != fingerprint(model())


def test_a_wrapped_model_has_the_same_and_ranks_with_other_weights_another() -> None:
    def run(rank: int, world_size: int) -> list[str]:
        torch.manual_seed(rank)
        mine = nn.Linear(3, 2)
        return [fingerprint(mine), fingerprint(DistributedDataParallel(mine)), fingerprint(mine)]

    first, second = launch(run, 2)
    assert re.fullmatch("[0-9a-f]{8}", first[0])
    assert first[0] == first[1] == first[2] == second[1] == second[2] != second[0]
