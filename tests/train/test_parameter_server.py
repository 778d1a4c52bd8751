"""A parameter server and its workers, against one process that has all the data."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ddp_lessons import launch
from ddp_lessons.train.networks import QuickNet
from ddp_lessons.train.parameter_server import Share, train_with_server, with_rpc

STEPS, LEARNING_RATE = 4, 0.1


def data(workers: int) -> list[Share]:
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(12, 1, 28, 28, generator=generator)
    labels = torch.randint(10, (12,), generator=generator)
    return list(zip(images.chunk(workers), labels.chunk(workers), strict=True))


def model() -> nn.Module:
    torch.manual_seed(2)
    return QuickNet()


def served(rank: int, world_size: int) -> list[Tensor] | None:
    return with_rpc(rank, world_size, train_with_server, model(), data(world_size - 1), STEPS, LEARNING_RATE)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_server_ends_with_the_weights_of_one_process(workers: int) -> None:
    weights, *others = launch(served, workers + 1, join=False)
    alone = model()
    ((images, labels),) = data(1)
    optimizer = torch.optim.SGD(alone.parameters(), lr=LEARNING_RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.nll_loss(alone(images), labels).backward()
        optimizer.step()
    assert others == [None] * workers
    assert weights is not None
    for ours, right in zip(weights, alone.parameters(), strict=True):
        torch.testing.assert_close(ours, right.detach(), rtol=1e-5, atol=1e-6)
    assert not torch.equal(weights[0], next(model().parameters()))
