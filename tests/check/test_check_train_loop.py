"""check.train_loop: the package's solution, other right loops, and wrong ones with their sentences."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from banks import assert_accepts, assert_refuses
from nights import by_day
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from ddp_lessons import check
from ddp_lessons.check.trainings import loop_exercise
from ddp_lessons.train.gradients import average_gradients
from ddp_lessons.train.loops import train_loop


def loop(rank: int, world_size: int, net: Callable[[], nn.Module], data: Any, epochs: int, way: str = "") -> Any:
    """A loop with one line changed."""
    torch.manual_seed(2 if way == "seed" else 1)
    module = net()
    by_hand = way in ("by hand", "alone", "alone, no set_epoch")
    model = module if by_hand else DistributedDataParallel(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.5)
    sampler: DistributedSampler[Any] | None = None if way == "all data" else DistributedSampler(data)
    loader: DataLoader[Any] = DataLoader(data, 32 if way == "batch size" else 32 // world_size, sampler=sampler)
    for epoch in range(epochs):
        if sampler is not None and "set_epoch" not in way:
            sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.nll_loss(model(images), labels)
            (loss / world_size if way == "divided" else loss).backward()
            if way == "by hand":
                average_gradients(module)
            optimizer.step()
    return {"wrapped": model.state_dict(), "accuracy": 0.9, "nothing": None}.get(way, module.state_dict())


@pytest.mark.parametrize(
    "answer",
    by_day([train_loop, loop, functools.partial(loop, way="by hand"), functools.partial(loop, way="wrapped")], 1),
)
def test_right_loops_pass(answer: Any) -> None:
    assert_accepts(check.train_loop, answer)


@pytest.mark.parametrize(
    ("way", "sentence"),
    by_day(
        [
            ("no set_epoch", loop_exercise._SAME_ORDER),
            ("alone", loop_exercise._ALONE),
            ("all data", loop_exercise._ALL_DATA),
            ("divided", loop_exercise._DIVIDED),
            ("batch size", loop_exercise._OTHERWISE),
            ("seed", loop_exercise._OTHERWISE),
            ("alone, no set_epoch", loop_exercise._OTHERWISE),
            ("accuracy", loop_exercise._RETURN),
            ("nothing", loop_exercise._RETURN),
        ],
        2,
    ),
)
def test_wrong_loops_are_refused_by_name(way: str, sentence: str) -> None:
    assert_refuses(check.train_loop, functools.partial(loop, way=way), sentence)


def empty(rank: int, world_size: int, net: Any, data: Any, epochs: int) -> None: ...


def test_a_stub_is_not_started_yet() -> None:
    assert check.train_loop(empty).text == "check.train_loop: not started yet"
