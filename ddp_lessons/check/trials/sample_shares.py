"""Which rank gets which sample: data whose samples reveal their index, and what is wrong with the ranks' partitions.

Ranks choose their partitions independently, so they agree only if nothing depends on chance. Before each turn every
rank therefore gets its own random numbers, in all of the usual generators.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise
from ddp_lessons.check.judging.exercise_trials import Trial
from ddp_lessons.check.judging.report import Report, not_right
from ddp_lessons.run.wire.travel import pack_call

MANY = 20  # with so many samples, nothing is in order or repeated by chance
SHUFFLES_THE_DATA = "It shuffles the data itself. Shuffle a list of indices, and leave the data unchanged."
_FACTOR = 7  # a sample's value differs from its index, so that the two cannot be confused


@dataclass(frozen=True)
class DataTrial(Trial):
    """Every rank is given the same data: pairs of an image and a label, or a list of numbers."""

    samples: int = 24
    is_list: bool = False

    def data(self) -> Any:
        values = [_FACTOR * index + 0.5 for index in range(self.samples)]
        if self.is_list:
            return values
        return TensorDataset(torch.tensor(values).view(-1, 1, 1, 1), torch.arange(self.samples) % 10)

    def tensor(self, rank: int) -> Tensor:
        return torch.arange(self.samples)

    def arguments(self, rank: int) -> tuple[Any, ...]:
        return self, self.data()

    def afterwards(self, arguments: tuple[Any, ...]) -> Tensor:
        """The samples in their order after the call."""
        data = arguments[-1]
        return torch.tensor([index_of(data[place]) for place in range(len(data))])

    def named(self, rank: int) -> str:
        return (
            f"{'a list' if self.is_list else 'data'} of {self.samples} {'sample' if self.samples == 1 else 'samples'}"
        )


def index_of(sample: Any) -> int:
    """The index of this sample, or -1 if it is none."""
    value = sample[0] if isinstance(sample, list | tuple) and len(sample) == 2 else sample
    try:
        index = (float(value) - 0.5) / _FACTOR
    except (TypeError, ValueError, RuntimeError):
        return -1
    return int(index) if index == int(index) else -1


def other_random_numbers(rank: int, turn: int) -> None:
    """Give this rank other states of all generators, and another clock."""
    seed = 7919 * (turn + 1) + 104_729 * rank
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    # other machines have another clock, and each new Python another hash of a string
    time.time = lambda: _time() + seed
    builtins.hash = lambda thing: _hash((rank, thing) if _has_text(thing) else thing)


_time, _hash = time.time, builtins.hash


def _has_text(thing: object) -> bool:
    return isinstance(thing, str | bytes) or (isinstance(thing, tuple) and any(map(_has_text, thing)))


class InTurns:
    """What the learner wrote, and how a rank tries it. It has the name and signature of that function."""

    def __init__(self, written: Callable[..., Any]) -> None:
        functools.update_wrapper(self, written, updated=())
        self.written = written

    def __call__(self, trial: Any, data: Any) -> object:
        raise NotImplementedError


def examine_in_turns(exercise: Exercise, written: Any, turns: Callable[[Any], InTurns]) -> Report:
    """Let the ranks try it in turns, if it can be tried at all."""
    if not callable(written) or inspect.iscoroutinefunction(written):
        return examine(exercise, written)
    try:
        pack_call(written, ())
    except TypeError as refusal:  # of the learner's own function, whose variables can be named
        return not_right(exercise.name, f"{refusal}.")
    return examine(exercise, turns(written))


@dataclass(frozen=True)
class Shares:
    """The indices that each rank took in one turn, and in the same turn again."""

    by_rank: Sequence[list[int]]
    again: Sequence[list[int]]
    samples: int

    @functools.cached_property
    def times(self) -> Counter[int]:
        return Counter(index for share in self.by_rank for index in share)

    @property
    def missing(self) -> list[int]:
        return [index for index in range(self.samples) if not self.times[index]]

    @property
    def total(self) -> int:
        return sum(map(len, self.by_rank))

    @property
    def world_size(self) -> int:
        return len(self.by_rank)

    @property
    def are_all_equal(self) -> bool:
        return self.world_size > 1 and all(sorted(share) == sorted(self.by_rank[0]) for share in self.by_rank)

    @property
    def are_whole(self) -> bool:
        return self.world_size > 1 and all(sorted(share) == list(range(self.samples)) for share in self.by_rank)

    @property
    def come_again(self) -> bool:
        return all(sorted(one) == sorted(other) for one, other in zip(self.by_rank, self.again, strict=True))

    @property
    def are_of_one_order(self) -> bool:
        """Two ranks have some samples in the same sequence: then they split one order, but wrongly."""
        rows = [set(zip(share, share[1:], share[2:], strict=False)) for share in self.by_rank]
        return any(one & other for place, one in enumerate(rows) for other in rows[:place])

    @property
    def are_in_order(self) -> bool:
        """Nothing is shuffled: each partition is a contiguous part of the data, or every second or third sample."""
        if self.samples < MANY:
            return False
        steps = [{(b - a) % self.samples for a, b in itertools.pairwise(share)} for share in self.by_rank]
        return all(len(each) == 1 for each in steps)

    def first_twice(self) -> str:
        """In words: which sample is in two partitions, and in which."""
        index = min(index for index, times in self.times.items() if times > 1)
        ranks = [rank for rank, share in enumerate(self.by_rank) for one in share if one == index]
        if ranks[0] == ranks[1]:
            return f"sample {index} comes twice on rank {ranks[0]}"
        return f"sample {index} is on ranks {ranks[0]} and {ranks[1]}"

    def told(self) -> str:
        """How many samples are there, and in how many places; without numbers that depend on chance."""
        if not self.come_again:
            return "some twice, some never"
        return f"{self.samples - len(self.missing)}, in {self.total} places"

    def lost(self) -> str:
        missing = self.missing
        if len(missing) == 1:
            return f"1 of {self.samples} samples is not assigned to any rank"
        return f"{len(missing)} of {self.samples} samples are not assigned to any rank"


def changed_data(case: Case, rank: int) -> Difference | None:
    """A difference if the order of the data has changed."""
    if case.is_unchanged(rank):
        return None
    return Difference("data afterwards", "in another order", "as it was", SHUFFLES_THE_DATA)


def shares_of(case: Case, turn: int, again: int) -> Shares:
    """For two turns whose answers are known to be indices."""
    assert isinstance(case.trial, DataTrial)
    return Shares(_turn(case, turn), _turn(case, again), case.trial.samples)


def _turn(case: Case, turn: int) -> list[list[int]]:
    answers: list[Any] = [outcome.answer for outcome in case.outcomes]
    return [answer[turn].tolist() for answer in answers]


def why_overlapping(shares: Shares) -> str:
    """Some samples are on several ranks, and others on none."""
    if not shares.come_again:
        return (
            "Each rank shuffles differently, so some samples are on several ranks and others on none. Shuffle with a "
            "generator that has the same seed on all ranks, as DistributedSampler does."
        )
    if any(len(set(share)) < len(share) for share in shares.by_rank):
        return (
            f"{shares.first_twice().capitalize()}, and {shares.lost()}. Shuffle all indices with torch.randperm, "
            "instead of drawing each index at random."
        )
    if not shares.are_of_one_order:
        return (
            f"Each rank shuffles differently, as if its rank were part of the seed, and {shares.lost()}. Use the same "
            "seed on all ranks, as DistributedSampler does."
        )
    return (
        f"The partitions overlap and leave gaps: {shares.first_twice()}, and {shares.lost()}. Start each partition "
        "where the previous one ends."
    )
