"""Are the models of all ranks still the same? A row per rank, a column per step, a colour for each state.

A colour alone would not do: the first digits stand in the cell, and what differs from the others has a frame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.record.fingerprints import fingerprints_of
from ddp_lessons.run.diagnosis.wording import ranks_named
from ddp_lessons.show.page.picture import (
    FAINT,
    INK,
    Picture,
    count,
    drawn_in_house_style,
    ink_on,
    new_figure,
    text_size,
)

LEFT, HEAD, FOOT, WIDEST = 62.0, 20.0, 22.0, 620.0  # points
ROW, WIDE, NARROW = 24.0, 52.0, 3.0
MOST_COLUMNS_OF_TEXT = 16
# Lighter than a rank's own colour, which means that rank in other pictures; in steps that every picture's palette has.
COLORS = [
    to_hex(tuple(part + (1 - part) * lighter / 12 for part in to_rgb(color)))  # type: ignore[arg-type]
    for lighter in (2, 6, 9)
    for color in RANK_COLORS
]

Column = Sequence["str | None"]  # the fingerprints of one step, by rank


@drawn_in_house_style
def fingerprints(results: Any, title: str | None = None) -> Picture:
    """Draw the fingerprints of every rank's model, step by step: equal colours are equal models.

    `results[rank]` is the list of a rank's fingerprints, one per step, counted from 0.

    Raises:
        TypeError: these are not lists of fingerprints.
    """
    by_rank = fingerprints_of(results)
    longest = max(map(len, by_rank))
    columns = [[one[step] if step < len(one) else None for one in by_rank] for step in range(longest)]
    figure, axes = _draw(columns, title)
    return Picture(figure, axes, _text(columns), _describe(columns))


def odd_ones(column: Column) -> list[int]:
    """The ranks that differ from most at this step; of equally many, those with the lowest rank are the most."""
    known = [one for one in column if one is not None]
    most = max(known, key=Counter(known).__getitem__)
    return [rank for rank, one in enumerate(column) if one not in (None, most)]


def _draw(columns: Sequence[Column], title: str | None) -> tuple[Figure, Axes]:
    """The axes count in points."""
    ranks, cell = len(columns[0]), max(NARROW, min(WIDE, WIDEST / len(columns)))
    shown = columns[: round(WIDEST / NARROW)]
    top = HEAD + (18 if title else 0)
    width = max(LEFT + len(shown) * cell + 8, LEFT + 230, text_size(title or "", 10)[0] * 1.15 + 12)  # bold is wider
    height = top + ranks * ROW + FOOT
    figure = new_figure(width / 72, height / 72)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    if title:
        axes.text(4, 11, title, fontsize=10, weight="bold", va="center", gid="title", parse_math=False)
    for rank in range(ranks):
        axes.text(4, top + (rank + 0.5) * ROW, f"rank {rank}", fontsize=9, va="center_baseline", gid=f"name {rank}")
    _name_steps(axes, len(shown), cell, top)
    colors = _colors(columns)
    for step, column in enumerate(shown):
        odd = odd_ones(column)
        for rank, digits in enumerate(column):
            if digits is not None:
                corner = LEFT + step * cell, top + rank * ROW
                _draw_cell(axes, corner, cell, digits, colors[digits], rank in odd, f"{rank} {step}")
    notes = ["framed: differs from the other ranks at that step"] * any(map(odd_ones, shown))
    notes += [f"{count(len(columns) - len(shown), 'further step')} left out"] * (len(shown) < len(columns))
    axes.text(LEFT, height - FOOT / 2, "; ".join(notes), fontsize=7.5, color=FAINT, va="center", gid="key")
    return figure, axes


def _name_steps(axes: Axes, steps: int, cell: float, top: float) -> None:
    """As many numbers as there is room for."""
    every = next(every for every in (1, 2, 5, 10, 20, 50, 100) if every * cell > text_size(str(steps), 8)[0] + 6)
    axes.text(4, top - 8, "step", fontsize=9, color=FAINT, va="center_baseline")
    for step in range(0, steps, every):
        x = LEFT + (step + 0.5) * cell
        axes.text(x, top - 8, str(step), fontsize=8, ha="center", va="center_baseline", gid=f"step {step}")


def _draw_cell(
    axes: Axes, corner: tuple[float, float], cell: float, digits: str, color: str, is_odd: bool, gid: str
) -> None:
    gap = 0.5 if cell < 12 else 1.5
    frame: dict[str, Any] = {"edgecolor": INK, "lw": min(2.0, cell / 4)} if is_odd else {"lw": 0}
    inset = gap + frame["lw"] / 2
    x, y = corner[0] + inset, corner[1] + inset
    box = Rectangle((x, y), cell - 2 * inset, ROW - 2 * inset, facecolor=color, **frame)
    box.set_gid(f"{'differs' if is_odd else 'state'} {gid}")
    axes.add_patch(box)
    words = [f"{sign}{digits[:length]}" for sign in ("≠ " * is_odd, "") for length in (4, 2)] + ["≠" * is_odd]
    fitting = next((word for word in words if text_size(word, 8)[0] + 4 + 2 * inset <= cell), "")
    if fitting:
        middle = corner[0] + cell / 2, corner[1] + ROW / 2
        style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "parse_math": False, "fontsize": 8}
        axes.text(*middle, fitting, color=ink_on(color), gid=f"digits {gid}", **style)


def _colors(columns: Iterable[Column]) -> dict[str, str]:
    """The hash chooses a colour; if another state of the same step has it, the next one that is free."""
    chosen: dict[str, str] = {}
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
