"""Times differ from machine to machine. What is tested here holds on all of them."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from ddp_lessons import launch
from ddp_lessons.train.digits import Digits
from ddp_lessons.train.step_times import seconds_of_message, seconds_of_step

DATA = Digits(torch.zeros(8, 1, 28, 28), torch.zeros(8, dtype=torch.int64))


def test_a_message_is_half_of_the_way_there_and_back() -> None:
    def with_slow_messages(rank: int, world_size: int) -> float:
        receive = dist.recv

        def receive_and_sleep(*arguments: Any) -> None:
            receive(*arguments)
            time.sleep(0.02)

        dist.recv = receive_and_sleep  # type: ignore[assignment]
        return seconds_of_message(rank, world_size, 4, rounds=10)

    assert 0.02 <= launch(with_slow_messages, 2, record=False)[0] < 0.04


@pytest.mark.parametrize(("world_size", "parts"), [(1, [7]), (2, [4, 3])])
def test_each_rank_computes_its_part_of_the_batch_in_every_step(world_size: int, parts: list[int]) -> None:
    def count_images(rank: int, world_size: int) -> list[int]:
        counts, loss = list[int](), F.nll_loss

        def count_and_compute(outputs: Tensor, labels: Tensor) -> Tensor:
            counts.append(len(labels))
            return loss(outputs, labels)

        F.nll_loss = count_and_compute  # type: ignore[assignment]
        seconds_of_step(rank, world_size, DATA, 7, rounds=2, steps=2)
        return counts

    assert list(launch(count_images, world_size, record=False)) == [4 * [part] for part in parts]
