"""The phases that ranks logged with tell("forward"), tell("backward").

A phase lasts from its label to the next one of the same rank; tell("") ends it, and so does the end of the launch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LONGEST_LINE = 100


@dataclass(frozen=True)
class Phase:
    """A stretch in which a rank was somewhere; without an end, until the launch was over."""

    rank: int
    label: str
    begin: float
    end: float = math.inf


@dataclass(frozen=True)
class Phases:
    """Those of all ranks, each rank's in their order."""

    by_rank: Sequence[Sequence[Phase]]

    @property
    def labels(self) -> list[str]:
        """Each once, in the order of their first times, rank by rank."""
        return list(dict.fromkeys(phase.label for phases in self.by_rank for phase in phases))

    @property
    def moments(self) -> list[float]:
        phases = [phase for mine in self.by_rank for phase in mine]
        return [*(phase.begin for phase in phases), *(phase.end for phase in phases if phase.end < math.inf)]

    @property
    def are_open(self) -> bool:
        return any(phases and phases[-1].end == math.inf for phases in self.by_rank)

    def __bool__(self) -> bool:
        return any(self.by_rank)


def phases_of(results: Any) -> Phases:
    """Those of results, or of an exception that carries some; none, where nothing was logged."""
    told: Sequence[Sequence[Any]] = getattr(getattr(results, "results", results), "told", ())
    return Phases([_phases(rank, by_rank) for rank, by_rank in enumerate(told)])


def _phases(rank: int, told: Sequence[Any]) -> list[Phase]:
    # numbers alone do not say where the rank is
    marks = [one for one in told if one.label or not one.numbers]
    ends = [*(one.seconds for one in marks), math.inf][1:]
    pairs = zip(marks, ends, strict=False)
    return [Phase(rank, _printable(one.label), one.seconds, end) for one, end in pairs if one.label]


def _printable(label: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in label)


def tell_phases(phases: Phases) -> str:
    """A line for each rank: what it logged, in its order."""
    lines = [f"rank {rank} | {_in_order(mine)}".rstrip() for rank, mine in enumerate(phases.by_rank)]
    return "\n".join(["Phases that the ranks logged:", *lines])


def _in_order(phases: Sequence[Phase]) -> str:
    line = ""
    for turn, phase in enumerate(phases):
        if len(line) + len(phase.label) > LONGEST_LINE:
            return f"{line}... {len(phases) - turn:,} more"
        line += f"{phase.label} | "
    return line.removesuffix(" | ")
