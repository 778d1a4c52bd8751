"""A training run as it progresses: a panel for each logged value, and a line for each rank.

It is redrawn several times a second while ranks run, so it draws few things. Its text never changes, because a notebook
keeps the text that it was given first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from ddp_lessons.record.colors import rank_color
from ddp_lessons.run.diagnosis.wording import count, ranks_named
from ddp_lessons.show.charts.chart import (
    ALARM,
    FAINT,
    INK,
    PAPER,
    SIZE,
    WIDTH,
    Chart,
    draw_rulers,
    drawn_in_house_style,
    mark_odd,
    new_figure,
    thinned,
)
from ddp_lessons.show.figures.palette import width_of

TEXT = "Training curves."
ALT = "Training curves: a panel for each logged value, a line for each rank."
WAITING = "No values yet. To log some, call tell(step=3, loss=0.25) in a rank."
PLACES = ("step", "epoch")  # values with these names are the x of the others
LEFT, GAP, RIGHT = 0.65, 0.7, 0.2  # inches
HEAD, PANEL, FOOT = 0.26, 1.75, 0.48  # of each row: its names, the panels, their x axis
MOST_PANELS, MOST_IN_A_ROW, FEW_POINTS = 9, 2, 40
MOST_POINTS, OF_ALL_CURVES, AT_LEAST = 140, 500, 40  # of one curve; a notebook stores every image that it shows
SMOOTHED_FROM = 100  # points of one rank; then its own line is pale, and the moving average is thick
HUGE = 1e290  # matplotlib's axes can't show more

Curve = tuple[str, Any, Any]  # the name of x (none: the points are counted), x and y


@drawn_in_house_style
def training(results: Any, title: str | None = None) -> Chart:
    """Draw every value that the ranks logged (`tell(step=3, loss=0.25)`), with a line for each rank.

    To draw it while they run, use `launch(..., live=show.training)`.

    Raises:
        TypeError: the argument isn't the results of a launch.
    """
    curves = _curves(_told(results))
    figure, axes = _draw(curves, title)
    return Chart(figure, axes, TEXT, ALT)


def _told(results: Any) -> Sequence[Sequence[Any]]:
    results = getattr(results, "results", results)
    told: Sequence[Sequence[Any]] | None = getattr(results, "told", None)
    if told is None:
        raise TypeError(f"training curves need the results of launch(), not a value of type {type(results).__name__}")
    return told


def _curves(told: Sequence[Sequence[Any]]) -> dict[str, dict[int, Curve]]:
    """Return, by the name of a value and by rank, the name of x and the points."""
    points: dict[str, dict[int, list[tuple[str, float, float]]]] = {}
    for rank, by_rank in enumerate(told):
        for one in by_rank:
            numbers = one.numbers
            place = next((name for name in PLACES if name in numbers), "")
            for name, number in numbers.items():
                if name not in PLACES:
                    mine = points.setdefault(name, {}).setdefault(rank, [])
                    mine.append((place, numbers.get(place, 0.0), number))
    return {name: {rank: _curve(mine) for rank, mine in sorted(ranks.items())} for name, ranks in points.items()}


def _curve(points: list[tuple[str, float, float]]) -> Curve:
    """Number the points if x has no name, changes its name, or goes back."""
    places, x, y = zip(*points, strict=True)
    across, up = np.array(x, dtype=float), np.array(y, dtype=float)
    up[np.abs(up) > HUGE] = np.inf
    if len(set(places)) == 1 and places[0] and np.isfinite(across).all() and (np.diff(across) >= 0).all():
        return places[0], across, up
    return "", np.arange(1.0, len(up) + 1), up


def _draw(curves: Mapping[str, Mapping[int, Curve]], title: str | None) -> tuple[Figure, list[Axes]]:
    names = list(curves)[:MOST_PANELS]
    across = min(max(len(names), 1), MOST_IN_A_ROW)
    rows = max(-(-len(names) // across), 1)
    above = 0.08 + 0.25 * bool(title) + 0.24
    height = above + rows * (HEAD + PANEL + FOOT)
    figure = new_figure(WIDTH, height, title)
    if not names:
        figure.text(0.5, 0.5, WAITING, ha="center", va="center", color=FAINT)
    is_smoothed = any(len(y) > SMOOTHED_FROM for by_rank in curves.values() for _, _, y in by_rank.values())
    notes = ["thick: moving average"] * is_smoothed
    left_out = len(curves) - len(names)
    notes += [f"{count(left_out, 'more value')} not shown"] * bool(left_out)
    told = sorted({rank for by_rank in curves.values() for rank in by_rank})
    _draw_key(figure, told, height - above + 0.12, notes)
    wide = (WIDTH - LEFT - RIGHT - (across - 1) * GAP) / across
    all_axes = []
    most = max(AT_LEAST, min(MOST_POINTS, OF_ALL_CURVES // max(sum(map(len, curves.values())), 1)))
    for index, name in enumerate(names):
        row, column = divmod(index, across)
        corner = LEFT + column * (wide + GAP), height - above - row * (HEAD + PANEL + FOOT) - HEAD - PANEL
        axes = figure.add_axes((corner[0] / WIDTH, corner[1] / height, wide / WIDTH, PANEL / height))
        _draw_panel(axes, name, curves[name], wide * 72, most)
        all_axes.append(axes)
    return figure, all_axes


def _draw_key(figure: Figure, ranks: Sequence[int], y: float, notes: Sequence[str]) -> None:
    """Draw the legend of all panels: the ranks with their colors and, at the right, the notes."""
    height = figure.get_figheight()
    widths = [0.36 + width_of(f"rank {rank}", SIZE) / 72 for rank in ranks]
    ends = np.cumsum(widths)
    room = WIDTH - LEFT - RIGHT - width_of("; ".join(notes), SIZE) / 72
    shown = len(ranks) if sum(widths) <= room else int((ends <= room - 1.3).sum())
    for rank, x in zip(ranks[:shown], LEFT + ends - widths, strict=False):
        sign = [x / WIDTH, (x + 0.15) / WIDTH], [(y + 0.02) / height] * 2
        figure.add_artist(Line2D(*sign, color=rank_color(rank), lw=2.5))
        figure.text((x + 0.2) / WIDTH, y / height, f"rank {rank}", va="center_baseline")
    told = "; ".join([f"and {count(len(ranks) - shown, 'rank')} more"] * (len(ranks) > shown) + [*notes])
    figure.text(1 - RIGHT / WIDTH, y / height, told, color=FAINT, ha="right", va="center_baseline")


def _draw_panel(axes: Axes, name: str, by_rank: Mapping[int, Curve], room: float, most_points: int) -> None:
    shown = {rank: (x, y) for rank, (_, x, y) in by_rank.items()}
    places = {place for place, _, _ in by_rank.values()}
    if len(places) > 1:  # some ranks logged a step and others none, so number the points of all
        shown = {rank: (np.arange(1.0, len(y) + 1), y) for rank, (_, y) in shown.items()}
    finite = np.concatenate([y[np.isfinite(y)] for _, y in shown.values()])
    _prepare(axes, finite, [x for x, _ in shown.values()], places.pop() if len(places) == 1 else "")
    for turn, (rank, (x, y)) in enumerate(reversed(shown.items())):  # rank 0 on top
        above = sum(other < rank and _is_equal(y, shown[other][1]) for other in shown)
        _draw_curve(axes, rank, x, y, 2 + 0.1 * turn, above, most_points)
    title: dict[str, Any] = {"transform": axes.transAxes, "va": "bottom"}
    head = name if _bold_width(name) < 0.7 * room else name[:20] + "…"
    axes.text(0, 1.03, head, weight="bold", **title)
    note, color = _note(shown)
    left = room - _bold_width(head) - 8
    if color == ALARM and width_of(note, SIZE) > left:
        note = "nan or inf"
    if width_of(note, SIZE) <= left:
        axes.text(1, 1.03, note, color=color, ha="right", **title)


def _bold_width(text: str) -> float:
    return 1.15 * width_of(text, SIZE)


def _prepare(axes: Axes, finite: Any, across: Sequence[Any], place: str) -> None:
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if low > 0 and high > 1000 * low:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.5, high * (high / low) ** 0.06)
        axes.yaxis.set_major_locator(LogLocator(numticks=7))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        margin = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
        axes.set_ylim(low - margin if low < 0 or low > margin else 0, high + margin)
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(_short))
    first, last = min(float(x[0]) for x in across), max(float(x[-1]) for x in across)
    margin = 0.03 * (last - first) or 0.5
    axes.set_xlim(first - margin, last + margin)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.0f}"))
    axes.set_xlabel(place or "values logged", labelpad=1)
    axes.tick_params(length=3)
    draw_rulers(axes)


def _short(number: float, _: object = None) -> str:
    """Shorten a number for a tick label: 0.25, 12,500, 1.02e6."""
    plain = f"{number:,.6g}"
    if len(plain) <= 7:
        return plain
    base, _, exponent = f"{number:.2e}".partition("e")
    return f"{float(base):g}e{int(exponent)}"


def _draw_curve(axes: Axes, rank: int, x: Any, y: Any, zorder: float, equal_above: int, most_points: int) -> None:
    is_odd = ~np.isfinite(y)
    kept = np.where(is_odd, np.nan, y)  # a gap
    style: dict[str, Any] = {"color": rank_color(rank), "ls": "-" if rank < 8 else (0, (4, 1.5)), "zorder": zorder}
    rim = min(1.4 * equal_above, 6.0)  # so that equal curves show below each other
    if len(y) > SMOOTHED_FROM:
        axes.plot(*thinned(x, kept, most_points), **style | {"lw": 0.8, "alpha": 0.45, "zorder": zorder - 1})
        axes.plot(*_smoothed(x, kept, most_points // 2), lw=1.6 + rim, **style)
    else:
        dots: dict[str, Any] = {"marker": "o", "ms": 3.5, "mec": PAPER, "mew": 0.4} if len(y) <= FEW_POINTS else {}
        axes.plot(x, kept, lw=1.4 + rim, **dots, **style)
    mark_odd(axes, x[is_odd], 0.97 - 0.05 * (rank % 8), rank_color(rank))


def _is_equal(one: Any, other: Any) -> bool:
    """Compare the curves up to the end of the shorter one."""
    length = min(len(one), len(other))
    return bool(np.array_equal(one[:length], other[:length], equal_nan=True))


def _smoothed(x: Any, y: Any, most_points: int) -> tuple[Any, Any]:
    """A moving average over about a twentieth of all points, at `most_points` places; nan stays nan."""
    half = max(len(y) // 40, 2)
    middles = np.unique(np.linspace(0, len(y) - 1, min(most_points, len(y))).astype(int))
    begin, end = np.maximum(middles - half, 0), np.minimum(middles + half + 1, len(y))
    sums, counts = (np.concatenate([[0.0], np.cumsum(part)]) for part in (np.nan_to_num(y), ~np.isnan(y)))
    means = (sums[end] - sums[begin]) / np.maximum(counts[end] - counts[begin], 1)
    return x[middles], np.where(np.isnan(y[middles]), np.nan, means)


def _note(shown: Mapping[int, tuple[Any, Any]]) -> tuple[str, str]:
    """The first nan or inf of any rank or, if only one rank logged values, its last value."""
    odd = {rank: float(x[~np.isfinite(y)][0]) for rank, (x, y) in shown.items() if not np.isfinite(y).all()}
    if odd:
        (rank, first), many = min(odd.items(), key=lambda one: one[1]), ranks_named(list(odd))
        what = "nan" if np.isnan(shown[rank][1]).any() else "inf"
        return f"{many}: {what} from {first:,.6g}", ALARM
    if len(shown) == 1:
        ((_, y),) = shown.values()
        return f"last {y[-1]:,.0f}" if abs(y[-1]) >= 1000 else f"last {y[-1]:.4g}", INK
    return "", FAINT
