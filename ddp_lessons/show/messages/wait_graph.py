"""Who waits for whom when no rank can make progress: a wait-for graph, as operating systems draw it of a deadlock."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddp_lessons.record.events import Events
from ddp_lessons.run.diagnosis.waits import Waits
from ddp_lessons.run.diagnosis.wording import name_of, ranks_named
from ddp_lessons.show.figures.drawing import Box, Drawing, Line, Shape, color_of_rank, ink_on
from ddp_lessons.show.figures.figure import Figure, write_figure
from ddp_lessons.show.figures.layouts import LINE_HEIGHT, cut, figure_of, label, notes_at
from ddp_lessons.show.page.picture import count, events_of

BOX, NAME, ROW = (116.0, 42.0), 21.0, 66.0  # pixels
APART = 7.0  # of two arrows between the same ranks
MOST_RANKS, MOST_ON_NARROW_CIRCLE = 16, 4
Point = tuple[float, float]


@dataclass(frozen=True)
class Waiting:
    """A rank that waits forever: in which call, and for which ranks."""

    rank: int
    name: str
    waits_for: tuple[int, ...]


def waits(results: Any) -> Figure:
    """Draw which rank waits for which, where no rank can make progress.

    Args:
        results: the exception that `launch` raised, or what it returned.
    """
    events = events_of(results)
    waiting = _waiting(events)
    if not waiting:
        return write_figure("No rank waits forever, so there is nothing to draw.")
    circle = _circle(waiting)
    ranks = _ranks_to_draw(waiting, circle)
    text = _text(waiting, circle)
    left_out = events.world_size - len(ranks)
    return figure_of(
        lambda width: _draw(ranks, waiting, circle, left_out, width), None, text, _describe(waiting, circle)
    )


def _waiting(events: Events) -> dict[int, Waiting]:
    reasoning = Waits(events)
    found: dict[int, Waiting] = {}
    for event in reasoning.never_ending:
        missing = reasoning.waited_for(event) or ()
        those = tuple(rank for rank in missing if rank not in reasoning.movable and rank != event.rank)
        found.setdefault(event.rank, Waiting(event.rank, name_of(event), those))
    return found


def _circle(waiting: Mapping[int, Waiting]) -> tuple[int, ...]:
    """Ranks that wait for each other, each for the next one; () if there are none."""
    for first in waiting:
        path = [first]
        while path[-1] in waiting and waiting[path[-1]].waits_for:
            following = waiting[path[-1]].waits_for
            path.append(next((rank for rank in following if rank in path), following[0]))
            if path[-1] in path[:-1]:
                return tuple(path[path.index(path[-1]) : -1])
    return ()


def _ranks_to_draw(waiting: Mapping[int, Waiting], circle: Sequence[int]) -> list[int]:
    """All of them or, of very many, those that explain it: the circle, who is waited for, and some that wait."""
    wanted = [rank for one in waiting.values() for rank in one.waits_for]
    return sorted([*dict.fromkeys([*circle, *wanted, *waiting])][:MOST_RANKS])


def _draw(
    ranks: Sequence[int], waiting: Mapping[int, Waiting], circle: Sequence[int], left_out: int, width: float
) -> Drawing:
    at = _places(ranks, width)
    pairs = list(zip(circle, [*circle[1:], *circle[:1]], strict=True))
    shapes: list[Shape] = []
    for rank in ranks:
        for other in waiting[rank].waits_for if rank in waiting else ():
            if other in at:
                shapes += _arrow(rank, other, at, waiting, is_of_circle=(rank, other) in pairs)
    for rank in ranks:
        shapes += _rank(rank, waiting.get(rank), at[rank])
    notes = ["An arrow leads from a rank to the one it waits for"]
    notes += ["red and wide: a circle, so none of these can go on"] * bool(circle)
    notes += [f"{count(left_out, 'further rank')} left out"] * bool(left_out)
    below, end = notes_at(max(y for _, y in at.values()) + BOX[1] / 2 + LINE_HEIGHT / 2, notes, width)
    return Drawing(width, end + 4, [*shapes, *below])


def _places(ranks: Sequence[int], width: float) -> dict[int, Point]:
    """The middles of their boxes: clockwise on an ellipse or, where it is narrow, down one side and up the other."""
    count, room = len(ranks), (width - BOX[0]) / 2 - 8
    tall = 0.0 if count == 2 else max(74.0, 26.0 * count / 2)
    if count <= MOST_ON_NARROW_CIRCLE or width > 600:
        across, first = min(room, 1.6 * tall + 60 if tall else 170), math.pi if count == 2 else math.pi / 2
        angles = [2 * math.pi * place / count - first for place in range(count)]
        at = [(across * math.cos(angle), tall * math.sin(angle)) for angle in angles]
    else:
        right = (count + 1) // 2
        at = [(min(room, 150), ROW * place) for place in range(right)]
        at += [(-min(room, 150), ROW * place) for place in reversed(range(count - right))]
    top = min(y for _, y in at) - BOX[1] / 2 - 6
    return {rank: (width / 2 + x, y - top) for rank, (x, y) in zip(ranks, at, strict=True)}


def _rank(rank: int, waiting: Waiting | None, at: Point) -> Iterator[Shape]:
    """A box with its name, and below what it does."""
    left, top = at[0] - BOX[0] / 2, at[1] - BOX[1] / 2
    color = color_of_rank(rank)
    yield Box(left, top, *BOX, fill="paper", edge=color, corner=5, is_dashed=waiting is None)
    yield Box(left, top, BOX[0], NAME, fill=color, corner=5)
    yield label(at[0], top + NAME / 2, f"rank {rank}", ink_on(color), "middle", is_bold=True)
    what = f"in {waiting.name}" if waiting else "has returned"
    yield label(at[0], top + NAME + (BOX[1] - NAME) / 2, cut(what, BOX[0] - 6), "ink", "middle")


def _arrow(
    rank: int, other: int, at: Mapping[int, Point], waiting: Mapping[int, Waiting], *, is_of_circle: bool
) -> Iterator[Shape]:
    (x0, y0), (x1, y1) = at[rank], at[other]
    if other in waiting and rank in waiting[other].waits_for:  # one in each direction, side by side
        length = math.hypot(x1 - x0, y1 - y0)
        aside = APART * (y1 - y0) / length, -APART * (x1 - x0) / length
        x0, y0, x1, y1 = x0 + aside[0], y0 + aside[1], x1 + aside[0], y1 + aside[1]
    begin, end = _edge((x0, y0), (x1, y1), at[rank]), _edge((x1, y1), (x0, y0), at[other])
    color, wide = ("alarm", 2.4) if is_of_circle else (color_of_rank(rank), 1.4)
    yield Line([begin, end], color, wide, has_head=True)


def _edge(start: Point, towards: Point, middle: Point) -> Point:
    """Where the way from a point in a box leaves that box."""
    dx, dy = towards[0] - start[0], towards[1] - start[1]
    room_x = BOX[0] / 2 + 2 - math.copysign(1, dx) * (start[0] - middle[0])
    room_y = BOX[1] / 2 + 2 - math.copysign(1, dy) * (start[1] - middle[1])
    part = min(room_x / abs(dx) if dx else math.inf, room_y / abs(dy) if dy else math.inf)
    return start[0] + part * dx, start[1] + part * dy


def _text(waiting: Mapping[int, Waiting], circle: Sequence[int]) -> str:
    lines = []
    for one in waiting.values():
        wanted = ranks_named(one.waits_for) if one.waits_for else "what cannot come"
        lines.append(f"rank {one.rank} waits for {wanted}, in {one.name}")
    gone = sorted({rank for one in waiting.values() for rank in one.waits_for} - set(waiting))
    lines += [f"{ranks_named(gone)} {'has' if len(gone) == 1 else 'have'} returned"] if gone else []
    return "\n".join([*lines, *([f"a circle: {' -> '.join(map(str, [*circle, circle[0]]))}"] if circle else [])])


def _describe(waiting: Mapping[int, Waiting], circle: Sequence[int]) -> str:
    if circle:
        return f"Wait-for graph of {count(len(waiting), 'rank')}: {ranks_named(sorted(circle))} wait in a circle."
    gone = sorted({rank for one in waiting.values() for rank in one.waits_for} - set(waiting))
    those = f"for {ranks_named(gone)}, which returned" if gone else "for what cannot come"
    return f"Wait-for graph: {ranks_named(sorted(waiting))} {'waits' if len(waiting) == 1 else 'wait'} {those}."
