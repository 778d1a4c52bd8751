"""What the training functions of these tests are made of: 36 samples with 4 features, and a network of 37 weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

Train = Callable[[int, int], object]
SAMPLES, BATCH, STEPS = 36, 12, 3


@dataclass(frozen=True)
class Program:
    """A training function, on which numbers of ranks it is tried, and what is to be found."""

    train: Train
    ranks: tuple[int, ...] = (1, 2, 4)
    cause: str = ""  # "" if it is right
    random: tuple[str, ...] = ()
    dtype: torch.dtype | None = None

    @property
    def name(self) -> str:
        return self.train.__name__


def data(samples: int = SAMPLES) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(samples, 4, generator=generator)
    return inputs, inputs.sin().sum(1, keepdim=True) + 0.1 * torch.randn(samples, 1, generator=generator)


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))


def batches(steps: int = STEPS, size: int = BATCH) -> Iterator[tuple[Tensor, Tensor]]:
    """The global batches."""
    inputs, targets = data()
    for step in range(steps):
        rows = torch.arange(step * size, (step + 1) * size) % SAMPLES
        yield inputs[rows], targets[rows]


def shards(rank: int, world_size: int, steps: int = STEPS, size: int = BATCH) -> Iterator[tuple[Tensor, Tensor]]:
    """Of each global batch, every world_size-th sample."""
    for inputs, targets in batches(steps, size):
        yield inputs[rank::world_size], targets[rank::world_size]


def average(model: nn.Module, world_size: int) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.mse_loss(model(inputs), targets)
