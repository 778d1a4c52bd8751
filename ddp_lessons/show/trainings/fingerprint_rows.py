"""Are the models of all ranks still the same? A row for each rank, a column for each step, and a color for each state.

Not only colors show this: each cell contains the first digits, and ranks that differ have a frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.record.results import NO_ANSWER, NO_VALUE
from ddp_lessons.run.diagnosis.wording import count, ranks_named
from ddp_lessons.show.figures.drawing import FONT_SIZE, Box, Drawing, Line, Shape, Words
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.layouts import figure_of, fits, notes_at
from ddp_lessons.show.figures.palette import color_of_rank, width_of

LEFT, HEAD = 58.0, 20.0  # pixels
ROW, WIDE, NARROW = 26.0, 60.0, 8.0
MOST_COLUMNS_OF_TEXT = 16
# Paler than a rank's own color, which stands for that rank in other figures, so the text has the page's color.
COLORS = [(color_of_rank(rank), opacity) for opacity in (0.5, 0.3, 0.15) for rank in range(len(RANK_COLORS))]

Color = tuple[str, float]
Column = Sequence[str]  # the fingerprints of one step, by rank


def fingerprints(results: Any) -> Figure:
    """Draw the fingerprints of every rank's model, step by step; equal models have equal colors.

    `results[rank]` is the list of a rank's fingerprints, one per step from 0. Steps that a rank didn't reach are left
    out.

    Raises:
        TypeError: the results aren't lists of fingerprints.
    """
    columns = [*zip(*_fingerprints_of(results), strict=False)]
    colors = _colors(columns)
    return figure_of(lambda width: _draw(columns, colors, width), _text(columns), _describe(columns))


def _colors(columns: Sequence[Column]) -> dict[str, Color]:
    """The hash chooses a color, or the next free one if another state of the same step has it."""
    chosen: dict[str, Color] = {}
    for column in columns:
        for digits in column:
            taken = [chosen.get(other) for other in column]
            first = int(digits, 16) % len(COLORS)
            chosen.setdefault(digits, min(COLORS[first:] + COLORS[:first], key=taken.count))
    return chosen


def _odd_ones(column: Column) -> list[int]:
    """The ranks that differ from the majority at this step; in a tie, the side of the lowest rank is the majority."""
    most = max(column, key=column.count)
    return [rank for rank, one in enumerate(column) if one != most]


def _draw(columns: Sequence[Column], colors: dict[str, Color], width: float) -> Drawing:
    room = width - LEFT - 8
    cell = max(NARROW, min(WIDE, room // len(columns)))
    shown = columns[: int(room / cell)]
    shapes: list[Shape] = [Words(4, HEAD + (rank + 0.5) * ROW, f"rank {rank}") for rank in range(len(columns[0]))]
    shapes.append(Words(4, HEAD / 2, "step", "faint"))
    every = next(every for every in (1, 2, 5, 10, 20) if every * cell > width_of(str(len(shown)), FONT_SIZE) + 6)
    for step, column in enumerate(shown):
        x, odd = LEFT + step * cell, _odd_ones(column)
        if step % every == 0:
            shapes.append(Words(x + cell / 2, HEAD / 2, str(step), anchor="middle"))
        for rank, digits in enumerate(column):
            shapes += _cell(x, HEAD + rank * ROW, cell, digits, colors[digits], rank in odd)
    notes = ["framed: differs from the other ranks at that step"] * any(map(_odd_ones, shown))
    notes += [f"{count(len(columns) - len(shown), 'more step')} not shown"] * (len(shown) < len(columns))
    words, bottom = notes_at(HEAD + len(columns[0]) * ROW + 3, notes, width)
    return Drawing(width, bottom + 3, [*shapes, *words])


def _cell(x: float, y: float, cell: float, digits: str, color: Color, is_odd: bool) -> Iterator[Shape]:
    gap = 0.5 if cell < 14 else 1.5
    wide, (fill, opacity) = cell - 2 * gap, color
    yield Box(x + gap, y + gap, wide, ROW - 2 * gap, fill, opacity=opacity)
    if is_odd:
        thick = min(2.0, cell / 4)
        left, top, right, bottom = (x + gap + thick / 2, y + 2.5, x + cell - gap - thick / 2, y + ROW - 2.5)
        yield Line([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], "ink", thick)
    words = [f"{'≠ ' * is_odd}{digits[:length]}".strip() for length in (4, 2, 0)]
    for fitting in [one for one in words if one and fits(one, wide - 2)][:1]:
        yield Words(x + cell / 2, y + ROW / 2, fitting, anchor="middle")


def _text(columns: Sequence[Column]) -> str:
    """A line for each rank, with the first digits of each step, and a star after those that differ."""
    shown = columns[:MOST_COLUMNS_OF_TEXT]
    odd = [_odd_ones(column) for column in shown]
    rows = [("step  ", [str(step) for step in range(len(shown))])]
    for rank in range(len(columns[0])):
        cells = [f"{one[rank][:4]}{'*' * (rank in ranks)}" for one, ranks in zip(shown, odd, strict=True)]
        rows.append((f"rank {rank}", cells))
    lines = [f"{name} | {' '.join(cell.ljust(5) for cell in cells)}".rstrip() for name, cells in rows]
    lines += ["* differs from the other ranks at that step"] * any(odd)
    lines += [f"... {count(len(columns) - len(shown), 'more step')} not shown"] * (len(shown) < len(columns))
    return "\n".join([_describe(columns), "", *lines])


def _describe(columns: Sequence[Column]) -> str:
    ranks, apart = len(columns[0]), [step for step, column in enumerate(columns) if _odd_ones(column)]
    what = f"Fingerprints of {count(ranks, 'rank')} at {count(len(columns), 'step')}"
    if not apart:
        return f"{what}: equal at every step."
    column = columns[apart[0]]
    odd = _odd_ones(column)
    rest = [rank for rank in range(ranks) if rank not in odd]
    who = f"{ranks_named(odd)} {'differs' if len(odd) == 1 else 'differ'} from {ranks_named(rest)}"
    if ranks > 2 and len(set(column)) == ranks:
        who = "no two ranks are equal"
    return f"{what}: they differ at {len(apart)} of them, first at step {apart[0]}, where {who}."


def _fingerprints_of(results: Any) -> list[list[str]]:
    """The fingerprints of each rank, step by step, from results or from an exception with results.

    Raises:
        TypeError: the results aren't lists of fingerprints.
    """
    results = getattr(results, "results", results)
    if isinstance(results, str) or not isinstance(results, Sequence) or not results:
        raise TypeError(_refusal(f"this is {_in_short(results)}"))
    for rank, one in enumerate(results):
        if one is NO_VALUE:
            raise TypeError(_refusal(f"rank {rank} {NO_ANSWER}"))
        if isinstance(one, str) or not isinstance(one, Sequence) or not one:
            raise TypeError(_refusal(f"rank {rank} returned {_in_short(one)}"))
        for digits in one:
            if not isinstance(digits, str) or not digits or set(digits) - set("0123456789abcdef"):
                raise TypeError(_refusal(f"rank {rank}'s list contains {_in_short(digits)}"))
    return [list(one) for one in results]


def _refusal(found: str) -> str:
    return f"every rank must return a list with one fingerprint(model) for each step, but {found}"


def _in_short(value: object) -> str:
    plain = value is None or isinstance(value, bool | int | float | str | list | tuple)
    return repr(value) if plain and len(repr(value)) <= 40 else f"a value of type {type(value).__name__}"
