"""The likely mistake behind a stream that loses or repeats samples, from the samples of every worker of every rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ddp_lessons.check.judging.exercise import Case
from ddp_lessons.check.trainings.streams import StreamTrial, rows_of

_PART = "Next: number the parts with rank * num_workers + worker.id, and yield only that part."
_STEP = "Next: step by world_size * num_workers."


class StreamShares:
    """The places that each worker read in the first pass, `by_part[rank][worker]`."""

    def __init__(self, case: Case, ranks: Sequence[int]) -> None:
        assert isinstance(case.trial, StreamTrial)
        assert case.trial.samples is not None
        self.samples, self.ranks, self.workers = case.trial.samples, len(ranks), case.trial.parts
        self.is_grouped = case.trial.grouped
        rows = [rows_of(case, rank)[0].tolist() for rank in ranks]
        self.by_part = [
            [[place for place, worker, _ in mine if worker == number] for number in range(self.workers)]
            for mine in rows
        ]
        self.times = Counter(place for share in self._shares for place in share)
        self.missing = [place for place in range(self.samples) if not self.times[place]]
        self.repeated = [place for place in range(self.samples) if self.times[place] > 1]

    @property
    def _shares(self) -> list[list[int]]:
        return [share for mine in self.by_part for share in mine]

    @property
    def parts(self) -> int:
        return self.ranks * self.workers

    @property
    def lengths(self) -> list[int]:
        return [len(share) for share in self._shares]

    def told(self) -> str:
        return f"{self.samples - len(self.missing)}, in {sum(self.lengths)} places"

    def problem(self) -> str:
        """In words, with numbers."""
        lost = f"{len(self.missing)} of {self.samples} samples {'is' if len(self.missing) == 1 else 'are'} lost"
        if not self.repeated:
            return lost
        first = self.repeated[0]
        one, other, *_ = [
            f"rank {rank}'s worker {worker}" if self.workers > 1 else f"rank {rank}"
            for rank, mine in enumerate(self.by_part)
            for worker, share in enumerate(mine)
            for place in share
            if place == first
        ]
        twice = f"{one} yields sample {first} twice" if one == other else f"{one} and {other} both yield sample {first}"
        return f"{twice}, and {lost}" if self.missing else twice

    def in_short(self) -> str:
        if not self.repeated:
            return self.problem()
        never = f", and {len(self.missing)} of {self.samples} never" if self.missing else ""
        return f"sample {self.repeated[0]} comes {self.times[self.repeated[0]]} times{never}"

    def is_dealt(self, firsts: Sequence[Sequence[int]], step: int) -> bool:
        """Does each part start at its first sample and take every `step`-th, or those with this remainder?"""
        pairs = [
            (share, first)
            for mine, own in zip(self.by_part, firsts, strict=True)
            for share, first in zip(mine, own, strict=True)
        ]
        return all(share == list(range(first, self.samples, step)) for share, first in pairs) or all(
            share == [place for place in range(self.samples) if place % step == first] for share, first in pairs
        )


def why_not_once(shares: StreamShares, asks_in_init: bool) -> str:
    """A sentence if a sample is lost or repeated, or a rank has none."""
    ranks, workers = shares.ranks, shares.workers
    if not shares.missing and not shares.repeated:
        return _why_idle(shares)
    if shares.is_dealt([[0] * workers] * ranks, 1):
        return _why_whole(shares, asks_in_init)
    if workers > 1 and shares.is_dealt([[rank] * workers for rank in range(ranks)], ranks):
        return IN_INIT if asks_in_init else _not_over_workers(shares)
    for formula, step, firsts in _formulas(ranks, workers):
        if shares.is_dealt(firsts, step):
            return _why_wrong_formula(shares, formula, step)
    if not shares.repeated and len(shares.missing) == shares.samples % shares.parts:
        return f"The remainder is dropped, so {shares.problem()}. Next: yield the last samples too."
    if not shares.missing and len(set(shares.lengths)) == 1:
        return f"It pads the parts to equal length, so {shares.problem()}. Next: let some parts be shorter."
    problem = shares.problem()
    return f"{problem[0].upper()}{problem[1:]}. {_PART}"


IN_INIT = "get_worker_info() is None in __init__, which runs before the workers start. Next: call it in __iter__."
_BY_WORKER = "Next: split them by get_worker_info().id too."


def _not_over_workers(shares: StreamShares) -> str:
    times = f"so each comes {shares.workers} times. {_BY_WORKER}"
    return f"The samples are split over the ranks but not over their workers, {times}"


def _why_whole(shares: StreamShares, asks_in_init: bool) -> str:
    if shares.ranks == 1 and asks_in_init:
        return IN_INIT
    readers = "rank" if shares.workers == 1 else "worker" if shares.ranks == 1 else "worker of every rank"
    action = _BY_WORKER if shares.ranks == 1 else _PART
    return f"Every {readers} yields all {shares.samples} samples, so each sample comes {shares.parts} times. {action}"


def _why_idle(shares: StreamShares) -> str:
    idle = [rank for rank, mine in enumerate(shares.by_part) if not any(mine)]
    if not idle or shares.samples < 4 * shares.parts:
        return ""
    return f"Rank {idle[0]} yields none of the {shares.samples} samples. {_PART}"


def _formulas(ranks: int, workers: int) -> Iterator[tuple[str, int, list[list[int]]]]:
    """Wrong part numbers and steps: in words, the step, and the number of each part."""

    def firsts(of_rank: int, of_worker: int, product: int = 0, more: int = 0) -> list[list[int]]:
        return [
            [of_rank * rank + of_worker * worker + product * rank * worker + more for worker in range(workers)]
            for rank in range(ranks)
        ]

    parts = ranks * workers
    if ranks > 1:
        yield "worker.id", workers, firsts(0, 1)
    for step, name in ((ranks, "world_size"), (workers, "num_workers")):
        for numbers in (firsts(workers, 1), firsts(1, ranks)):
            yield name, step, numbers
    yield "rank * worker.id", parts, firsts(0, 0, product=1)
    yield "rank + worker.id", parts, firsts(1, 1)
    yield "rank * world_size + worker.id", parts, firsts(ranks, 1)
    yield "worker.id * num_workers + rank", parts, firsts(1, workers)
    yield "rank", parts, firsts(1, 0)
    yield "worker.id", parts, firsts(0, 1)
    yield "1 + rank * num_workers + worker.id", parts, firsts(workers, 1, more=1)
    yield "1 + worker.id * world_size + rank", parts, firsts(1, ranks, more=1)


def _why_wrong_formula(shares: StreamShares, formula: str, step: int) -> str:
    if step == shares.parts:
        return f"With part number {formula}, {shares.in_short()}. {_PART}"
    if formula == "worker.id":
        return (
            f"The samples are split over the workers but not over the ranks, so each comes {shares.ranks} times. "
            "Next: split them by get_rank() too."
        )
    return f"With steps of {formula} ({step}), {shares.in_short()}. {_STEP}"
