"""Values that ranks send to each other, step by step: in rows, one for each state, and around a ring.

A cell's tone is the rank that its value comes from, or "part" for a sum over some ranks, or "sum" for a value computed
from all of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.show.figures.drawing import FONT_SIZE, Box, Line, Shape, Words
from ddp_lessons.show.figures.layouts import LINE_HEIGHT, Cue, Film, moved
from ddp_lessons.show.figures.palette import color_of_rank, ink_on, width_of

Tone = int | str
Cell = tuple[str, Tone]
Held = Sequence[Sequence[Cell]]  # the tensors of one rank
Point = tuple[float, float]
LEFT, HEAD, CELL, BETWEEN, BAND, CHIP = 62.0, 24.0, 22.0, 4.0, 44.0, 20.0  # pixels
NARROWEST_PANEL = 300.0
MOST_STEPS = 6  # in rows


@dataclass(frozen=True)
class Move:
    """A value that a rank sends to another."""

    sender: int
    receiver: int
    text: str
    tone: Tone


@dataclass(frozen=True)
class Exchange:
    """States, and the moves from each state to the next."""

    title: str
    states: Sequence[Sequence[Held]]
    moves: Sequence[Sequence[Move]]
    empty: str = "nothing"  # what to show for a rank without a result
    sent: Sequence[Sequence[str]] = ()  # by state and rank, the amount sent so far

    @property
    def ranks(self) -> int:
        return len(self.states[0])

    @property
    def widest(self) -> float:
        """The width of the widest text in a cell or instead of one."""
        texts = {text for state in self.states for held in state for tensor in held for text, _ in tensor}
        return max(width_of(text, FONT_SIZE) for text in texts | {self.empty})

    def instead(self, state: int) -> str:
        """The text where a rank holds nothing."""
        return self.empty if state == len(self.states) - 1 else "nothing"


# --- in rows ----------------------------------------------------------------------------------------------------------


def draw_rows(one: Exchange, width: float) -> Film:
    """Draw a column for each rank, a row for each state, and what moves between two rows."""
    pitch = max((width - LEFT - 4) / one.ranks, one.widest + 14)
    cell = min(max(one.widest + 16, 56), pitch - 6)
    middles = [LEFT + (rank + 0.5) * pitch for rank in range(one.ranks)]
    cues: list[Cue] = []
    y = 2.0
    for rank, x in enumerate(middles):
        name, color = f"rank {rank}" if cell >= 50 else str(rank), color_of_rank(rank)
        cues.append(Cue(Box(x - cell / 2, y, cell, HEAD - 4, color, corner=4)))
        cues.append(Cue(Words(x, y + HEAD / 2 - 2, name, ink_on(color), "middle", is_bold=True)))
    y += HEAD
    shown = one.states[: MOST_STEPS + 1]
    for number, held in enumerate(shown):
        tall = max(*map(_height, held), CELL)
        name = {len(one.states) - 1: "after", 0: "before"}.get(number, f"step {number}")
        cues.append(Cue(Words(4, y + tall / 2, name, "faint")))
        for rank, x in enumerate(middles):
            cues.append(Cue(Box(x - cell / 2 - 3, y - 2, cell + 6, tall + 4, edge="line", corner=5)))
            top = y + (tall - max(_height(held[rank]), CELL)) / 2
            cues += [Cue(shape, number) for shape in _cells(held[rank], x, top, cell, one.instead(number))]
        y += tall
        if number < len(shown) - 1:
            cues += _ways(one.moves[number], middles, y, number + 1)
            y += BAND
    if len(shown) < len(one.states):
        left_out = f"{count(len(one.states) - len(shown), 'more step')} not shown."
        cues.append(Cue(Words(4, y + 12, left_out, "faint"), len(shown) - 1))
        y += 22
    return Film(max(width, LEFT + one.ranks * pitch + 4), y + 4, cues)


def _ways(moves: Sequence[Move], middles: Sequence[float], y: float, step: int) -> Iterator[Cue]:
    """Arrows from senders to receivers. The values move along them, and a single value stays halfway."""
    for move in moves:
        if move.sender != move.receiver:
            points = [(middles[move.sender], y + 3), (middles[move.receiver], y + BAND - 4)]
            yield Cue(Line(points, color_of_rank(move.sender), 1.6, has_head=True), step)
    for move in moves:
        start, end = middles[move.sender], middles[move.receiver]
        for shape in _chip(move, (end, y + BAND)):
            yield Cue(shape, step, until=step, origin=(start - end, -BAND))
        if len(moves) == 1:
            for shape in _chip(move, ((start + end) / 2, y + BAND / 2)):
                yield Cue(shape, step)


def as_sheet(exchanges: Sequence[Exchange], width: float) -> Film:
    """Draw several exchanges on one page, each below its title."""
    columns = max(1, int(width / NARROWEST_PANEL))
    wide, y, most = width / columns, 0.0, width
    cues: list[Cue] = []
    for first in range(0, len(exchanges), columns):
        row = exchanges[first : first + columns]
        panels = [draw_rows(one, wide - 8) for one in row]
        for column, (one, panel) in enumerate(zip(row, panels, strict=True)):
            x = column * wide
            cues.append(Cue(Words(x + 4, y + LINE_HEIGHT / 2, one.title, is_bold=True)))
            cues += [replace(cue, shape=moved(cue.shape, x, y + LINE_HEIGHT + 2)) for cue in panel.cues]
            most = max(most, x + panel.width)
        y += max(panel.height for panel in panels) + LINE_HEIGHT + 12
    return Film(most, y, cues)


# --- around a ring ----------------------------------------------------------------------------------------------------


def draw_ring(one: Exchange, width: float) -> Film:
    """Draw a card for each rank, with the values that it holds and those that it sends."""
    sent = max((width_of(f"sent {amount}", FONT_SIZE) for amounts in one.sent for amount in amounts), default=0.0)
    wide = max(58.0, one.widest + 16, sent + 8)
    tall = HEAD + 8 + max(_height(held) for state in one.states for held in state) + (20 if one.sent else 4)
    corners = _around_circle(one.ranks, width, wide, tall)
    cues: list[Cue] = []
    for rank, (x, y) in enumerate(corners):
        color = color_of_rank(rank)
        cues.append(Cue(Box(x, y, wide, tall, "paper", color, corner=6)))
        cues.append(Cue(Box(x, y, wide, HEAD, color, corner=6)))
        cues.append(Cue(Words(x + wide / 2, y + HEAD / 2, f"rank {rank}", ink_on(color), "middle", is_bold=True)))
        columns = [list(itertools.chain.from_iterable(state[rank])) for state in one.states]
        for place, values in enumerate(zip(*columns, strict=True)):
            for since, until, cell in _runs(values):
                shapes = _cells([[cell]], x + wide / 2, y + HEAD + 5 + place * CELL, wide - 10, one.empty)
                cues += [Cue(shape, since, until) for shape in shapes]
        for since, until, amount in _runs([amounts[rank] for amounts in one.sent]):
            cues.append(Cue(Words(x + wide / 2, y + tall - 10, f"sent {amount}", "faint", "middle"), since, until))
    middles = [(x + wide / 2, y + tall / 2) for x, y in corners]
    for step, moves in enumerate(one.moves, 1):
        for move in moves:
            start, end = middles[move.sender], middles[move.receiver]
            points = [_edge(start, end, wide, tall), _edge(end, start, wide + 6, tall + 6)]
            cues.append(Cue(Line(points, color_of_rank(move.sender), 1.8, has_head=True), step, step + 1))
        for move in moves:
            start, end = middles[move.sender], middles[move.receiver]
            origin = start[0] - end[0], start[1] - end[1]
            cues += [Cue(shape, step, until=step, origin=origin) for shape in _chip(move, end)]
    right, bottom = (max(corner[axis] for corner in corners) for axis in (0, 1))
    return Film(max(width, right + wide + 4), bottom + tall + 4, cues)


def _around_circle(ranks: int, width: float, wide: float, tall: float) -> list[Point]:
    """The corners of the cards, clockwise from the top on the smallest ellipse on which they don't touch."""
    for down in itertools.count(tall / 2 + 10, 8):
        across = max(min(1.3 * down, (width - wide) / 2 - 4), 0.4 * down)
        angles = [2 * math.pi * rank / ranks - math.pi / 2 for rank in range(ranks)]
        points = [(across * math.cos(angle), down * math.sin(angle)) for angle in angles]
        if all(
            abs(a[0] - b[0]) > wide + 40 or abs(a[1] - b[1]) > tall + 30 for a, b in itertools.combinations(points, 2)
        ):
            break
    middle = max(width / 2, across + wide / 2 + 4)
    return [(middle + x - wide / 2, y + down + 4) for x, y in points]


def _edge(middle: Point, to: Point, wide: float, tall: float) -> Point:
    """Where the line from a card's middle to another point leaves the card."""
    dx, dy = to[0] - middle[0], to[1] - middle[1]
    part = min(wide / 2 / abs(dx) if dx else math.inf, tall / 2 / abs(dy) if dy else math.inf)
    return middle[0] + dx * part, middle[1] + dy * part


def _runs(values: Sequence[Any]) -> Iterable[tuple[int, int | None, Any]]:
    """Runs of equal values, as (first place, place after the last or None, value)."""
    begins = [place for place in range(len(values)) if not place or values[place] != values[place - 1]]
    ends = [*begins[1:], None]
    return [(begin, end, values[begin]) for begin, end in zip(begins, ends, strict=True)] if values else []


# --- what both have ---------------------------------------------------------------------------------------------------


def _height(held: Held) -> float:
    return sum(len(tensor) * CELL + BETWEEN for tensor in held) - BETWEEN if held else 0.0


def _look(tone: Tone) -> tuple[str, str, float]:
    """The fill of a value, its edge, and the opacity of the fill."""
    if tone == "sum":
        return "collective", "none", 1.0
    if tone == "part":
        return "band", "faint", 1.0
    return color_of_rank(int(tone)), color_of_rank(int(tone)), 0.2


def _cells(held: Held, x: float, y: float, width: float, instead: str) -> Iterator[Shape]:
    if not held:
        yield Words(x, y + CELL / 2, instead, "faint", "middle")
    for tensor in held:
        for text, tone in tensor:
            fill, edge, opacity = _look(tone)
            place = x - width / 2, y + 1, width, CELL - 2
            yield Box(*place, fill, edge, opacity, corner=3, is_dashed=tone == "part")
            yield Words(x, y + CELL / 2, text, ink_on(fill) if tone == "sum" else "ink", "middle")
            y += CELL
        y += BETWEEN


def _chip(move: Move, middle: Point) -> Iterator[Shape]:
    """A value that is being sent, in its tone."""
    (x, y), wide = middle, width_of(move.text, FONT_SIZE) + 12
    fill, edge, _ = _look(move.tone)
    yield Box(x - wide / 2, y - CHIP / 2, wide, CHIP, fill, edge, corner=5, is_dashed=move.tone == "part")
    yield Words(x, y, move.text, "ink" if move.tone == "part" else ink_on(fill), "middle")
