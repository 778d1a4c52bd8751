"""A source of samples that tell who read them, and how a rank reads a learner's stream through a DataLoader."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from ddp_lessons.check.judging.exercise import Case
from ddp_lessons.check.judging.exercise_trials import Trial
from ddp_lessons.check.trials.sample_shares import InTurns, other_random_numbers

READ_AHEAD = "read without a sample being taken"
_MOST_AHEAD, _TAKEN = 1000, 4  # of an endless source


class Sample(str):
    """A line of text that also knows its place in the source, the worker that reads it, and how often it was opened."""

    place: int
    worker: int
    opened: int


class Source:
    """It can be gone through again, like a file; it has no length."""

    def __init__(self, samples: int | None) -> None:
        self._samples = samples
        self._opened = 0

    def __iter__(self) -> Iterator[Sample]:
        self._opened += 1
        worker = get_worker_info()
        for place in itertools.count() if self._samples is None else range(self._samples):
            if self._samples is None and place >= _MOST_AHEAD:
                raise RuntimeError(f"{_MOST_AHEAD:,} samples {READ_AHEAD}")
            sample = Sample(f"line {place}")
            sample.place, sample.worker, sample.opened = place, worker.id if worker else 0, self._opened
            yield sample


@dataclass(frozen=True)
class StreamTrial(Trial):
    """So many samples (None: it never ends), read by so many workers on each rank, with or without a process group."""

    samples: int | None = 24
    workers: int = 0
    grouped: bool = True

    @property
    def parts(self) -> int:
        """On each rank."""
        return max(1, self.workers)

    def tensor(self, rank: int) -> Tensor:
        return torch.arange(self.samples or 0)

    def arguments(self, rank: int) -> tuple[Any, ...]:
        return self, rank

    def afterwards(self, arguments: tuple[Any, ...]) -> None:
        return None

    def is_unchanged(self, rank: int, afterwards: Any) -> bool:
        return True

    def named(self, rank: int) -> str:
        many = "endless" if self.samples is None else self.samples
        return f"{many} sample{'' if self.samples == 1 else 's'} and num_workers={self.workers}"


class Passes(InTurns):
    """Create the stream and go through it: a tensor for each pass, with place, worker and opened of every sample.

    Once if there are workers, which take time to start and know nothing of earlier passes.
    """

    def __call__(self, trial: StreamTrial, rank: int) -> object:
        other_random_numbers(rank, trial.seed)
        with contextlib.nullcontext() if trial.grouped else _without_group():
            stream = self.written(Source(trial.samples))
            if not isinstance(stream, IterableDataset):
                return stream
            fork = "fork" if trial.workers else None  # a class of a notebook cannot be imported by a new Python
            loader: Any = DataLoader(stream, None, num_workers=trial.workers, multiprocessing_context=fork)
            return [_read(loader, trial.samples) for _ in range(1 if trial.workers else 2)]


def _read(loader: Any, samples: int | None) -> object:
    """A tensor with a row for each sample, or what comes instead of a sample."""
    most = _TAKEN if samples is None else 8 * (samples + 1)
    taken = list(itertools.islice(loader, most))
    others = [one for one in taken if not isinstance(one, Sample)]
    if others:
        return others[:1]
    return torch.tensor([(one.place, one.worker, one.opened) for one in taken], dtype=torch.int64).view(-1, 3)


def rows_of(case: Case, rank: int) -> list[Tensor]:
    """The passes of a rank that yields samples."""
    answer: Any = case.outcomes[rank].answer
    return list(answer)


@contextlib.contextmanager
def _without_group() -> Iterator[None]:
    """As in a program that calls no init_process_group."""
    group = dist.group.WORLD
    distributed_c10d._update_default_pg(None)
    try:
        yield
    finally:
        distributed_c10d._update_default_pg(group)
