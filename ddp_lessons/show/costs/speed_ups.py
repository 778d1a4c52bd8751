"""How many times as fast as one rank more ranks are: a model with its numbers as sliders, over measured points.

Both axes begin and end where they do for every batch and every machine: when these change, only the curves move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Choice, Slider, Values
from ddp_lessons.show.controls.slider_scales import by_two, network_sliders
from ddp_lessons.show.page.chart import Chart
from ddp_lessons.show.page.labels import Labels, Place
from ddp_lessons.show.page.lines import WIDTH, draw_cores, draw_key_above, new_axes
from ddp_lessons.show.page.picture import FAINT, INK, PAPER, count, drawn_in_house_style, show_network

Speeds = Mapping[int, float]  # images per second of so many ranks
Model = Callable[[int, int, int, float, float], float]  # ranks, batch, cores, latency and bytes per second to these
POWERS = tuple(2**power for power in range(7))
RANKS = tuple(sorted({*POWERS, 3, 5, 6, 7, 12, 24, 48}))
LEFT, RIGHT, HIGH, HEAD, FOOT = 0.72, 0.3, 3.1, 0.32, 0.48  # inches
LIMITS = (1 / 4, 90.0)  # of the times
SMALLEST, LARGEST = 8, 16_384  # batch
SOME_CORES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
IDEAL, MODEL, MEASURED = "ideal", "model", "measured"


@dataclass(frozen=True)
class Machine:
    """What the ranks run on, and how many images they take at a time: all of them together, or each."""

    batch_size: int
    is_for_each: bool
    cores: int
    latency: float
    bandwidth: float

    def speed(self, model: Model, ranks: int) -> float:
        together = self.batch_size * ranks if self.is_for_each else self.batch_size
        return float(model(ranks, together, self.cores, self.latency, self.bandwidth))

    @property
    def batch(self) -> str:
        return f"{self.batch_size:,} images for {'each rank' if self.is_for_each else 'all ranks together'}"

    def __str__(self) -> str:
        return f"{self.batch}, {count(self.cores, 'core')}, {show_network(self.latency, self.bandwidth)}"


def explore_scaling(
    model: Model,
    strong: Mapping[int, Speeds] | None = None,
    weak: Mapping[int, Speeds] | None = None,
    *,
    cores: int,
    latency: float,
    bandwidth: float,
) -> Explorer[Chart]:
    """Turn the batch, the cores and the cables under a model, and see how far more ranks would carry.

    Args:
        model: a function of the ranks, the batch of all ranks together, the cores, the latency in seconds and the bytes
            per second; it returns images per second.
        strong: what was measured, {batch of all ranks together: {ranks: images per second}}.
        weak: likewise, {batch of each rank: {ranks: images per second}}.
        cores: to begin with, as are `latency` and `bandwidth`: those of this machine.

    Raises:
        ValueError: one of the numbers cannot be.
    """
    measured = {False: dict(strong or {}), True: dict(weak or {})}
    first_batch = next(iter([*measured[False], *measured[True], 256]))
    first = Machine(first_batch, not measured[False] and bool(measured[True]), cores, latency, bandwidth)
    if not (cores >= 1 and latency >= 0 and bandwidth > 0 and first_batch >= 1):
        raise ValueError(f"these numbers are above 0, and the first are: {first}")

    def draw(batch_size: int, is_for_each: bool, cores: int, latency: float, bandwidth: float) -> Chart:
        now = Machine(batch_size, is_for_each, cores, latency, bandwidth)
        # so that the stored picture is the same in every run
        return speed_ups(model, now, measured[is_for_each].get(batch_size), tells_numbers=now != first)

    def batches(now: Values) -> dict[str, int]:
        points = measured[now["is_for_each"]]
        sizes = by_two(SMALLEST, LARGEST, first_batch, *points)
        return {name + ", measured" * (size in points): size for name, size in sizes.items()}

    whose = {"for all ranks together (strong scaling)": False, "for each rank (weak scaling)": True}
    controls = {
        "is_for_each": Choice("the images are", whose, first.is_for_each),
        "batch_size": Slider("images", batches, first_batch),
        "cores": Slider("cores", sorted({*SOME_CORES, cores}), cores),
        **network_sliders(latency, bandwidth),
    }
    return Explorer(draw, title="How much faster more ranks are, by the model", controls=controls)


@drawn_in_house_style
def speed_ups(model: Model, now: Machine, measured: Speeds | None = None, tells_numbers: bool = True) -> Chart:
    """Draw a model's speed-up from 1 to 64 ranks over what was measured with such a batch.

    With `tells_numbers` the words hold the speeds. They differ from machine to machine.
    """
    measured = dict(sorted((measured or {}).items()))
    speeds = {ranks: now.speed(model, ranks) for ranks in RANKS}
    figure, axes = _draw({ranks: speed / speeds[1] for ranks, speed in speeds.items()}, _relative(measured), now)
    if tells_numbers:
        return Chart(figure, axes, _table(speeds, measured, now), _describe(speeds, measured, now))
    points = f", and what was measured for a world size of {', '.join(map(str, measured))}" if measured else ""
    text = f"How many times as fast as one rank 1 to {RANKS[-1]} ranks are, with {now.batch}: a model{points}."
    return Chart(figure, axes, text, text)


def _relative(measured: Speeds) -> Speeds:
    """As multiples of one rank's speed, or of its part of the fewest ranks' speed."""
    one = next((speed / ranks for ranks, speed in measured.items()), 1.0)
    return {ranks: speed / one for ranks, speed in measured.items()}


def _table(speeds: Speeds, measured: Speeds, now: Machine) -> str:
    relative = _relative(measured)
    lines = [
        f"{now}; by the model:",
        "ranks | images per second | times one rank | % of ideal | measured, times one rank",
    ]
    for ranks in (number for number in RANKS if number in POWERS or number in measured):
        times = speeds[ranks] / speeds[1]
        point = f"{relative[ranks]:.3g}" if ranks in relative else ""
        line = f"{ranks:5} | {speeds[ranks]:17,.0f} | {times:14.3g} | {100 * times / ranks:10.0f} | {point}"
        lines.append(line.rstrip(" |"))
    return "\n".join([*lines, _best(speeds)])


def _describe(speeds: Speeds, measured: Speeds, now: Machine) -> str:
    told = ", ".join(f"{ranks} ranks {speeds[ranks] / speeds[1]:.2g} times" for ranks in (2, 4, 16, 64))
    points = ", ".join(f"{ranks} ranks {times:.2g} times" for ranks, times in _relative(measured).items() if ranks > 1)
    return f"{now}: by the model {told} as fast as one. {_best(speeds)}" + f" Measured: {points}." * bool(points)


def _best(speeds: Speeds) -> str:
    best = max(speeds, key=lambda ranks: speeds[ranks])
    if best == RANKS[-1]:
        return "Each step to more ranks, up to 64, makes it faster." if _only_rises(speeds) else "64 ranks are fastest."
    return "No number of ranks is faster than one." if best == 1 else f"Fastest with {best} ranks."


def _only_rises(speeds: Speeds) -> bool:
    in_order = [speeds[ranks] for ranks in RANKS]
    return in_order == sorted(in_order)


def _draw(model: Speeds, measured: Speeds, now: Machine) -> tuple[Figure, Axes]:
    figure, axes = new_axes(LEFT, RIGHT, HIGH, HEAD, FOOT)
    axes.set(xscale="log", yscale="log", xlim=(1 / 1.15, RANKS[-1] * 1.15), ylim=LIMITS)
    axes.set_xlabel("ranks", labelpad=2)
    axes.set_ylabel("times as fast as one rank")
    axes.set_xticks(POWERS, [str(number) for number in POWERS], color=INK)
    axes.set_yticks([0.5, *POWERS], ["1/2", *map(str, POWERS)])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    draw_cores(axes, now.cores)
    ends = np.array([1.0, RANKS[-1]])
    axes.plot(ends, ends, color=FAINT, lw=1.2, ls=":", label=IDEAL, gid=IDEAL, zorder=1.5)
    style: dict[str, Any] = {"color": RANK_COLORS[1], "lw": 1.6, "ls": (0, (4, 2)), "zorder": 2}
    axes.plot(list(model), list(model.values()), label=MODEL, gid=MODEL, **style)
    style = {"color": RANK_COLORS[0], "ms": 7, "mec": PAPER, "mew": 0.6, "lw": 1.6, "zorder": 4}
    if measured:
        told = f"{MEASURED} on this machine"
        axes.plot(list(measured), list(measured.values()), "o-", label=told, gid=MEASURED, **style)
    draw_key_above(axes, (WIDTH - LEFT - RIGHT) * 72)
    _write_parts(axes, model, measured, now.cores)
    return figure, axes


def _write_parts(axes: Axes, model: Speeds, measured: Speeds, cores: int) -> None:
    """Which part of the ideal each point is: below what was measured, above the model; and where cores are shared."""
    labels = Labels(axes)
    for points in (model, measured):
        for ranks, times in points.items():
            labels.keep_free(ranks, times, 3.0)
    if cores < RANKS[-1]:
        labels.name_cores(cores, LIMITS[0])
    for points, name, color, side in ((measured, MEASURED, RANK_COLORS[0], -1), (model, MODEL, RANK_COLORS[1], 1)):
        for ranks, times in points.items():
            if ranks > 1 and (ranks in POWERS or name == MEASURED) and LIMITS[0] < times < LIMITS[1]:
                places = [Place(ranks, times, (0, side * shift), color=color) for shift in (11, 20, -11)]
                labels.put([f"{100 * times / ranks:.0f} %"], places, 8, f"part {name} {ranks}")
