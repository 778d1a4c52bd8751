"""Failures in words. A failing peer is a finding; a failure of ours (or of the floor) breaks the measurement."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from .beginnings import Beginnings
from .measurement import NOT_INSTALLED, Series
from .memory import IdleRanks
from .promises import Contestants


def of_launches(launches: Mapping[int, Contestants], with_peers: bool) -> Iterator[tuple[str, Series]]:
    for contestants in launches.values():
        for tool, found in contestants.items():
            if with_peers or tool.role != "peer":
                yield tool.title, found.first
                yield tool.title, found.later


def of_beginnings(found: Beginnings) -> Iterator[tuple[str, Series]]:
    for field in fields(found):
        value = getattr(found, field.name)
        if isinstance(value, Series):
            yield f"the beginning of a notebook, {field.name.replace('_', ' ')}", value


def troubles(launches: Mapping[int, Contestants], first: Beginnings, idle: Sequence[IdleRanks]) -> list[str]:
    """One line for each kind of trouble."""
    named = [*of_launches(launches, with_peers=True), *of_beginnings(first)]
    lines = [f"{title}: {series.trouble} {series.detail}".strip() for title, series in named if series.trouble]
    lines += [f"{ranks.title}, idle: {ranks.trouble}" for ranks in idle if ranks.trouble]
    if any(NOT_INSTALLED in series.troubles for _, series in named):
        lines.append("The peers are an optional extra: pip install -e .[bench]")
    return list(dict.fromkeys(lines))


def broken(launches: Mapping[int, Contestants], first: Beginnings, idle: Sequence[IdleRanks]) -> bool:
    """Whether something that must work failed: ours, the floor, or torch itself."""
    needed = [*of_launches(launches, with_peers=False), *of_beginnings(first)]
    return any(series.trouble for _, series in needed) or any(ranks.trouble for ranks in idle)
