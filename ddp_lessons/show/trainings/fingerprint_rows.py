"""Are the models of all ranks still the same? A row per rank, a column per step, a color for each state.

A color alone would not do: the first digits stand in the cell, and what differs from the others has a frame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.record.fingerprints import fingerprints_of
from ddp_lessons.run.diagnosis.wording import ranks_named
from ddp_lessons.show.figures.drawing import COMMON, Box, Drawing, Line, Shape, color_of_rank, width_of
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.layouts import figure_of, fits, label, notes_at
from ddp_lessons.show.page.picture import count

LEFT, HEAD = 58.0, 20.0  # pixels
ROW, WIDE, NARROW = 26.0, 60.0, 8.0
MOST_COLUMNS_OF_TEXT = 16
# Paler than a rank's own color, which means that rank in other pictures: so its ink is that of the page.
COLORS = [(color_of_rank(rank), opacity) for opacity in (0.5, 0.3, 0.15) for rank in range(len(RANK_COLORS))]

Color = tuple[str, float]
Column = Sequence["str | None"]  # the fingerprints of one step, by rank


def fingerprints(results: Any, title: str | None = None) -> Figure:
    """Draw the fingerprints of every rank's model, step by step: equal colors are equal models.

    `results[rank]` is the list of a rank's fingerprints, one per step, counted from 0.

    Raises:
        TypeError: these are not lists of fingerprints.
    """
    by_rank = fingerprints_of(results)
    longest = max(map(len, by_rank))
    columns = [[one[step] if step < len(one) else None for one in by_rank] for step in range(longest)]
    colors = _colors(columns)
    return figure_of(lambda width: _draw(columns, colors, width), title, _text(columns), _describe(columns))


def odd_ones(column: Column) -> list[int]:
    """The ranks that differ from most at this step; of equally many, those with the lowest rank are the most."""
    known = [one for one in column if one is not None]
    most = max(known, key=Counter(known).__getitem__)
    return [rank for rank, one in enumerate(column) if one not in (None, most)]


def _draw(columns: Sequence[Column], colors: dict[str, Color], width: float) -> Drawing:
    room = width - LEFT - 8
    cell = max(NARROW, min(WIDE, room // len(columns)))
    shown = columns[: int(room / cell)]
    bottom = HEAD + len(columns[0]) * ROW
    shapes: list[Shape] = [label(4, HEAD + (rank + 0.5) * ROW, f"rank {rank}") for rank in range(len(columns[0]))]
    shapes += _name_steps(len(shown), cell)
    for step, column in enumerate(shown):
        odd = odd_ones(column)
        for rank, digits in enumerate(column):
            if digits is not None:
                corner = LEFT + step * cell, HEAD + rank * ROW
                shapes += _cell(corner, cell, digits, colors[digits], rank in odd)
    notes = ["framed: differs from the other ranks at that step"] * any(map(odd_ones, shown))
    notes += [f"{count(len(columns) - len(shown), 'further step')} left out"] * (len(shown) < len(columns))
    words, bottom = notes_at(bottom + 3, notes, width)
    return Drawing(width, bottom + 3, [*shapes, *words])


def _name_steps(steps: int, cell: float) -> Iterator[Shape]:
    """As many numbers as there is room for."""
    every = next(every for every in (1, 2, 5, 10, 20, 50, 100) if every * cell > width_of(str(steps), COMMON) + 6)
    yield label(4, HEAD / 2, "step", "faint")
    for step in range(0, steps, every):
        yield label(LEFT + (step + 0.5) * cell, HEAD / 2, str(step), anchor="middle")


def _cell(corner: tuple[float, float], cell: float, digits: str, color: Color, is_odd: bool) -> Iterator[Shape]:
    (x, y), gap = corner, 0.5 if cell < 14 else 1.5
    wide, high, (fill, opacity) = cell - 2 * gap, ROW - 2 * gap, color
    yield Box(x + gap, y + gap, wide, high, fill, opacity=opacity)
    if is_odd:
        thick = min(2.0, cell / 4)
        left, top, right, bottom = (x + gap + thick / 2, y + 2.5, x + cell - gap - thick / 2, y + ROW - 2.5)
        yield Line([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], "ink", thick)
    sign = "≠ " * is_odd
    length = next((length for length in (4, 2, 0) if fits(sign + "0" * length, wide - 2)), 0)
    if length or (is_odd and fits("≠", wide - 2)):
        yield label(x + cell / 2, y + ROW / 2, f"{sign}{digits[:length]}".strip(), anchor="middle")


def _colors(columns: Iterable[Column]) -> dict[str, Color]:
    """The hash chooses a color; if another state of the same step has it, the next one that is free."""
    chosen: dict[str, Color] = {}
    for column in columns:
        for digits in column:
            if digits is None or digits in chosen:
                continue
            taken = {chosen[other] for other in column if other is not None and other in chosen}
            first = int(digits, 16) % len(COLORS)
            in_turn = COLORS[first:] + COLORS[:first]
            chosen[digits] = next((color for color in in_turn if color not in taken), in_turn[0])
    return chosen


def _text(columns: Sequence[Column]) -> str:
    """A line for each rank, the first digits for each step, and a star behind what differs."""
    shown = columns[:MOST_COLUMNS_OF_TEXT]
    odd = [odd_ones(column) for column in shown]
    head = " ".join(str(step).ljust(5) for step in range(len(shown)))
    lines = [_describe(columns), "", f"step   | {head}".rstrip()]
    for rank in range(len(columns[0])):
        cells = [f"{(one[rank] or '')[:4]}{'*' * (rank in ranks)}" for one, ranks in zip(shown, odd, strict=True)]
        lines.append(f"rank {rank} | {' '.join(one.ljust(5) for one in cells)}".rstrip())
    if any(odd):
        lines.append("* differs from the other ranks at that step")
    if len(shown) < len(columns):
        lines.append(f"... {count(len(columns) - len(shown), 'further step')} left out")
    return "\n".join(lines)


def _describe(columns: Sequence[Column]) -> str:
    ranks, apart = len(columns[0]), [step for step, column in enumerate(columns) if odd_ones(column)]
    what = f"Fingerprints of {count(ranks, 'rank')} at {count(len(columns), 'step')}"
    lengths = [sum(column[rank] is not None for column in columns) for rank in range(ranks)]
    short = [rank for rank in range(ranks) if lengths[rank] < len(columns)]
    ends = f" {ranks_named(short).capitalize()} stopped before the last step." if short else ""
    if not apart:
        return f"{what}: equal at every step.{ends}"
    first = f"first at step {apart[0]}, where {_who_differs(columns[apart[0]])}"
    return f"{what}: not equal at {len(apart)} of them, {first}.{ends}"


def _who_differs(column: Column) -> str:
    odd, known = odd_ones(column), [rank for rank, one in enumerate(column) if one is not None]
    if len(known) > 2 and len(set(column) - {None}) == len(known):
        return "no two ranks are equal"
    rest = [rank for rank in known if rank not in odd]
    return f"{ranks_named(odd)} {'differs' if len(odd) == 1 else 'differ'} from {ranks_named(rest)}"
