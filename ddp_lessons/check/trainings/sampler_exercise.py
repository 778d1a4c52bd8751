"""The exercise of writing a DistributedSampler: its indices are compared with those of torch's own, for every rank."""

from __future__ import annotations

import itertools
import operator
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DistributedSampler

from ddp_lessons.check.judging.report import Report, not_right, not_started
from ddp_lessons.check.judging.unwritten_functions import why_not_callable
from ddp_lessons.check.trials.partitioners import untouched

NAME = "rank_sampler"
_METHODS = ("__init__", "set_epoch", "__len__", "__iter__")
_PARAMETERS = ("dataset", "num_replicas", "rank", "shuffle", "seed", "drop_last")
_EPOCHS = (0, 1, 5, 1)  # epoch 1 a second time: a generator that goes on gives another order
Rows = list[list[int]]  # by rank


@dataclass(frozen=True)
class _Trial:
    samples: int
    ranks: int
    shuffle: bool = True
    seed: int = 0
    drop_last: bool = False

    def samplers(self, kind: Callable[..., Any]) -> list[Any]:
        data = range(self.samples)
        return [kind(data, self.ranks, rank, self.shuffle, self.seed, self.drop_last) for rank in range(self.ranks)]

    def rows(self, samplers: list[Any], epoch: int) -> Rows:
        most = 2 * (self.samples + self.ranks)  # of an iterator that never ends
        for sampler in samplers:
            if epoch:  # a new sampler is in epoch 0
                sampler.set_epoch(epoch)
        return [[operator.index(index) for index in itertools.islice(sampler, most)] for sampler in samplers]


_TRIALS = (
    _Trial(8, 2, shuffle=False),
    _Trial(12, 3),
    _Trial(10, 4, shuffle=False),
    _Trial(10, 4, shuffle=False, drop_last=True),
    _Trial(25, 4, seed=7),
    _Trial(25, 4, seed=7, drop_last=True),
    _Trial(2, 5, shuffle=False),
    _Trial(3, 8, seed=1),
    *(_Trial(2, 5, drop_last=True), _Trial(6, 1)),
)


def rank_sampler(sampler: Callable[..., Any]) -> Report:
    """Check a class: in every epoch it must yield the same indices as `torch.utils.data.DistributedSampler`."""
    if sentence := why_not_callable(sampler, NAME, _PARAMETERS):
        return not_right(NAME, sentence)
    if unwritten := untouched(sampler, _METHODS):
        return not_started(NAME) if len(unwritten) > 1 else not_right(NAME, f"{unwritten[0]} is not written yet.")
    with torch.random.fork_rng(devices=[]):
        for trial in _TRIALS:
            try:
                report = _judged(trial, sampler)
            except Exception as error:
                report = _raised(trial, error)
            if report:
                return report
    return Report(NAME, True, "passed", "", (f"    right for {len(_TRIALS)} samplers, of up to 8 ranks",))


def _judged(trial: _Trial, sampler: Callable[..., Any]) -> Report | None:
    yours, torchs = trial.samplers(sampler), trial.samplers(DistributedSampler)
    first = trial.rows(yours, 0)
    for epoch in _EPOCHS:
        rows, expected = trial.rows(yours, epoch) if epoch else first, trial.rows(torchs, epoch)
        for rank in range(trial.ranks):
            if rows[rank] != expected[rank]:
                plain = f"Rank {rank} has {rows[rank]}, but DistributedSampler gives it {expected[rank]}."
                mistake = _likely(trial, rows, expected, epoch, first) or plain
                details = _table(trial, f"epoch {epoch}, rank {rank}", rows[rank], expected[rank])
                return not_right(NAME, mistake, details)
    for rank, (one, other) in enumerate(zip(yours, torchs, strict=True)):
        if len(one) != len(other):
            mistake = f"len() is {len(one)}, but rank {rank} has {len(other)} indices in an epoch."
            return not_right(NAME, mistake, _table(trial, f"len() on rank {rank}", len(one), len(other)))
    return None


def _likely(trial: _Trial, rows: Rows, expected: Rows, epoch: int, first: Rows) -> str:
    """The likely mistake, or "" if it is none of the usual ones."""
    lengths, ranks = [len(row) for row in rows], trial.ranks
    if min(lengths) < max(lengths):
        return (
            f"Rank {lengths.index(min(lengths))} has fewer indices than rank {lengths.index(max(lengths))}: "
            f"{min(lengths)}, not {max(lengths)}. Pad the order from its front, or drop its tail, before you slice it."
        )
    if trial.shuffle and epoch and rows == first:
        return f"The order is the same in epochs 0 and {epoch}. Seed the generator with seed + epoch."
    if list(itertools.chain(*rows)) == list(itertools.chain(*zip(*expected, strict=True))):
        return f"Each rank takes one contiguous block. Take every world_size-th index, here order[rank::{ranks}]."
    missed = trial.samples - len(set(itertools.chain(*rows)))
    if (
        trial.shuffle
        and len(rows[0]) == len(expected[0])
        and missed > (trial.samples % ranks if trial.drop_last else 0)
    ):
        return (
            f"The ranks shuffle differently: together they miss {missed} of {trial.samples} samples. Seed a generator "
            "with seed + epoch, on every rank alike."
        )
    return ""


def _raised(trial: _Trial, error: Exception) -> Report:
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    place = f" In {own[-1].name}: {own[-1].line}." if own else ""
    return not_right(
        NAME, f"It raises {type(error).__name__}: {error}.{place}", _table(trial, "a sampler for each rank")
    )


def _table(trial: _Trial, what: str, yours: object = None, expected: object = None) -> tuple[str, ...]:
    options = f"shuffle={trial.shuffle}, seed={trial.seed}, drop_last={trial.drop_last}"
    head = f"  {trial.samples} samples, {trial.ranks} ranks, {options}; {what}"
    return (head,) if yours is None else (head, f"    yours      {yours}", f"    expected   {expected}")
