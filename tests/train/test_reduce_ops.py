"""The operators of a reduction on gloo, against Python's own arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import pytest
import torch
import torch.distributed as dist

from ddp_lessons import launch

BROUGHT = [3.0, 7.0, 14.0]
OPERATORS: dict[str, Callable[[Iterable[float]], float]] = {"SUM": sum, "PRODUCT": math.prod, "MAX": max, "MIN": min}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_reduction_does_what_its_operator_says(name: str) -> None:
    def run(rank: int, world_size: int) -> tuple[float, float]:
        for_all, for_one = torch.tensor(BROUGHT[rank]), torch.tensor(BROUGHT[rank])
        dist.all_reduce(for_all, op=getattr(dist.ReduceOp, name))
        dist.reduce(for_one, dst=1, op=getattr(dist.ReduceOp, name))
        return for_all.item(), for_one.item()

    results = launch(run, 3)
    right = OPERATORS[name](BROUGHT)
    assert [for_all for for_all, _ in results] == [right] * 3
    assert results[1][1] == right
