"""One start of a training job that may be killed: what its ranks do, where they are killed, and what is recorded.

Records are lines in a file, because everything else is lost with a killed rank.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.check.judging.trial_ranks import without_output

EPOCHS, STEPS, BATCH, WIDTH = 4, 3, 4, 80  # the weights alone take 50 kB
_MOST_BYTES = 20_000  # of a file, where the write is cut off


@dataclass(frozen=True)
class Start:
    """Its name contains the number of earlier starts, so that each start has its own records."""

    folder: str
    name: str
    killed_in: int | None = None  # an epoch: the last rank is killed in the middle of it
    cut_off_after: int | None = None  # an epoch: the next rank that writes is killed during the write

    @property
    def path(self) -> Path:
        return Path(self.folder) / "training" / "checkpoint.pt"

    def epochs(self, rank: int) -> list[int]:
        """The epochs that this rank started to train."""
        return [int(line.split()[0]) for line in self._lines(rank)]

    @property
    def saved_before_it_trained(self) -> bool:
        """There was a checkpoint when the first epoch began, but none when the job started."""
        return self.saw_file(0)[:1] == [True]

    def saw_file(self, rank: int) -> list[bool]:
        """Was there a file at the path when this rank began an epoch?"""
        return [line.split()[1] == "saved" for line in self._lines(rank)]

    def _lines(self, rank: int) -> list[str]:
        file = self.notes(rank)
        return file.read_text().splitlines() if file.exists() else []

    def notes(self, rank: int) -> Path:
        return Path(self.folder) / f"{self.name}.{rank}"


@dataclass(frozen=True)
class Weights:
    """The final weights of a rank."""

    model: Sequence[Tensor]


def begin(rank: int, world_size: int, function: Callable[..., object], start: Start) -> Weights:
    """Inside a rank: from the first line to the end, if it gets there."""
    model, optimizer = model_and_optimizer()
    wrapped = DistributedDataParallel(model)

    def train_epoch(epoch: int) -> None:
        with start.notes(rank).open("a") as notes:
            notes.write(f"{epoch} {'saved' if start.path.exists() else '-'}\n")
        for step in range(STEPS):
            take_step(wrapped, optimizer, epoch, step, rank, world_size)
            if epoch == start.killed_in and step == 1 and rank == world_size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
        if epoch == start.cut_off_after:
            _die_in_the_next_write()

    os.chdir(start.path.parent)  # files with relative paths go there, and not next to the notebook
    with without_output():
        function(wrapped, optimizer, train_epoch, EPOCHS, str(start.path))
    return Weights([parameter.detach().clone() for parameter in model.parameters()])


def every_weights_in_one_go(rank: int, world_size: int) -> dict[int | None, Weights]:
    """In a rank, which has the imports of an optimizer: the weights, by the epoch before which the momentum is lost."""
    return {forget_momentum_at: in_one_go(forget_momentum_at) for forget_momentum_at in (None, *range(EPOCHS + 1))}


def in_one_go(forget_momentum_at: int | None = None) -> Weights:
    """The final weights of one process, for comparison: with whole batches, and without a crash.

    The momentum may be lost before some epoch.
    """
    model, optimizer = model_and_optimizer()
    for epoch in range(EPOCHS):
        if epoch == forget_momentum_at:
            optimizer.state.clear()
        for step in range(STEPS):
            take_step(model, optimizer, epoch, step, 0, 1)
    return Weights([parameter.detach().clone() for parameter in model.parameters()])


def model_and_optimizer() -> tuple[nn.Module, torch.optim.Optimizer]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)).double()
    return model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)


def take_step(model: nn.Module, optimizer: Any, epoch: int, step: int, rank: int, world_size: int) -> None:
    """The same step on any number of ranks: each takes its part of one batch."""
    generator = torch.Generator().manual_seed(100 * epoch + step)
    inputs = torch.randn(BATCH, WIDTH, generator=generator, dtype=torch.float64)[rank::world_size]
    optimizer.zero_grad()
    loss = (model(inputs) - inputs.mean(dim=1, keepdim=True)).square().sum() * world_size / BATCH
    loss.backward()
    optimizer.step()


def _die_in_the_next_write() -> None:
    """The operating system kills a process whose file exceeds its limit, unless the signal is handled."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_BYTES, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def agree(some: Weights, others: Weights) -> bool:
    pairs = zip(some.model, others.model, strict=True)
    return all(torch.allclose(one, other, rtol=0, atol=1e-9) for one, other in pairs)
