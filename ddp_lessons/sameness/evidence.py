"""What the causes look at: the two runs at the step where they part, and the sums that explain a gradient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ddp_lessons.sameness.first_difference import (
    AFTER,
    BEFORE,
    GRADIENTS,
    Comparison,
    Difference,
    apart,
)
from ddp_lessons.sameness.rounding_limits import largest
from ddp_lessons.sameness.run_records import Array, ByName, StepRecord

CLOSE = 1e-3  # how far a factor that was fitted may be from a simple one, relatively
WORST_CONDITION = 1e4  # ranks whose own gradients are nearly multiples of each other explain nothing


@dataclass(frozen=True)
class Finding:
    """A cause that the numbers fit: a short key, a sentence or two, and what to do."""

    key: str
    because: str
    advice: str


@dataclass(frozen=True)
class Evidence:
    """The two runs of a comparison at its first difference."""

    comparison: Comparison
    difference: Difference

    @property
    def step(self) -> int:
        return self.difference.step

    @property
    def world_size(self) -> int:
        return self.comparison.many.world_size

    @cached_property
    def record(self) -> StepRecord:
        return self.comparison.one.at(self.step)[0]

    @cached_property
    def records(self) -> tuple[StepRecord, ...]:
        return self.comparison.many.at(self.step)

    @cached_property
    def counts(self) -> tuple[int, list[int]]:
        """How many samples entered for this step: on one rank, and on each of several."""
        many = self.comparison.many.samples(self.step)
        return self.comparison.one.samples(self.step)[0].total(), [one.total() for one in many]

    @cached_property
    def base(self) -> ByName:
        return self.comparison.one.values(GRADIENTS, self.step)[0]

    @cached_property
    def ranks(self) -> list[ByName]:
        return self.comparison.many.values(GRADIENTS, self.step)

    @cached_property
    def local(self) -> list[ByName]:
        """What each rank's own backward passes gave; nothing for parameters of which that is not known."""
        return self.comparison.many.values("local", self.step)

    @cached_property
    def mean(self) -> ByName:
        """Of the gradients that the ranks stepped with."""
        names = set.intersection(*(set(by_name) for by_name in self.ranks))
        return {name: np.mean([by_name[name] for by_name in self.ranks], axis=0) for name in names}

    @cached_property
    def limit(self) -> float:
        return self.comparison.gradient_limit

    def ranks_agree(self, names: set[str] | None = None) -> bool:
        """All ranks stepped with the same gradient."""
        return all(self.equal(self.ranks[0], by_name, names) for by_name in self.ranks[1:])

    def local_agree(self) -> bool:
        """All ranks' own backward passes gave the same."""
        return all(self.equal(self.local[0], by_name) for by_name in self.local[1:])

    def equal(self, mine: ByName, theirs: ByName, names: set[str] | None = None, factor: float = 1.0) -> bool:
        """`factor * mine` is `theirs`, up to rounding."""
        wanted = (mine.keys() | theirs.keys()) if names is None else names
        limit = self.limit * max(1.0, abs(factor))
        return all(
            bool((apart(factor * mine.get(name, np.zeros(1)), theirs.get(name, np.zeros(1))) <= limit).all())
            for name in wanted
        )

    def differing(self) -> set[str]:
        """The parameters with another gradient than on one rank, on any rank."""
        names = self.base.keys() | {name for by_name in self.ranks for name in by_name}
        return {name for name in names if not all(self.equal(self.base, one, {name}) for one in self.ranks)}

    @cached_property
    def factor(self) -> float | None:
        """By which the gradient of rank 0 is that of one rank, if it is so on all parameters."""
        return self.factor_between(self.base, self.ranks[0])

    def factor_between(self, mine: ByName, theirs: ByName) -> float | None:
        names = mine.keys() & theirs.keys()
        square = sum(float(np.square(mine[name]).sum()) for name in names)
        if not square or largest(theirs) < self.limit:
            return None
        factor = sum(float((mine[name] * theirs[name]).sum()) for name in names) / square
        return factor if np.isfinite(factor) and self.equal(mine, theirs, None, factor) else None

    @cached_property
    def clipped(self) -> float | None:
        """By which one rank's gradient is what its backward passes gave, if that is below 1 on all parameters."""
        raw = self.comparison.one.values("local", self.step)[0]
        factor = self.factor_between(raw, self.base) if raw.keys() == self.base.keys() else None
        return factor if factor is not None and 0 < factor < 1 - self.tolerance else None

    def weights_in(self, target: ByName) -> Array | None:
        """How much of each rank's own gradient is in `target`, if it is a sum of them and that is the only way."""
        names = sorted(set.intersection(*(set(by_name) for by_name in self.local)) & target.keys())
        if not names or self.world_size > sum(target[name].size for name in names):
            return None
        matrix = np.stack([np.concatenate([by_name[name] for name in names]) for by_name in self.local], axis=1)
        wanted = np.concatenate([target[name] for name in names])
        norms = np.linalg.norm(matrix, axis=0)
        if not (np.isfinite(matrix).all() and np.isfinite(wanted).all() and norms.all()):
            return None
        if np.linalg.cond(matrix / norms) > WORST_CONDITION:
            return None
        weights = np.linalg.lstsq(matrix, wanted, rcond=None)[0]
        rest = np.abs(matrix @ weights - wanted)
        return weights if rest.max() <= max(self.limit, self.relative * largest(*self.local)) else None

    @cached_property
    def relative(self) -> float:
        return self.comparison.limits.relative(self.record, self.counts[0])

    @cached_property
    def used(self) -> Array | None:
        """The weights of the ranks' own gradients in the gradient of rank 0."""
        return self.weights_in(self.ranks[0])

    @cached_property
    def wanted(self) -> Array | None:
        """Those in the gradient of one rank."""
        return self.weights_in(self.base)

    @property
    def tolerance(self) -> float:
        """Of fitted weights and factors."""
        return max(CLOSE, 10 * self.relative)

    def near(self, number: float, wanted: float) -> bool:
        return abs(number - wanted) <= self.tolerance * abs(wanted)

    def parameters(self, what: str, step: int | None = None) -> tuple[ByName, list[ByName]]:
        at = self.step if step is None else step
        return self.comparison.one.values(what, at)[0], self.comparison.many.values(what, at)

    def updates(self) -> tuple[ByName, list[ByName]]:
        """What the optimizer added: on one rank, and on each of several."""
        before, after = self.parameters(BEFORE), self.parameters(AFTER)

        def added(old: ByName, new: ByName) -> ByName:
            return {name: new[name] - old[name] for name in old.keys() & new.keys()}

        return added(before[0], after[0]), [added(old, new) for old, new in zip(before[1], after[1], strict=True)]

    def has(self, kind: str) -> bool:
        """Did a forward pass of this step use it, on any rank?"""
        return any(kind in record.kinds for record in (*self.records, self.record))


Cause: TypeAlias = Callable[[Evidence], "Finding | None"]


def first_finding(causes: Sequence[Cause], evidence: Evidence) -> Finding | None:
    return next((found for cause in causes if (found := cause(evidence)) is not None), None)


def number_of(samples: Counter[int] | int, word: str = "sample") -> str:
    number = samples if isinstance(samples, int) else samples.total()
    return f"{number:,} {word}{'s' * (number != 1)}"
