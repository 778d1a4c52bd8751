"""How much faster more ranks are: what was measured, what would be ideal, and what this machine can do at all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.show.page.chart import Chart
from ddp_lessons.show.page.labels import Labels, Place
from ddp_lessons.show.page.lines import WIDTH, draw_cores, draw_key_above, height_above, new_axes, write_title
from ddp_lessons.show.page.picture import FAINT, INK, PAPER, drawn_in_house_style

LEFT, RIGHT, HIGH, FOOT = 0.95, 0.2, 2.9, 0.48  # inches
MANY_TIMES = 16  # from 1 to so many ranks both axes grow by factors
IDEAL, MEASURED, MODEL = "ideal", "measured", "model"
_AROUND = ((0, 11), (17, 9), (19, 0), (-17, 9), (-19, 0), (17, -9), (0, -11), (-17, -9))
Speeds = Mapping[int, float]


@drawn_in_house_style
def scaling(
    measured: Speeds,
    model: Speeds | None = None,
    cores: int | None = None,
    title: str | None = None,
) -> Chart:
    """Draw the throughput (images per second) of each number of ranks, with each point's fraction of the ideal.

    Args:
        measured: {ranks: images per second}.
        model: what a model predicts, likewise: a dashed line.
        cores: how many there are; beyond that, ranks share them.

    Raises:
        TypeError: one of them is no dict of ranks to numbers.
        ValueError: nothing was measured, or a number is not above 0.
    """
    speeds = {MEASURED: _checked("measured", measured)}
    if not speeds[MEASURED]:
        raise ValueError("there is nothing to draw: give at least one point, as in {1: 5000.0, 2: 9000.0}")
    if model:
        speeds[MODEL] = _checked("model", model)
    figure, axes = _draw(speeds, cores, title)
    return Chart(figure, axes, _text(speeds), _describe(speeds))


def _checked(argument: str, given: Any) -> dict[int, float]:
    wanted = f"{argument} is a dict of ranks to images per second, as in {{1: 5000.0, 2: 9000.0}}"
    if not isinstance(given, Mapping):
        raise TypeError(f"{wanted}, and this is of type {type(given).__name__}")
    for ranks, speed in given.items():
        if isinstance(ranks, bool) or not hasattr(ranks, "__index__"):
            raise TypeError(f"{wanted}, and {ranks!r} is no number of ranks")
        try:
            is_good = ranks > 0 and 0 < float(speed) < math.inf
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"{wanted}, and for {ranks} it has something of type {type(speed).__name__}") from None
        if not is_good:
            raise ValueError(f"{argument}: ranks and images per second are above 0, and this has {ranks}: {speed}")
    return {int(ranks): float(given[ranks]) for ranks in sorted(given)}


def _draw(speeds: Mapping[str, Mapping[int, float]], cores: int | None, title: str | None) -> tuple[Figure, Axes]:
    names = [IDEAL, *(name for name in speeds if name != MEASURED), f"{MEASURED} (% of the ideal)"]
    room = (WIDTH - LEFT - 0.1) * 72
    figure, axes = new_axes(LEFT, RIGHT, HIGH, height_above(names, room, title), FOOT)
    ranks = sorted({number for points in speeds.values() for number in points})
    smallest = min(speeds[MEASURED])
    one = speeds[MEASURED][smallest] / smallest  # images per second of a rank, had it no other
    _prepare(axes, ranks, one, max(max(points.values()) for points in speeds.values()))
    if cores is not None:
        draw_cores(axes, cores)
    across = np.array([ranks[0], ranks[-1]], dtype=float)
    axes.plot(across, one * across, color=FAINT, lw=1.2, ls=":", label=IDEAL, gid=IDEAL, zorder=1.5)
    if MODEL in speeds:
        style: dict[str, Any] = {"color": RANK_COLORS[1], "lw": 1.6, "ls": (0, (4, 2)), "zorder": 2}
        axes.plot(*_points(speeds[MODEL]), label=MODEL, gid=MODEL, **style)
    style = {"color": RANK_COLORS[0], "ms": 6, "mec": PAPER, "mew": 0.6, "lw": 1.6, "zorder": 4}
    axes.plot(*_points(speeds[MEASURED]), "o-", label=names[-1], gid=MEASURED, **style)
    draw_key_above(axes, room)
    write_title(figure, title)
    _write_efficiency(axes, speeds, one, cores)
    return figure, axes


def _points(points: Mapping[int, float]) -> tuple[list[int], list[float]]:
    return list(points), list(points.values())


def _prepare(axes: Axes, ranks: list[int], one: float, fastest: float) -> None:
    """Limits and ticks; both axes begin at 0, or both grow by factors."""
    top = max(fastest, one * ranks[-1])
    thousands = FuncFormatter(lambda number, _: f"{number:,.6g}")
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
    axes.yaxis.set_major_formatter(thousands)
    axes.set_xlabel("ranks", labelpad=2)
    axes.set_ylabel("images per second")


def _write_efficiency(axes: Axes, speeds: Mapping[str, Mapping[int, float]], one: float, cores: int | None) -> None:
    """Below what was measured; on no point, and on a line only if need be."""
    labels = Labels(axes)
    for points in speeds.values():
        for ranks, speed in points.items():
            labels.keep_free(ranks, speed, 3.5)
    for line in axes.lines:
        if line.get_gid() in (IDEAL, MODEL, MEASURED):
            _keep_free(labels, axes, line.get_xydata())
    shifts = [(round(far * across), round(far * up)) for far in (1.0, 1.5, 2.2) for across, up in _AROUND]
    for ranks, speed in speeds[MEASURED].items():
        places = [Place(ranks, speed, (x, -y), color=RANK_COLORS[0]) for x, y in shifts]
        labels.put([f"{100 * speed / (one * ranks):.0f} %"], places, 8, f"efficiency {MEASURED} {ranks}")
    if cores is not None and axes.get_xlim()[0] < cores < axes.get_xlim()[1]:
        labels.name_cores(cores, axes.get_ylim()[0])


def _keep_free(labels: Labels, axes: Axes, corners: Any) -> None:
    """Keep labels away from the line between these points."""
    to_data = axes.transData.inverted()
    for a, b in itertools.pairwise(axes.transData.transform(corners)):
        for part in np.linspace(0, 1, 100):
            x, y = to_data.transform(a + part * (b - a))
            labels.keep_free(float(x), float(y), 1.0)


def _text(speeds: Mapping[str, Mapping[int, float]]) -> str:
    lines = [f"  {name}: {', '.join(map(str, points))}" for name, points in speeds.items()]
    return "\n".join(["Throughput (images per second) by number of ranks, compared with the ideal line:", *lines])


def _describe(speeds: Mapping[str, Mapping[int, float]]) -> str:
    *front, last = [*speeds, "an ideal line"]
    counts = ", ".join(map(str, speeds[MEASURED]))
    return f"Images per second of {counts} ranks: {', '.join(front)} and {last}; each point with its part of the ideal."
