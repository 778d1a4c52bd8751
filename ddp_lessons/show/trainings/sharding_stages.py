"""What each rank holds during a training step, and what travels when, for several ways to shard it, side by side.

The ranks logged how many bytes they held, phase by phase: `tell("forward", parameters=800, gradients=0)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddp_lessons.record.event import Event
from ddp_lessons.record.rank_record import Told
from ddp_lessons.show.figures.drawing import COMMON, Box, Line, color_of_rank, width_of
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.films import Cue, Film, film_of
from ddp_lessons.show.figures.layouts import LINE_HEIGHT, cut, key_at, label, moved, name_rank, notes_at
from ddp_lessons.show.page.picture import count, show_bytes
from ddp_lessons.show.page.printed import in_columns
from ddp_lessons.show.trainings.memory_bars import MOST_PARTS, part_of_bar

ROW, BAR, NAMES, GAP, CHIP = 18.0, 12.0, 66.0, 8.0, 7.0  # pixels
NARROWEST_PANEL = 360.0
CARRIES = {
    "all_gather": "parameters",
    "broadcast": "parameters",
    "reduce_scatter": "gradients",
    "all_reduce": "gradients",
}
WANTED = 'every rank has to log what it holds, phase by phase, as in tell("forward", parameters=800, gradients=0)'
MEASURED = "bytes as measured between the phases"
Held = Mapping[str, float]


@dataclass(frozen=True)
class Way:
    """One way to train: by moment and rank what is held, and between two moments the calls of a rank."""

    name: str
    phases: Sequence[str]
    held: Sequence[Sequence[Held]]
    calls: Sequence[Mapping[str, int]]  # by phase, how many of each operation

    @property
    def ranks(self) -> range:
        return range(len(self.held[0]))

    def most(self, kind: str) -> float:
        """On any rank, at any moment."""
        return max(rank.get(kind, 0) for moment in self.held for rank in moment)

    def by_step(self, rank: int, kind: str) -> list[float]:
        """Step 0 is an overview, with the most of each kind; with step 1 the training step begins."""
        amounts = [moment[rank].get(kind, 0) for moment in self.held]
        return [max(amounts), *amounts]

    @property
    def in_all(self) -> list[float]:
        """By step, what the rank that holds most has of all kinds at one moment."""
        totals = [max(sum(rank.values()) for rank in moment) for moment in self.held]
        return [max(totals), *totals]


def sharding(ways: Mapping[str, Any], title: str | None = None) -> Figure:
    """Show what every rank holds during one training step, and what travels in each phase.

    Args:
        ways: {"DDP": results, ...}: what `launch` returned. In the function each rank logs what it holds when a phase
            begins, and with `tell("", ...)` when the last is over. Of several training steps the last is drawn.
        title: a heading.

    Raises:
        ValueError: there is nothing to draw, or more than four kinds.
    """
    of_each = [_way(name, results) for name, results in ways.items()]
    if not of_each:
        raise ValueError(f"there is nothing to draw: {WANTED}")
    kinds = list(dict.fromkeys(kind for way in of_each for rank in way.held[0] for kind in rank))
    if len(kinds) > MOST_PARTS:
        raise ValueError(f"a bar has at most {MOST_PARTS} parts, and these are {len(kinds)}: {', '.join(kinds)}")
    phases = max((way.phases for way in of_each), key=len)
    captions = ["The most that each rank holds during a training step.", "A training step begins."]
    captions += [f"{phase[:1].upper()}{phase[1:]}, and what is held after it." for phase in phases]
    return film_of(
        lambda width: _draw(of_each, kinds, width),
        captions,
        [0],
        title or "",
        _text(of_each, kinds),
        _describe(of_each),
    )


def _way(name: str, results: Any) -> Way:
    told = [[one for one in by_rank if one.numbers] for by_rank in results.told]
    if not told or not all(told):
        raise ValueError(f"there is nothing to draw for {name!r}: {WANTED}")
    steps = [_last_step(by_rank) for by_rank in told]
    moments = min(map(len, steps))
    phases = [one.label or "the end" for one in steps[0][: moments - 1]]
    held = [[one.numbers for one in moment] for moment in zip(*steps, strict=False)]
    spans = zip(steps[0], steps[0][1:moments], strict=False)
    calls = [_calls_between(results.events.of(0), begin.seconds, end.seconds) for begin, end in spans]
    return Way(name, phases, held, calls)


def _last_step(told: Sequence[Told]) -> Sequence[Told]:
    """It begins with the phase that the first one began with."""
    begins = [place for place, one in enumerate(told) if one.label == told[0].label]
    return told[begins[-1] :]


def _calls_between(calls: Sequence[Event], begin: float, end: float) -> Counter[str]:
    return Counter(call.operation for call in calls if begin <= call.begin < end and call.operation in CARRIES)


def _travels(calls: Mapping[str, int]) -> str:
    said = [f"{number} {operation}" for operation, number in calls.items()]
    return ", ".join(said) or "no traffic"


def _cargo(ways: Sequence[Way]) -> list[str]:
    """Of the operations that there are, what each carries."""
    used = dict.fromkeys(operation for way in ways for calls in way.calls for operation in calls)
    by_kind = {CARRIES[one]: [other for other in used if CARRIES[other] == CARRIES[one]] for one in used}
    return [f"{kind} are sent by {' and '.join(operations)}" for kind, operations in by_kind.items()]


def _draw(ways: Sequence[Way], kinds: Sequence[str], width: float) -> Film:
    columns = max(1, min(len(ways), int(width / NARROWEST_PANEL)))
    wide = width / columns
    signs = [part_of_bar(number, "faint", (0, -5), (16, 10)) for number in range(len(kinds))]
    key, y = key_at(0, [*zip(signs, kinds, strict=True)], width)
    cues = [*map(Cue, key)]
    widest = {kind: max(way.most(kind) for way in ways) for kind in kinds}
    for first in range(0, len(ways), columns):
        places = [(column * wide, y + GAP) for column in range(columns)]
        panels = [
            Panel(way, ways[0], widest, *place, wide - GAP)
            for way, place in zip(ways[first : first + columns], places, strict=False)
        ]
        cues += [cue for panel in panels for cue in panel.cues()]
        y = max(panel.bottom for panel in panels)
    below, y = notes_at(y, [MEASURED, *_cargo(ways)], width)
    return Film(width, y + 4, [*cues, *map(Cue, below)])


@dataclass(frozen=True)
class Panel:
    """One way, a row for each rank. `unsharded` says how much all of a kind is, `widest` how much of it any has."""

    way: Way
    unsharded: Way
    widest: Held
    x: float
    y: float
    wide: float

    @property
    def rows(self) -> float:
        return self.y + GAP + LINE_HEIGHT

    @property
    def bottom(self) -> float:
        return self.row(len(self.way.ranks)) + len(self.way.phases) * LINE_HEIGHT + 2

    @property
    def room_for_chips(self) -> float:
        return (CHIP + 2) * (len(self.way.ranks) - 1) + 4

    @property
    def scale(self) -> float:
        """Pixels of a byte."""
        room = self.wide - NAMES - self.room_for_chips - GAP * len(self.widest)
        return room / max(1.0, sum(self.widest.values()))

    def left(self, kind: str) -> float:
        before = [*self.widest][: [*self.widest].index(kind)]
        return self.x + NAMES + sum(self.scale * self.widest[one] + GAP for one in before)

    def row(self, rank: int) -> float:
        return self.rows + rank * ROW

    def cues(self) -> Iterator[Cue]:
        x, end = self.x, self.x + self.wide
        yield Cue(Line([(x + 4, self.y), (end - 4, self.y)]))
        total = [show_bytes(amount) for amount in self.way.in_all]
        for since, until, said in _runs(total):
            yield Cue(label(end - 4, self.y + GAP + 4, said, "faint", "end"), since, until)
        room = self.wide - 16 - max(width_of(said, COMMON) for said in total)
        yield Cue(label(x + 4, self.y + GAP + 4, cut(self.way.name, 0.9 * room), is_bold=True))
        for rank in self.way.ranks:
            for shape in name_rank(rank, self.row(rank) + ROW / 2):
                yield Cue(moved(shape, x, 0))
            for number, kind in enumerate(self.widest):
                yield from self._bar(rank, number, kind)
        for number, calls in enumerate(self.way.calls):
            yield from self._phase(number, calls)

    def _bar(self, rank: int, number: int, kind: str) -> Iterator[Cue]:
        """A rank's share is where it would be in the whole; what all have begins at the left."""
        left, y = self.left(kind), self.row(rank) + (ROW - BAR) / 2
        whole = self.unsharded.most(kind)
        yield Cue(Box(left, y, self.scale * whole, BAR, edge="line", corner=0))
        for since, until, amount in _runs(self.way.by_step(rank, kind)):
            is_share = amount * len(self.way.ranks) <= 1.05 * whole
            corner = left + self.scale * amount * rank * is_share, y
            bar = part_of_bar(number, color_of_rank(rank), corner, (self.scale * amount, BAR))
            yield from [Cue(bar, since, until)] * (amount > 0)

    def _phase(self, number: int, calls: Mapping[str, int]) -> Iterator[Cue]:
        """What travels, in words, and when its turn comes as squares from rank to rank."""
        y, step = self.row(len(self.way.ranks)) + (number + 0.5) * LINE_HEIGHT, number + 2
        said = f"{self.way.phases[number]}: {_travels(calls)}"
        yield Cue(label(self.x + 18, y, cut(said, self.wide - 22), "ink" if calls else "faint"))
        if calls:
            yield Cue(Line([(self.x + 4, y), (self.x + 14, y)], "ink", 1.6, has_head=True), step, step + 1)
            carried = [CARRIES[operation] for operation in calls if CARRIES[operation] in self.widest]
            yield from self._chips(carried[-1] if carried else next(iter(self.widest)), step)

    def _chips(self, kind: str, step: int) -> Iterator[Cue]:
        """To each rank from each other."""
        for rank in self.way.ranks:
            for place, other in enumerate(other for other in self.way.ranks if other != rank):
                x = self.x + self.wide - self.room_for_chips + place * (CHIP + 2)
                origin = self.left(kind) - x, (other - rank) * ROW
                chip = Box(x, self.row(rank) + (ROW - CHIP) / 2, CHIP, CHIP, color_of_rank(other), corner=1)
                yield Cue(chip, step, step + 1, origin)


def _runs(values: Sequence[Any]) -> Iterator[tuple[int, int | None, Any]]:
    """Equal ones after each other: the first, the one behind the last, and the value."""
    begin = 0
    for place in range(1, len(values) + 1):
        if place == len(values) or values[place] != values[begin]:
            yield begin, None if place == len(values) else place, values[begin]
            begin = place


def _text(ways: Sequence[Way], kinds: Sequence[str]) -> str:
    """A row for each moment: what is held before the phase, and what travels in it."""
    rows = [["bytes on each rank", *kinds, ""]]
    for way in ways:
        rows.append([way.name, *[""] * (len(kinds) + 1)])
        for number, held in enumerate(way.held):
            is_phase = number < len(way.calls)
            name = f"before {way.phases[number]}" if is_phase else "at the end"
            travels = f"then {_travels(way.calls[number])}" if is_phase else ""
            rows.append([f"  {name}", *(_range(held, kind) for kind in kinds), travels])
    return "\n".join(in_columns(rows, "  ", slice(1, -1)))


def _range(held: Sequence[Held], kind: str) -> str:
    numbers = [round(rank.get(kind, 0)) for rank in held]
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _describe(ways: Sequence[Way]) -> str:
    said = [f"{way.name}: up to {show_bytes(way.in_all[0])} on each of {count(len(way.ranks), 'rank')}" for way in ways]
    return f"What ranks hold during a training step, and what travels. {'; '.join(said)}."
