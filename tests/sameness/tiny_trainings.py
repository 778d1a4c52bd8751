"""What the training programs of these tests are made of: 36 samples with 4 features, and a network of 37 weights."""

# written as people write training loops, without a check for each gradient that could be None
# mypy: disable-error-code="arg-type, assignment, operator"

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

Train = Callable[[int, int], object]
Rows = Callable[[int, int], Iterable[Any]]  # of a rank: the indices of the samples of each step
SAMPLES, BATCH, STEPS = 36, 12, 3


@dataclass(frozen=True)
class Program:
    """A training function, on which numbers of ranks it is tried, and the cause to be found: "" if it is right."""

    name: str
    train: Train
    cause: str = ""
    ranks: tuple[int, ...] = (1, 2, 4)
    random: tuple[str, ...] = ()
    dtype: torch.dtype | None = None


def data(samples: int = SAMPLES) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(samples, 4, generator=generator)
    return inputs, inputs.sin().sum(1, keepdim=True) + 0.1 * torch.randn(samples, 1, generator=generator)


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))


def layers(*modules: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """A network that is made in the rank, with a seed."""

    def make() -> nn.Module:
        torch.manual_seed(0)
        made = [module() for module in modules]
        return nn.Sequential(*made) if len(made) > 1 else made[0]

    return make


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


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    return nn.functional.mse_loss(model(inputs), targets, reduction=reduction)


def add_up(model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def divide(model: nn.Module, number: float) -> None:
    for parameter in model.parameters():
        parameter.grad /= number


def average(model: nn.Module, world_size: int) -> None:
    add_up(model)
    divide(model, world_size)


def sgd(model: nn.Module, **settings: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), **{"lr": 0.1} | settings)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.05)


@dataclass
class Job:
    """A training in a rank, for the functions that make a program another one."""

    rank: int
    world_size: int
    model: Any
    optimizer: Any = None
    step: int = 0

    @property
    def parameters(self) -> list[nn.Parameter]:
        return list(self.model.parameters())

    def average(self) -> None:
        average(self.model, self.world_size)


def training(
    make: Callable[..., nn.Module] = net,
    wrap: Callable[[nn.Module], nn.Module] | None = DistributedDataParallel,
    optimizer: Callable[[Any], Any] = sgd,
    batches: Callable[[int, int], Iterable[tuple[Tensor, Tensor]]] = shards,
    loss: Callable[[Job, Tensor, Tensor], Tensor] = lambda job, inputs, targets: loss_of(job.model, inputs, targets),
    before_step: Callable[[Job], object] = lambda job: None,
    after_step: Callable[[Job], object] = lambda job: None,
    parts: int = 1,
) -> Train:
    """The usual loop, in which every piece can be another one; micro-batches are summed without communication.

    No step follows where `before_step` returns False.
    """

    def train(rank: int, world_size: int) -> None:
        job = Job(rank, world_size, wrap(make()) if wrap else make())
        job.optimizer = optimizer(job.model)
        for job.step, (inputs, targets) in enumerate(batches(rank, world_size)):
            job.optimizer.zero_grad()
            for part in range(parts):
                is_last = part == parts - 1 or not wrap
                with contextlib.nullcontext() if is_last else job.model.no_sync():
                    some = inputs.chunk(parts)[part], targets.chunk(parts)[part]
                    (loss(job, *some) / parts).backward()
            if before_step(job) is not False:
                job.optimizer.step()
            after_step(job)

    return train


def by_hand(before_step: Callable[[Job], object] = Job.average, **more: Any) -> Train:
    """Without DistributedDataParallel."""
    return training(wrap=None, before_step=before_step, **more)


def on_rows(rows: Rows, samples: int = SAMPLES, **more: Any) -> Train:
    """On the samples with these indices."""

    def chosen(rank: int, world_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        inputs, targets = data(samples)
        for indices in rows(rank, world_size):
            mine = torch.as_tensor(indices)
            yield inputs[mine], targets[mine]

    return training(batches=chosen, **more)
