"""The phases that ranks logged with tell("forward"), tell("backward").

A phase lasts from its label to the rank's next label, to tell(""), or to the end of the launch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LONGEST_LINE = 100


@dataclass(frozen=True)
class Phase:
    """A phase of a rank; one without an end lasts until the launch ends."""

    rank: int
    label: str
    begin: float
    end: float = math.inf


@dataclass(frozen=True)
class Phases:
    """The phases of all ranks, in the order of each rank."""

    by_rank: Sequence[Sequence[Phase]]

    @property
    def labels(self) -> list[str]:
        """The labels, each once, in the order in which they first appear, rank by rank."""
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
    """The phases in results, or in an exception with results; none if nothing was logged."""
    told: Sequence[Sequence[Any]] = getattr(getattr(results, "results", results), "told", ())
    return Phases([_phases(rank, by_rank) for rank, by_rank in enumerate(told)])


def _phases(rank: int, told: Sequence[Any]) -> list[Phase]:
    # values without a label do not start a phase
    marks = [one for one in told if one.label or not one.numbers]
    ends = [*(one.seconds for one in marks), math.inf][1:]
    pairs = zip(marks, ends, strict=False)
    return [Phase(rank, _printable(one.label), one.seconds, end) for one, end in pairs if one.label]


def _printable(label: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in label)


def tell_phases(phases: Phases) -> str:
    """A line for each rank, with its phases in order."""
    lines = [f"rank {rank} | {_in_order(mine)}".rstrip() for rank, mine in enumerate(phases.by_rank)]
    return "\n".join(["Phases that the ranks logged:", *lines])


def _in_order(phases: Sequence[Phase]) -> str:
    line = ""
    for turn, phase in enumerate(phases):
        if len(line) + len(phase.label) > LONGEST_LINE:
            return f"{line}... {len(phases) - turn:,} more"
        line += f"{phase.label} | "
    return line.removesuffix(" | ")
