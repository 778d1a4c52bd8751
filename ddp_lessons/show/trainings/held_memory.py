"""The memory of each rank: bars for several ways to train, and the same phase by phase, with what the ranks send.

For the phases, the ranks log how many bytes they hold: `tell("forward", parameters=800, gradients=0)`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.show.figures.drawing import FONT_SIZE, Box, Drawing, Line, Shape, Words
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.formats import show_bytes
from ddp_lessons.show.figures.layouts import (
    LEFT,
    LINE_HEIGHT,
    Cue,
    Film,
    cut,
    figure_of,
    film_of,
    key_at,
    moved,
    name_rank,
    notes_at,
)
from ddp_lessons.show.figures.palette import color_of_rank, width_of
from ddp_lessons.show.programs.printed import in_columns

ROW, BAR, GAP, CHIP = 18.0, 13.0, 8.0, 7.0  # pixels
NARROWEST_PANEL, NAMES = 360.0, 66.0
CARRIES = {
    "all_gather": "parameters",
    "broadcast": "parameters",
    "reduce_scatter": "gradients",
    "all_reduce": "gradients",
}
WANTED = 'every rank must log the bytes that it holds in each phase, as in tell("forward", parameters=800, gradients=0)'
Held = Mapping[str, float]  # bytes, by kind


def memory(ways: Mapping[str, Sequence[Held]]) -> Figure:
    """Draw how many bytes of each kind every rank holds, for one way to train or for several.

    Args:
        ways: {"DDP": [{"parameters": 800, "gradients": 800}, ...], ...}: for each rank, the bytes of each kind.
    """
    kinds = list(dict.fromkeys(kind for ranks in ways.values() for rank in ranks for kind in rank))
    width = max(len(f"{name}, rank {len(ranks) - 1}") for name, ranks in ways.items())
    rows = [["bytes held".ljust(width), *kinds, "total"]]
    told = []
    for name, ranks in ways.items():
        for rank, parts in enumerate(ranks):
            numbers = [*(parts.get(kind, 0) for kind in kinds), sum(parts.values())]
            rows.append([f"{name}, rank {rank}".ljust(width), *(f"{number:,}" for number in numbers)])
        totals = [sum(parts.values()) for parts in ranks]
        each = _range(show_bytes(min(totals)), show_bytes(max(totals)))
        told.append(f"{name}: {each} on {'each of ' * (len(ranks) > 1)}{count(len(ranks), 'rank')}")
    alt = f"Bars of the bytes that each rank holds: {', '.join(kinds)}. {'; '.join(told)}."
    text = "\n".join(in_columns(rows, "   ", slice(None)))
    return figure_of(lambda width: _draw_bars(ways, kinds, width), text, alt)


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _draw_bars(ways: Mapping[str, Sequence[Held]], kinds: Sequence[str], width: float) -> Drawing:
    """Draw the bars of each way to train below its name."""
    totals = [sum(rank.values()) for ranks in ways.values() for rank in ranks]
    room = max(width_of(show_bytes(total), FONT_SIZE) for total in totals) + 12
    scale = (width - LEFT - room) / max(1, *totals)
    shapes, y = _key(kinds, width)
    for name, ranks in ways.items():
        shapes.append(Line([(4, y + GAP / 2), (width - 4, y + GAP / 2)]))
        shapes.append(Words(4, y + GAP + 10, cut(name, 0.9 * width - 8), is_bold=True))
        y += GAP + 22
        for rank, parts in enumerate(ranks):
            shapes += name_rank(rank, y + ROW / 2)
            end = LEFT
            for number, kind in enumerate(kinds):
                wide = scale * parts.get(kind, 0)
                shapes.append(_part(number, color_of_rank(rank), end, y + (ROW - BAR) / 2, wide, BAR))
                end += wide
            shapes.append(Words(end + 6, y + ROW / 2, show_bytes(sum(parts.values()))))
            y += ROW
    return Drawing(width, y + 4, shapes)


def _key(kinds: Sequence[str], width: float) -> tuple[list[Shape], float]:
    return key_at(0, [(_part(number, "faint", 0, -5, 16, 10), kind) for number, kind in enumerate(kinds)], width)


def _part(number: int, color: str, x: float, y: float, width: float, height: float) -> Box:
    """Solid, pale, hatched or empty, to be distinguishable without colors."""
    fill, opacity = ((color, 1.0), (color, 0.3), ("none", 1.0), ("none", 1.0))[number % 4]
    return Box(x, y, width, height, fill, color, opacity, 0, is_hatched=number == 2)


@dataclass(frozen=True)
class Way:
    """One way to train: its phases, with the calls of a rank in each, and the bytes held, by moment and rank."""

    name: str
    phases: Sequence[tuple[str, Mapping[str, int]]]
    held: Sequence[Sequence[Held]]

    def most(self, kind: str) -> float:
        """The most of this kind that any rank holds at any moment."""
        return max(rank.get(kind, 0) for moment in self.held for rank in moment)

    @property
    def totals(self) -> list[str]:
        """By step, the total of the rank that holds most. Step 0 is the overview, with the maximum over all moments."""
        totals = [max(sum(rank.values()) for rank in moment) for moment in self.held]
        return [*map(show_bytes, (max(totals), *totals))]


def sharding(ways: Mapping[str, Any]) -> Figure:
    """Show what every rank holds during one training step, and what is sent in each phase.

    Args:
        ways: {"DDP": results, ...}: what `launch` returned. In the function, each rank logs what it holds when a phase
            begins and, with `tell("", ...)`, when the last one ends. Of several training steps, the last is drawn.

    Raises:
        ValueError: a rank logged nothing.
    """
    of_each = [_way(name, results) for name, results in ways.items()]
    kinds = list(dict.fromkeys(kind for way in of_each for rank in way.held[0] for kind in rank))
    captions = ["The maximum that each rank holds during a training step.", "Start of a training step."]
    captions += [f"{phase[:1].upper()}{phase[1:]}, and the memory afterwards." for phase, _ in of_each[0].phases]
    rows = [["bytes per rank", *kinds, ""]]
    for way in of_each:
        rows.append([way.name, *[""] * (len(kinds) + 1)])
        moments = [*((f"before {phase}", f"then {_travels(calls)}") for phase, calls in way.phases), ("at the end", "")]
        for (moment, travels), held in zip(moments, way.held, strict=True):
            of_kinds = [[round(rank.get(kind, 0)) for rank in held] for kind in kinds]
            ranges = [_range(f"{min(numbers):,}", f"{max(numbers):,}") for numbers in of_kinds]
            rows.append([f"  {moment}", *ranges, travels])
    text = "\n".join(in_columns(rows, "  ", slice(1, -1)))
    said = [f"{way.name}: up to {way.totals[0]} on each of {count(len(way.held[0]), 'rank')}" for way in of_each]
    alt = f"What each rank holds during a training step, and what the ranks send. {'; '.join(said)}."
    return film_of(lambda width: _draw_panels(of_each, kinds, width), captions, 0, "", text, alt)


def _way(name: str, results: Any) -> Way:
    steps = []
    for by_rank in results.told:
        told = [one for one in by_rank if one.numbers]
        if not told:
            raise ValueError(f"nothing to draw for {name!r}: {WANTED}")
        begins = [place for place, one in enumerate(told) if one.label == told[0].label]
        steps.append(told[begins[-1] :])
    calls = [call for call in results.events.of(0) if call.operation in CARRIES]
    phases = [
        (phase.label, Counter(call.operation for call in calls if phase.seconds <= call.begin < after.seconds))
        for phase, after in itertools.pairwise(steps[0])
    ]
    return Way(name, phases, [[one.numbers for one in moment] for moment in zip(*steps, strict=True)])


def _travels(calls: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {operation}" for operation, number in calls.items()) or "no traffic"


def _draw_panels(ways: Sequence[Way], kinds: Sequence[str], width: float) -> Film:
    columns = max(1, min(len(ways), int(width / NARROWEST_PANEL)))
    widest = {kind: max(way.most(kind) for way in ways) for kind in kinds}
    key, y = _key(kinds, width)
    cues = [*map(Cue, key)]
    for first in range(0, len(ways), columns):
        panels = [
            Panel(way, ways[0], widest, width / columns * column, y + GAP, width / columns - GAP)
            for column, way in enumerate(ways[first : first + columns])
        ]
        cues += itertools.chain.from_iterable(panel.cues() for panel in panels)
        y = max(panel.phase(len(panel.way.phases)) for panel in panels) + 2
    carriers: dict[str, list[str]] = {}
    for operation in dict.fromkeys(operation for way in ways for _, calls in way.phases for operation in calls):
        carriers.setdefault(CARRIES[operation], []).append(operation)
    notes = [f"{kind} travel in {' and '.join(operations)}" for kind, operations in carriers.items()]
    notes += ["small squares: data from the other ranks"] * bool(notes)
    below, y = notes_at(y, ["bytes measured between the phases", *notes], width)
    return Film(width, y + 4, [*cues, *map(Cue, below)])


class Panel:
    """One way to train, with a row for each rank. `unsharded` has the full size of each kind, `widest` the largest."""

    def __init__(self, way: Way, unsharded: Way, widest: Held, x: float, y: float, wide: float) -> None:
        self.way, self.unsharded, self.x, self.y = way, unsharded, x, y
        self.ranks, self.end = range(len(way.held[0])), x + wide
        self.chips = self.end - (CHIP + 2) * (len(self.ranks) - 1) - 4
        self.scale = (self.chips - x - NAMES - GAP * len(widest)) / max(1.0, sum(widest.values()))  # pixels of a byte
        ends = itertools.accumulate((self.scale * most + GAP for most in widest.values()), initial=x + NAMES)
        self.left = dict(zip(widest, ends, strict=False))

    def row(self, rank: int) -> float:
        return self.y + GAP + LINE_HEIGHT + rank * ROW

    def phase(self, number: int) -> float:
        return self.row(len(self.ranks)) + number * LINE_HEIGHT

    def cues(self) -> Iterator[Cue]:
        yield Cue(Line([(self.x + 4, self.y), (self.end - 4, self.y)]))
        for since, until, total in _runs(self.way.totals):
            yield Cue(Words(self.end - 4, self.y + GAP + 4, total, "faint", "end"), since, until)
        room = self.end - self.x - 16 - max(width_of(total, FONT_SIZE) for total in self.way.totals)
        yield Cue(Words(self.x + 4, self.y + GAP + 4, cut(self.way.name, 0.9 * room), is_bold=True))
        for rank in self.ranks:
            for shape in name_rank(rank, self.row(rank) + ROW / 2):
                yield Cue(moved(shape, self.x, 0))
            for number, kind in enumerate(self.left):
                yield from self._bar(rank, number, kind)
        for number, (phase, calls) in enumerate(self.way.phases):
            said = cut(f"{phase}: {_travels(calls)}", self.end - self.x - 22)
            y = self.phase(number) + LINE_HEIGHT / 2
            yield Cue(Words(self.x + 18, y, said, "ink" if calls else "faint"))
            if calls:
                arrow = Line([(self.x + 4, y), (self.x + 14, y)], "ink", 1.6, has_head=True)
                yield Cue(arrow, number + 2, number + 3)
                yield from self._chips(CARRIES[[*calls][-1]], number + 2)

    def _bar(self, rank: int, number: int, kind: str) -> Iterator[Cue]:
        """A rank's shard is drawn at its place in the whole; what all ranks have starts at the left."""
        left, y, whole = self.left[kind], self.row(rank) + (ROW - BAR) / 2, self.unsharded.most(kind)
        yield Cue(Box(left, y, self.scale * whole, BAR, edge="line", corner=0))
        amounts = [moment[rank].get(kind, 0) for moment in self.way.held]
        for since, until, amount in _runs([max(amounts), *amounts]):
            is_share = amount * len(self.ranks) <= 1.05 * whole
            x, wide = left + self.scale * amount * rank * is_share, self.scale * amount
            yield from [Cue(_part(number, color_of_rank(rank), x, y, wide, BAR), since, until)] * (amount > 0)

    def _chips(self, kind: str, step: int) -> Iterator[Cue]:
        """What the ranks send, as a square for each pair of ranks."""
        for rank in self.ranks:
            for place, other in enumerate(other for other in self.ranks if other != rank):
                x = self.chips + place * (CHIP + 2)
                chip = Box(x, self.row(rank) + (ROW - CHIP) / 2, CHIP, CHIP, color_of_rank(other), corner=1)
                yield Cue(chip, step, step + 1, (self.left[kind] - x, (other - rank) * ROW))


def _runs(values: Sequence[Any]) -> Iterator[tuple[int, int | None, Any]]:
    """Runs of equal values, as (first place, place after the last or None, value)."""
    end = 0
    for value, same in itertools.groupby(values):
        begin, end = end, end + len([*same])
        yield begin, end if end < len(values) else None, value
