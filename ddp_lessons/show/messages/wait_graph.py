"""The wait-for graph of a hang: which rank waits for which when no rank can make progress."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ddp_lessons.run.diagnosis.waits import Waits
from ddp_lessons.run.diagnosis.wording import count, name_of, ranks_named
from ddp_lessons.show.figures.drawing import Box, Drawing, Line, Shape, Words
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.formats import events_of
from ddp_lessons.show.figures.layouts import LINE_HEIGHT, cut, figure_of, notes_at, write_figure
from ddp_lessons.show.figures.palette import color_of_rank, ink_on

WIDE, HIGH, NAME, ROW = 116.0, 42.0, 21.0, 66.0  # pixels: a box, the name in it, and a row of boxes
APART = 7.0  # the distance of two arrows between the same ranks
MOST_ON_NARROW_ELLIPSE = 4
Point = tuple[float, float]


class Waiting(NamedTuple):
    """The call in which a rank waits forever, and the ranks for which it waits."""

    call: str
    ranks: tuple[int, ...]


def waits(results: Any) -> Figure:
    """Draw which rank waits for which in a launch that hangs.

    Args:
        results: the exception that `launch` raised, or what it returned.
    """
    reasoning = Waits(events_of(results))
    waiting: dict[int, Waiting] = {}
    for event in reasoning.never_ending:
        missing = {*(reasoning.waited_for(event) or ())} - reasoning.movable - {event.rank}
        waiting.setdefault(event.rank, Waiting(name_of(event), tuple(sorted(missing))))
    if not waiting:
        return write_figure("No rank waits forever, so there is nothing to draw.")
    circle = _circle(waiting)
    gone = sorted({rank for one in waiting.values() for rank in one.ranks} - {*waiting})
    lines = [
        f"rank {rank} waits {f'for {ranks_named(one.ranks)}' if one.ranks else 'forever'} in {one.call}"
        for rank, one in waiting.items()
    ]
    lines += [f"{ranks_named(gone)} {'has' if len(gone) == 1 else 'have'} returned"] if gone else []
    lines += [f"a circle: {' -> '.join(map(str, [*circle, circle[0]]))}"] if circle else []
    if circle:
        alt = f"Wait-for graph of {count(len(waiting), 'rank')}: {ranks_named(sorted(circle))} wait in a circle."
    else:
        those = f"for {ranks_named(gone)}, which returned" if gone else "forever"
        alt = f"Wait-for graph: {ranks_named([*waiting])} {'waits' if len(waiting) == 1 else 'wait'} {those}."
    ranks = sorted([*waiting, *gone])
    return figure_of(lambda width: _draw(ranks, waiting, circle, width), "\n".join(lines), alt)


def _circle(waiting: Mapping[int, Waiting]) -> list[int]:
    """Ranks that wait for each other, each for the next one; [] if there are none."""
    for first in waiting:
        path = [first]
        while path[-1] in waiting and waiting[path[-1]].ranks:
            following = waiting[path[-1]].ranks
            path.append(next((rank for rank in following if rank in path), following[0]))
            if path[-1] in path[:-1]:
                return path[path.index(path[-1]) : -1]
    return []


def _draw(ranks: Sequence[int], waiting: Mapping[int, Waiting], circle: Sequence[int], width: float) -> Drawing:
    at = _places(ranks, width)
    pairs = {*zip(circle, [*circle[1:], *circle[:1]], strict=True)}
    arrows = {(rank, other) for rank, one in waiting.items() for other in one.ranks}
    shapes: list[Shape] = []
    for rank, other in sorted(arrows):
        color, thick = ("alarm", 2.4) if (rank, other) in pairs else (color_of_rank(rank), 1.4)
        points = _ends(at[rank], at[other], APART if (other, rank) in arrows else 0.0)
        shapes.append(Line(points, color, thick, has_head=True))
    for rank in ranks:
        shapes += _box(rank, waiting.get(rank), at[rank])
    notes = ["An arrow points from a rank to the one that it waits for"]
    notes += ["the red arrows form a circle, so none of these ranks can make progress"] * bool(circle)
    below, end = notes_at(max(y for _, y in at.values()) + HIGH / 2 + LINE_HEIGHT / 2, notes, width)
    return Drawing(width, end + 4, [*shapes, *below])


def _places(ranks: Sequence[int], width: float) -> dict[int, Point]:
    """The middles of the boxes, clockwise on an ellipse or, on a narrow page, down one side and up the other."""
    number, room = len(ranks), (width - WIDE) / 2 - 8
    tall = 0.0 if number == 2 else max(74.0, 13.0 * number)
    if number <= MOST_ON_NARROW_ELLIPSE or width > 600:
        across, first = min(room, 1.6 * tall + 60 if tall else 170), math.pi if number == 2 else math.pi / 2
        angles = [2 * math.pi * place / number - first for place in range(number)]
        at = [(across * math.cos(angle), tall * math.sin(angle)) for angle in angles]
    else:
        right = (number + 1) // 2
        at = [(min(room, 150), ROW * place) for place in range(right)]
        at += [(-min(room, 150), ROW * place) for place in reversed(range(number - right))]
    top = min(y for _, y in at) - HIGH / 2 - 6
    return {rank: (width / 2 + x, y - top) for rank, (x, y) in zip(ranks, at, strict=True)}


def _box(rank: int, waiting: Waiting | None, at: Point) -> Iterator[Shape]:
    """A box with the rank's name and, below it, what the rank is doing."""
    left, top = at[0] - WIDE / 2, at[1] - HIGH / 2
    color = color_of_rank(rank)
    yield Box(left, top, WIDE, HIGH, fill="paper", edge=color, corner=5, is_dashed=waiting is None)
    yield Box(left, top, WIDE, NAME, fill=color, corner=5)
    yield Words(at[0], top + NAME / 2, f"rank {rank}", ink_on(color), "middle", is_bold=True)
    what = f"in {waiting.call}" if waiting else "has returned"
    yield Words(at[0], top + (NAME + HIGH) / 2, cut(what, WIDE - 6), "ink", "middle")


def _ends(start: Point, goal: Point, apart: float) -> list[Point]:
    """The ends of an arrow from one box's edge to the other's, parallel to the line between their middles."""
    dx, dy = goal[0] - start[0], goal[1] - start[1]
    length = math.hypot(dx, dy)
    aside = apart * dy / length, -apart * dx / length
    room_x, room_y = WIDE / 2 + 2 + abs(aside[0]), HIGH / 2 + 2 + abs(aside[1])
    part = min(room_x / abs(dx) if dx else math.inf, room_y / abs(dy) if dy else math.inf)
    return [
        (start[0] + aside[0] + part * dx, start[1] + aside[1] + part * dy),
        (goal[0] + aside[0] - part * dx, goal[1] + aside[1] - part * dy),
    ]
