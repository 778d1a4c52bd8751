"""A call belongs to the line that made it, also where a learner's own code stands between that line and torch."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import by_day
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ddp_lessons import WorkerFailed, launch

STAND_INS = ["dispatch mode", "profiled", "wrapped"]


def standing_between(kind: str) -> contextlib.AbstractContextManager[Any]:
    """Made on the rank: what a learner has of these is his own."""

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    original = dist.all_reduce

    @functools.wraps(original)
    def counted(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    @contextlib.contextmanager
    def wrapped() -> Any:
        dist.all_reduce = counted
        yield
        dist.all_reduce = original

    made: dict[str, Any] = {"dispatch mode": Operators, "wrapped": wrapped}
    return made.get(kind, torch.profiler.profile)()  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", by_day(STAND_INS[:2], 1))
def test_what_torch_starts_is_not_the_learners_to_wait_for(kind: str) -> None:
    """With uneven batches, DDP's join starts collectives in the background that nobody has to wait for."""

    def train(rank: int, world_size: int) -> float:
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
        with standing_between(kind), model.join():
            for _ in range(2 + rank):
                model(torch.ones(1, 2)).sum().backward()
        return float(model.module.weight.grad.sum())

    assert list(launch(train, 2)) == list(launch(train, 2, record=False))


@pytest.mark.parametrize("kind", STAND_INS)
def test_what_the_learner_starts_still_is(kind: str) -> None:
    def start(rank: int, world_size: int) -> None:
        with standing_between(kind):
            dist.all_reduce(torch.ones(2), async_op=True)

    with pytest.raises(WorkerFailed, match=r"wait\(\) was never called for all_reduce of ranks 0 and 1"):
        launch(start, 2)
