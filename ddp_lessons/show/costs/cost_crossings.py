"""What a model of costs says, by size and by ranks, with its four numbers as sliders; what was measured, as points.

The axes do not hang on the choice: when it changes, only the lines move.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Slider
from ddp_lessons.show.controls.slider_scales import by_factors, network_sliders
from ddp_lessons.show.costs.cost_curves import MARKERS, Points
from ddp_lessons.show.page.chart import Chart
from ddp_lessons.show.page.lines import WIDTH, draw_rulers
from ddp_lessons.show.page.picture import (
    FAINT,
    INK,
    PAPER,
    drawn_in_house_style,
    new_figure,
    show_bytes,
    show_network,
    show_seconds,
    text_size,
)

Formula = Callable[[int, float, float, float], float]  # ranks, bytes, latency and bytes per second to seconds
SIZES, RANKS = (1e3, 1e8), (2, 1024)  # from, to
SOME_RANKS = (2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024)
HEIGHT, LEFT, GAP, RIGHT, HEAD, FOOT = 3.3, 0.66, 0.44, 0.18, 0.42, 0.3  # inches
KEY_ROW, SIGN = 0.21, 0.5
MOST_STRETCHES = 4


@dataclass(frozen=True)
class Setting:
    """For how many ranks, how many bytes and which cables."""

    ranks: int
    size: float
    latency: float
    bandwidth: float

    def seconds(self, formula: Formula) -> float:
        return float(formula(self.ranks, self.size, self.latency, self.bandwidth))

    def __str__(self) -> str:
        return f"{self.ranks} ranks, {show_bytes(self.size)}, {show_network(self.latency, self.bandwidth)}"


def at_size(setting: Setting, size: float) -> Setting:
    return replace(setting, size=size)


def at_ranks(setting: Setting, ranks: float) -> Setting:
    return replace(setting, ranks=int(ranks))


@dataclass(frozen=True)
class Study:
    """The formulas by name; points by the same names, with the setting in which they were measured."""

    formulas: Mapping[str, Formula]
    by_bytes: Mapping[str, Points]  # (bytes, seconds), all with the setting's ranks
    by_ranks: Mapping[str, Points]  # (ranks, seconds), all with the setting's size
    setting: Setting

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([*self.formulas, *self.by_bytes, *self.by_ranks]))

    def fastest(self, now: Setting) -> str:
        """One name, or several that are as fast as each other."""
        seconds = {name: now.seconds(formula) for name, formula in self.formulas.items()}
        limit = min(seconds.values()) * (1 + 1e-9)
        return " and ".join(name for name, time in seconds.items() if time <= limit)

    def limits(self) -> tuple[float, float]:
        """Of the seconds, in every picture: room for the points, for the first lines, and for faster ones."""
        first = [at_size(self.setting, size).seconds(formula) for formula in self.formulas.values() for size in SIZES]
        points = itertools.chain(*self.by_bytes.values(), *self.by_ranks.values())
        times = [time for time in (*first, *(time for _, time in points)) if time > 0]
        return 10.0 ** math.floor(math.log10(min(times) / 30)), 10.0 ** math.ceil(math.log10(max(times)))


def explore_cost(
    formulas: Mapping[str, Formula],
    by_bytes: Mapping[str, Points] | None = None,
    by_ranks: Mapping[str, Points] | None = None,
    *,
    world_size: int = 4,
    size: float = 2e6,
    latency: float = 0.002,
    bandwidth: float = 100e6,
) -> Explorer[Chart]:
    """Turn the ranks, the bytes, the latency and the bandwidth of a cost model, and see its lines move.

    Args:
        formulas: by name, functions of the ranks, the bytes, the latency in seconds and the bytes per second.
        by_bytes: measured points by the same names, (bytes, seconds), all with `world_size` ranks.
        by_ranks: measured points, (ranks, seconds), all with `size` bytes.

    Raises:
        ValueError: there is no formula, or one of the numbers is out of bounds.
    """
    first = Setting(world_size, size, latency, bandwidth)
    _check(formulas, first)
    study = Study(dict(formulas), dict(by_bytes or {}), dict(by_ranks or {}), first)

    def draw(ranks: int, size: float, latency: float, bandwidth: float) -> Chart:
        now = Setting(ranks, size, latency, bandwidth)
        return cost_crossings(study, now, tells_measured=now != first)  # what is stored is the same in every run

    controls = {
        "ranks": Slider("ranks", sorted({*SOME_RANKS, world_size}), world_size),
        "size": Slider("bytes", by_factors(*SIZES, show_bytes, size), size),
        **network_sliders(latency, bandwidth),
    }
    return Explorer(draw, title="What an all-reduce costs, by the model", controls=controls)


def _check(formulas: Mapping[str, Formula], first: Setting) -> None:
    if not formulas:
        raise ValueError("there is nothing to explore: give at least one formula, as in {'ring': ring_seconds}")
    if not (RANKS[0] <= first.ranks <= RANKS[1] and SIZES[0] <= first.size <= SIZES[1]):
        raise ValueError(f"the widget goes from 2 to 1024 ranks and from 1 KB to 100 MB, and begins with {first}")
    if not (first.latency >= 0 and first.bandwidth > 0):
        raise ValueError(f"a latency is not below 0 and a bandwidth is above 0, and here they are: {first}")


@drawn_in_house_style
def cost_crossings(study: Study, now: Setting, tells_measured: bool = True) -> Chart:
    """Draw what the formulas say by size, for so many ranks, and by ranks, for so many bytes.

    With `tells_measured` the words say how far the points are from the lines. That differs from run to run.
    """
    figure = _draw(study, now)
    fastest = [*_fastest_by_size(study, now), *_fastest_by_ranks(study, now)]
    compared = _compare(study, now) if tells_measured else []
    each = {name: show_seconds(now.seconds(formula)) for name, formula in study.formulas.items()}
    width = max(map(len, each))
    text = "\n".join([f"{now}; by the model:", *(f"  {name:{width}}  {time}" for name, time in each.items())])
    times = ", ".join(f"{name} {time}" for name, time in each.items())
    return Chart(
        figure,
        np.array(figure.axes, dtype=object),
        "\n".join([text, *fastest, *compared]),
        " ".join([f"{now}: by the model {times}.", *fastest, *compared]),
    )


def _fastest_by_size(study: Study, now: Setting) -> list[str]:
    """Where another way begins to be the fastest, found by halving."""
    told, before = list[str](), study.fastest(at_size(now, SIZES[0]))
    for low, high in itertools.pairwise(np.geomspace(*SIZES, 61).tolist()):
        after = study.fastest(at_size(now, high))
        if after != before:
            for _ in range(12):
                middle = math.sqrt(low * high)
                low, high = (low, middle) if study.fastest(at_size(now, middle)) == after else (middle, high)
            told.append(f"{before} up to {show_bytes(float(f'{high:.2g}'))}")
            before = after
    told.append(f"{before} beyond" if told else f"{before} for every size")
    return [f"Fastest with {now.ranks} ranks: {', '.join(told)}."]


def _fastest_by_ranks(study: Study, now: Setting) -> list[str]:
    every = range(RANKS[0], RANKS[1] + 1)
    stretches = [
        (name, list(ranks)) for name, ranks in itertools.groupby(every, lambda n: study.fastest(at_ranks(now, n)))
    ]
    told = [f"{name} for {_span(ranks)}" for name, ranks in stretches[:MOST_STRETCHES]]
    return [f"Fastest with {show_bytes(now.size)}: {', '.join(told)} ranks{', ...' * (len(stretches) > len(told))}."]


def _span(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _compare(study: Study, now: Setting) -> list[str]:
    """How far the points are from these lines; only where they are of as many ranks, or bytes."""
    told = []
    for what, points, at, is_of_these in (
        (f"{now.ranks} ranks", study.by_bytes, at_size, now.ranks == study.setting.ranks),
        (show_bytes(now.size), study.by_ranks, at_ranks, now.size == study.setting.size),
    ):
        if is_of_these and (parts := _parts(study, points, now, at)):
            told.append(f"Measured with {what}, as a multiple of the model (the middle one): {parts}.")
    return told


def _parts(study: Study, points: Mapping[str, Points], now: Setting, at: Callable[[Setting, float], Setting]) -> str:
    both = {name: study.formulas[name] for name in study.formulas if points.get(name)}
    middle = {
        name: statistics.median(time / at(now, x).seconds(formula) for x, time in points[name])
        for name, formula in both.items()
    }
    return ", ".join(f"{name} {part:.2g}" for name, part in middle.items())


@dataclass(frozen=True)
class Side:
    """One of the two axes: what grows along it, and the points in it."""

    name: str
    title: str
    across: Any
    at: Callable[[Setting, float], Setting]
    here: float
    points: Mapping[str, Points]
    measured_with: str  # "" if it is what the lines are for


def _draw(study: Study, now: Setting) -> Figure:
    columns, pitch = _key_columns(study)
    page = HEIGHT + KEY_ROW * -(-len(study.names) // columns)
    figure, first = new_figure(WIDTH, page), study.setting
    each, height = (WIDTH - LEFT - GAP - RIGHT) / 2, HEIGHT - HEAD - FOOT
    lefts = (LEFT, LEFT + each + GAP)
    by_bytes, by_ranks = (figure.add_axes((x / WIDTH, FOOT / page, each / WIDTH, height / page)) for x in lefts)
    for axes, (begin, end) in ((by_bytes, SIZES), (by_ranks, RANKS)):
        axes.set(xscale="log", yscale="log", xlim=(begin / 1.15, end * 1.15), ylim=study.limits())
        draw_rulers(axes, "both")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(LogLocator(numticks=12))
    by_bytes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: show_bytes(number)))
    by_bytes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: show_seconds(number)))
    by_ranks.set_xticks([2**power for power in range(1, 11)], [str(2**power) for power in range(1, 11)])
    by_ranks.tick_params(axis="y", labelleft=False)
    size, title = show_bytes(now.size), f"{now.ranks} ranks, by bytes"
    others = f"{first.ranks} ranks" * (now.ranks != first.ranks)
    sizes, ranks = np.geomspace(*SIZES, 150), np.unique(np.geomspace(*RANKS, 200).round())
    _draw_side(by_bytes, study, now, Side("bytes", title, sizes, at_size, now.size, study.by_bytes, others))
    others, title = show_bytes(first.size) * (now.size != first.size), f"{size}, by ranks"
    _draw_side(by_ranks, study, now, Side("ranks", title, ranks, at_ranks, now.ranks, study.by_ranks, others))
    _draw_key(figure, study, now, columns, pitch)
    return figure


def _draw_side(axes: Axes, study: Study, now: Setting, side: Side) -> None:
    """Points that are of another setting are hollow."""
    axes.axvline(side.here, color=FAINT, lw=1.0, ls=(0, (3, 2)), zorder=1, gid=f"chosen {side.name}")
    for index, name in enumerate(study.names):
        color = RANK_COLORS[index % len(RANK_COLORS)]
        if name in study.formulas:
            line = [side.at(now, float(x)).seconds(study.formulas[name]) for x in side.across]
            axes.plot(side.across, line, color=color, lw=1.6, gid=f"model {side.name} {name}", zorder=2)
        if side.points.get(name):
            inside, rim, width = (PAPER, color, 1.1) if side.measured_with else (color, PAPER, 0.6)
            style: dict[str, Any] = {"mfc": inside, "mec": rim, "mew": width, "ms": max(4.0, 8.0 - 1.5 * index)}
            style |= {"marker": MARKERS[index % len(MARKERS)], "lw": 0, "zorder": 3}
            axes.plot(*zip(*side.points[name], strict=True), gid=f"measured {side.name} {name}", **style)
    title = side.title + f" (points: measured with {side.measured_with})" * bool(side.points and side.measured_with)
    place: dict[str, Any] = {"transform": axes.transAxes, "fontsize": 8.5, "color": INK, "va": "bottom"}
    axes.text(0, 1.03, title, gid=f"title {side.name}", **place)


def _key_columns(study: Study) -> tuple[int, float]:
    """How many names fit into a row, and how far apart: the same for every choice."""
    pitch = SIGN + max(text_size(f"{name}: 99.9 ms", 9, "bold")[0] for name in study.names) / 72
    columns = min(max(int((WIDTH - RIGHT) // pitch), 1), len(study.names))
    return columns, pitch


def _draw_key(figure: Figure, study: Study, now: Setting, columns: int, pitch: float) -> None:
    """Each name at a place of its own, with its seconds here; the fastest in bold."""
    fastest = study.fastest(now).split(" and ")
    for index, name in enumerate(study.names):
        sign = Line2D([], [], color=RANK_COLORS[index % len(RANK_COLORS)], marker=MARKERS[index % len(MARKERS)], ms=6)
        told = name
        if name in study.formulas:
            told = f"{name}: {show_seconds(now.seconds(study.formulas[name]))}"
        row, column = divmod(index, columns)
        corner = 0.1 + column * pitch, figure.get_figheight() - row * KEY_ROW
        place: dict[str, Any] = {"loc": "upper left"}
        place["bbox_to_anchor"] = corner[0] / WIDTH, corner[1] / figure.get_figheight()
        key = figure.legend([sign], [told], frameon=False, fontsize=9, labelcolor=INK, borderaxespad=0.3, **place)
        key.get_texts()[0].set(weight="bold" if name in fastest else "normal", gid=f"key {name}")
