"""How much faster training is with more ranks: as measured, as a model predicts, and ideally."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.transforms import Bbox

from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.show.charts.chart import (
    BAND,
    FAINT,
    INK,
    PAPER,
    SIZE,
    Chart,
    draw_key,
    drawn_in_house_style,
    new_axes,
)
from ddp_lessons.show.figures.palette import width_of

LEFT, RIGHT, HIGH = 0.95, 0.2, 3.0  # inches
MANY_TIMES = 16  # if the ranks differ by this factor, both axes are logarithmic
IDEAL, MEASURED, MODEL = "ideal", "measured", "model"
GAP = 1.5  # points around a label
_AROUND = ((0, 11), (17, 9), (19, 0), (-17, 9), (-19, 0), (17, -9), (0, -11), (-17, -9))
SHIFTS = [(far * across, far * up) for far in (1.0, 1.5, 2.2) for across, up in _AROUND]  # of a label above its point
Speeds = Mapping[int, float]


@drawn_in_house_style
def scaling(measured: Speeds, model: Speeds | None = None, cores: int | None = None, title: str | None = None) -> Chart:
    """Plot the throughput (images per second) by the number of ranks, with each point as a percentage of the ideal.

    Args:
        measured: {ranks: images per second}.
        model: what a model predicts, in the same form; drawn as a dashed line.
        cores: how many cores there are; with more ranks, ranks share them.

    Raises:
        TypeError: one of them isn't a dict of ranks to numbers.
        ValueError: nothing was measured, or a number is not above 0.
    """
    speeds = {MEASURED: _checked("measured", measured)}
    if not speeds[MEASURED]:
        raise ValueError("nothing to draw: pass at least one point, such as {1: 5000.0, 2: 9000.0}")
    if model:
        speeds[MODEL] = _checked("model", model)
    key = f"{MEASURED} (% of ideal)"
    figure, axes = new_axes(LEFT, RIGHT, HIGH, [IDEAL, *[MODEL] * bool(model), key], title)
    ranks = sorted({number for points in speeds.values() for number in points})
    smallest = min(speeds[MEASURED])
    one = speeds[MEASURED][smallest] / smallest  # images per second of one rank on its own
    _prepare(axes, ranks, one, max(max(points.values()) for points in speeds.values()))
    draw_speeds(axes, key, speeds[MEASURED], speeds.get(MODEL, {}), one, cores)
    return Chart(figure, axes, _text(speeds), _describe(speeds))


def _checked(argument: str, given: Any) -> dict[int, float]:
    wanted = f"{argument} must be a dict from ranks to images per second, such as {{1: 5000.0, 2: 9000.0}}"
    if not isinstance(given, Mapping):
        raise TypeError(f"{wanted}, but this is of type {type(given).__name__}")
    for ranks, speed in given.items():
        if isinstance(ranks, bool) or not hasattr(ranks, "__index__"):
            raise TypeError(f"{wanted}, but {ranks!r} is not a number of ranks")
        try:
            is_good = ranks > 0 and 0 < float(speed) < math.inf
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"{wanted}, but its value for {ranks} is of type {type(speed).__name__}") from None
        if not is_good:
            raise ValueError(f"{argument}: ranks and images per second must be above 0, not {ranks}: {speed}")
    return {int(ranks): float(given[ranks]) for ranks in sorted(given)}


def _prepare(axes: Axes, ranks: list[int], one: float, fastest: float) -> None:
    """Set the limits and ticks; both axes start at 0, or both are logarithmic."""
    top = max(fastest, one * ranks[-1])
    if ranks[-1] >= MANY_TIMES * ranks[0]:
        axes.set(xscale="log", yscale="log", xlim=(ranks[0] / 1.25, ranks[-1] * 1.35), ylim=(one / 1.8, top * 1.6))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if top / one < 100 else (1,), numticks=10))
        axes.yaxis.set_minor_locator(NullLocator())
        ticks = ranks if len(ranks) <= 10 else [number for number in ranks if math.log2(number).is_integer()]
    else:
        margin = 0.14 * max(ranks[-1] - ranks[0], 1)
        axes.set(xlim=(max(ranks[0] - margin, 0), ranks[-1] + margin), ylim=(0, top * 1.1))
        axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
        ticks = ranks if len(ranks) <= 16 else ranks[:: -(-len(ranks) // 16)]
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [str(number) for number in ticks], color=INK)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.6g}"))
    axes.set_ylabel("images per second")


def draw_speeds(
    axes: Axes, key: str, measured: Speeds, model: Speeds, one: float, cores: int | None, parts: Sequence[int] = ()
) -> None:
    """Draw measured points over the model and the ideal line; label them, and the model at `parts`, with percentages.

    Args:
        key: the name of the measured points in the legend.
        one: the speed of one rank on the ideal line.
    """
    axes.set_xlabel("ranks", labelpad=2)
    ends = [min({**measured, **model}), max({**measured, **model})]
    axes.plot(ends, [one * end for end in ends], color=FAINT, lw=1.2, ls=":", label=IDEAL, zorder=1.5)
    if model:
        style: dict[str, Any] = {"color": RANK_COLORS[1], "lw": 1.6, "ls": (0, (4, 2)), "zorder": 2}
        axes.plot(list(model), list(model.values()), label=MODEL, **style)
    if measured:
        style = {"color": RANK_COLORS[0], "ms": 6, "mec": PAPER, "mew": 0.6, "lw": 1.6, "zorder": 4}
        axes.plot(list(measured), list(measured.values()), "o-", label=key, **style)
    draw_key(axes)
    labels = _Labels(axes)
    shown = [(RANK_COLORS[0], -1, measured), (RANK_COLORS[1], 1, {ranks: model[ranks] for ranks in parts})]
    for color, side, points in shown:
        for ranks, speed in points.items():
            shifts = [(across, side * up) for across, up in SHIFTS]
            labels.put(f"{100 * speed / (one * ranks):.0f}%", ranks, speed, shifts, color)
    left, right = axes.get_xlim()
    if cores is not None and left < cores < right:  # the background is darker where ranks have to share cores
        axes.axvspan(cores, right, color=BAND, lw=0, zorder=0)
        axes.axvline(cores, color=FAINT, lw=0.9, ls="--", zorder=0.5)
        told, low = f"more ranks than cores ({cores})", axes.get_ylim()[0]
        for side, align in ((5, "left"), (-5, "right")):
            if labels.put(told, cores, low, [(side, up) for up in range(8, int(72 * HIGH), 6)], FAINT, align):
                break


class _Labels:
    """Labels that cover no curve and no other label; a label without such a place is left out."""

    def __init__(self, axes: Axes) -> None:
        self._axes, self._taken = axes, list[Bbox]()
        self._curves = [line.get_transform().transform_path(line.get_path()) for line in axes.lines]

    def put(
        self, text: str, x: float, y: float, shifts: Iterable[tuple[float, float]], color: str, align: str = "center"
    ) -> bool:
        """Put a label at the first free offset from this point of the axes, and return whether there was one."""
        pixels, page = self._axes.figure.dpi / 72, self._axes.bbox
        wide, high = width_of(text, SIZE) + 2 * GAP, SIZE + GAP
        to_left = wide * {"left": 0.0, "center": 0.5, "right": 1.0}[align]
        middle = self._axes.transData.transform((x, y))
        for across, up in shifts:
            left, low = middle + pixels * np.array((across - to_left, up - high / 2))
            box = Bbox.from_bounds(left, low, pixels * wide, pixels * high)
            is_inside = page.fully_contains(*box.min) and page.fully_contains(*box.max)
            if is_inside and not self._covers_anything(box):
                self._taken.append(box)
                style: dict[str, Any] = {"ha": align, "va": "center_baseline", "color": color, "zorder": 10}
                label = self._axes.annotate(text, (x, y), (across, up), textcoords="offset points", **style)
                label.set_bbox({"boxstyle": "round,pad=0.1", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.85})
                return True
        return False

    def _covers_anything(self, box: Bbox) -> bool:
        is_on_curve = any(curve.intersects_bbox(box, filled=False) for curve in self._curves)
        return is_on_curve or any(box.overlaps(other) for other in self._taken)


def _text(speeds: Mapping[str, Speeds]) -> str:
    lines = [f"  {name}: {', '.join(map(str, points))}" for name, points in speeds.items()]
    return "\n".join(["Throughput (images per second) by number of ranks, compared with the ideal line:", *lines])


def _describe(speeds: Mapping[str, Speeds]) -> str:
    *front, last = [*speeds, "the ideal line"]
    counts = ", ".join(map(str, speeds[MEASURED]))
    return f"Images per second with {counts} ranks: {', '.join(front)} and {last}; each point in % of ideal."
