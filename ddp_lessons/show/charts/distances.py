"""How far apart the weights are, step by step: on an axis that grows by factors, with a line at what is allowed.

Zero has no place on such an axis: it is drawn on a line of its own at the bottom; what is no number, at the top.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ddp_lessons.record.colors import rank_color
from ddp_lessons.show.charts import chart
from ddp_lessons.show.charts.chart import ALARM, BAND, FAINT, INK, MARKERS, PAPER, Chart, drawn_in_house_style
from ddp_lessons.show.figures.formats import count

LEFT, RIGHT, HIGH = 0.75, 1.1, 2.6  # inches
MOST_MARKERS, MOST_POINTS = 60, 400  # of one line; with more steps than that it has no markers
WANTED = "distance() takes a dict of names to lists of numbers, one for each step, as in {'by hand': [0.0, 1e-9]}"


@drawn_in_house_style
def distance(
    by_name: Mapping[str, Sequence[float]], limit: float = 1e-6, title: str | None = None, what: str = "weights"
) -> Chart:
    """Draw the largest difference of the weights (or `what` it is) at every step, from 0, and a line at the limit.

    Raises:
        TypeError: this is no dict of names to lists of numbers.
        ValueError: there is nothing in it, a number is below 0, or the limit is not above 0.
    """
    curves = _checked(by_name, limit)
    figure, axes = chart.new_axes(LEFT, RIGHT, HIGH, list(curves), title)
    # the places of zero and of what is no number
    bottom, top = _prepare(axes, curves, limit)
    for index, (name, curve) in enumerate(curves.items()):
        _draw_curve(axes, index, name, curve, bottom, top)
    longest = max(map(len, curves.values()))
    margin = max(0.5, 0.02 * longest)
    axes.set_xlim(-margin, max(longest - 1, 1) + margin)
    axes.xaxis.set_major_locator(MaxNLocator(9, steps=[1, 2, 5, 10], integer=True))
    axes.xaxis.set_major_formatter(lambda number, _: f"{number:,.0f}")
    axes.set_xlabel("step", labelpad=2)
    axes.set_ylabel(f"largest difference of the {what}", labelpad=3)
    chart.draw_key(axes)
    return Chart(figure, axes, _text(curves, limit, what), _describe(curves, limit, what))


def _checked(by_name: Any, limit: float) -> dict[str, Any]:
    if not isinstance(by_name, Mapping):
        raise TypeError(f"{WANTED}, and this is of type {type(by_name).__name__}")
    if not by_name:
        raise ValueError("there is nothing to draw: give at least one list, as in {'by hand': [0.0, 1e-9]}")
    if not 0 < limit < math.inf:
        raise ValueError(f"the limit is a number above 0, not {limit!r}")
    curves = {}
    for name, numbers in by_name.items():
        try:
            curve = np.array([float(number) for number in numbers])
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"{WANTED}, and {str(name)!r} holds something of type {type(numbers).__name__}") from None
        if (curve < 0).any():
            raise ValueError(f"a difference is at least 0, and {str(name)!r} has {curve.min():g}: take the abs() of it")
        curves[str(name)] = curve
    return curves


def _prepare(axes: Axes, curves: Mapping[str, Any], limit: float) -> tuple[float, float]:
    """Set the limits and name the powers; return the places of zero and of what is no number."""
    numbers = np.concatenate(list(curves.values()))
    finite = numbers[np.isfinite(numbers)]
    powers = np.log10([limit, *finite[finite > 0]])
    low, high = math.floor(powers.min()) - 1, math.ceil(powers.max() + 0.3)
    band = max(1.0, 0.1 * (high - low))
    bottom, top = low - band / 2, high + band / 2
    has_zero, has_odd = bool((numbers == 0).any()), len(finite) < len(numbers)
    axes.set_ylim(low - band * has_zero, high + band * has_odd)
    every = -(-(high - low) // 8)
    ticks = {float(power): _power(power) for power in range(high, low - 1, -1) if power % every == 0}
    if has_zero:
        ticks = {at: name for at, name in ticks.items() if at - low >= 0.25 * every} | {bottom: "0"}
        axes.axhspan(low - band, low, color=BAND, lw=0, zorder=0)
    if has_odd:
        ticks = {at: name for at, name in ticks.items() if high - at >= 0.25 * every}
        ticks |= {top: "/".join(["nan"] * bool(np.isnan(numbers).any()) + ["inf"] * bool(np.isinf(numbers).any()))}
        axes.axhspan(high, high + band, color=BAND, lw=0, zorder=0)
    axes.set_yticks(list(ticks), list(ticks.values()), color=INK)
    axes.axhline(math.log10(limit), color=ALARM, lw=1.4, ls=(0, (5, 2.5)), zorder=2)
    beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center"}
    axes.text(1.01, math.log10(limit), f"limit {short(limit)}", color=ALARM, **beside)
    if has_zero:
        axes.text(1.01, bottom, "exactly equal", color=FAINT, **beside)
    return bottom, top


def _draw_curve(axes: Axes, index: int, name: str, curve: Any, bottom: float, top: float) -> None:
    is_rank = re.fullmatch(r"rank (\d+)", name)
    color = rank_color(int(is_rank[1]) if is_rank else index)
    steps, is_odd = np.arange(len(curve)), ~np.isfinite(curve)
    heights = np.full(len(curve), bottom)
    heights[curve > 0] = np.log10(curve[curve > 0])
    heights[is_odd] = math.nan  # a gap
    style: dict[str, Any] = {"color": color, "zorder": 3 + 0.1 * index, "clip_on": False, "solid_joinstyle": "round"}
    style |= {"lw": max(1.2, 2.2 - 0.5 * index)}  # the one on top leaves a rim of the one below
    if len(curve) <= MOST_MARKERS:
        size = max(3.5, 8.5 - 1.7 * index)
        style |= {"marker": MARKERS[index % len(MARKERS)], "ms": size, "mec": PAPER, "mew": 0.6}
    axes.plot(*chart.thinned(steps, heights, MOST_POINTS), label=name, **style)
    if is_odd.any():
        odd = steps[is_odd][:: -(-int(is_odd.sum()) // MOST_MARKERS)]
        signs: dict[str, Any] = {"color": color, "ms": 5.5, "mec": ALARM, "mew": 0.8, "clip_on": False, "zorder": 5}
        axes.plot(odd, [top] * len(odd), "X", **signs)


def short(number: float) -> str:
    """As the axis counts: 1e-6, not 1e-06, and 1e-4, not 0.0001."""
    base, _, exponent = (f"{number:.5e}" if number < 0.01 else f"{number:g}").partition("e")
    return f"{float(base):g}e{int(exponent)}" if exponent else base


def _power(power: int) -> str:
    return "1" if power == 0 else f"1e{power}"


def _verdict(curve: Any, limit: float) -> str:
    if not len(curve):
        return "no step"
    if not np.isfinite(curve).all():
        verdict = "not all of them are numbers"
    else:
        verdict = "below the limit at every step" if (curve < limit).all() else "not below the limit at every step"
    return f"{count(len(curve), 'step')}, {verdict}"


def _text(curves: Mapping[str, Any], limit: float, what: str) -> str:
    lines = [f"  {name}: {_verdict(curve, limit)}" for name, curve in curves.items()]
    return "\n".join([f"Largest difference of the {what}, step by step; the limit is {short(limit)}:", *lines])


def _describe(curves: Mapping[str, Any], limit: float, what: str) -> str:
    told = "; ".join(f"{name}, {_verdict(curve, limit)}" for name, curve in curves.items())
    return f"Largest difference of the {what}, step by step, and a line at {short(limit)}: {told}."
