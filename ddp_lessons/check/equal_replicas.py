"""Do the models of all ranks stay equal? The picture of `show.fingerprints`, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.report_lines import table
from ddp_lessons.record.fingerprints import fingerprints_of
from ddp_lessons.run.diagnosis.wording import ranks_named

Columns = Sequence[Sequence[str]]  # by step, then by rank


def replicas_agree(results: Any) -> Report:
    """Say whether all ranks have the same fingerprint at every step, or at which step they first differ.

    `results[rank]` is the list of a rank's fingerprints, one per step, counted from 0.

    Raises:
        TypeError: these are not lists of fingerprints.
    """
    by_rank = fingerprints_of(results)
    columns = list(zip(*by_rank, strict=False))  # the steps that all ranks have
    apart = [step for step, column in enumerate(columns) if len(set(column)) > 1]
    if apart:
        return _they_differ(columns, apart)
    if len({len(fingerprints) for fingerprints in by_rank}) > 1:
        return _not_as_many(by_rank)
    return _they_agree(columns)


def _they_agree(columns: Columns) -> Report:
    who = "one rank alone agrees with itself" if len(columns[0]) == 1 else f"{len(columns[0])} ranks agree"
    lines = [f"    {who} at {'the only step' if len(columns) == 1 else f'all {len(columns)} steps'}"]
    if len(columns) > 1 and len({column[0] for column in columns}) == 1:
        lines.append("    but the weights are the same at all steps, so no step has changed them")
    return Report("replicas_agree", True, "they agree", "", tuple(lines))


def _not_as_many(by_rank: Sequence[Sequence[str]]) -> Report:
    counts = [len(fingerprints) for fingerprints in by_rank]
    short, long = counts.index(min(counts)), counts.index(max(counts))
    mistake = (
        f"Rank {short} has {counts[short]} fingerprints and rank {long} has {counts[long]}. The ranks "
        "agree until then. Give every rank the same number of steps."
    )
    return Report("replicas_agree", False, "they differ", mistake)


def _they_differ(columns: Columns, apart: Sequence[int]) -> Report:
    first = apart[0]
    mistake = f"{_when(apart, len(columns))}, {_differ(_groups(columns[first]))}. {_reminder(first)}"
    ranks = [f"rank {rank}" for rank in range(len(columns[0]))]
    rows = [(str(step), *columns[step]) for step in (first - 1, first) if step >= 0]
    return Report("replicas_agree", False, "they differ", mistake, tuple(table([("step", *ranks), *rows])))


def _reminder(first: int) -> str:
    if first:
        return "Before that, the replicas were equal, so the initial weights match. Check how gradients are averaged."
    return "Check that all ranks start with the same initial weights."


def _groups(column: Sequence[str]) -> list[list[int]]:
    """The ranks with the same fingerprint at one step; the largest group first."""
    groups: dict[str, list[int]] = defaultdict(list)
    for rank, one in enumerate(column):
        groups[one].append(rank)
    return sorted(groups.values(), key=lambda ranks: (-len(ranks), ranks))


def _when(apart: Sequence[int], steps: int) -> str:
    """The first stretch of steps at which they differ."""
    first = last = apart[0]
    while last + 1 in apart:
        last += 1
    if last == steps - 1:
        return f"From step {first} on" if first < last else f"At step {first}"
    return f"From step {first} to step {last}" if first < last else f"At step {first}"


def _differ(groups: Sequence[Sequence[int]]) -> str:
    """As in: rank 2 differs from ranks 0 and 1."""
    most, *others = groups
    if len(others) == 1:
        return f"{ranks_named(others[0])} {'differs' if len(others[0]) == 1 else 'differ'} from {ranks_named(most)}"
    if len(most) == 1:
        return f"all {len(groups)} ranks differ from each other"
    apart = sorted(rank for group in others for rank in group)
    return f"{ranks_named(apart)} differ from {ranks_named(most)}, and not all in the same way"
