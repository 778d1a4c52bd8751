"""How far apart the weights are, step by step, on a logarithmic axis with a line at the limit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullLocator

from ddp_lessons.record.colors import rank_color
from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.show.charts import chart
from ddp_lessons.show.charts.chart import ALARM, FAINT, INK, MARKERS, PAPER, Chart, drawn_in_house_style

LEFT, RIGHT, HIGH = 0.75, 1.1, 2.6  # inches
HIGHEST = 0.97  # where on the axes nan and inf are marked
MOST_MARKERS, MOST_POINTS = 60, 400  # of one line; with more steps than the first, it has no markers
WANTED = "distance() takes a dict from names to lists of numbers, one per step, such as {'by hand': [0.0, 1e-9]}"


@drawn_in_house_style
def distance(
    by_name: Mapping[str, Sequence[float]], limit: float = 1e-6, title: str | None = None, what: str = "weights"
) -> Chart:
    """Draw the largest difference between weights (or `what` you compare) at each step from 0, and a line at the limit.

    Raises:
        TypeError: the argument isn't a dict of names to lists of numbers.
        ValueError: the dict is empty, a number is below 0, or the limit is not above 0.
    """
    curves = _checked(by_name, limit)
    figure, axes = chart.new_axes(LEFT, RIGHT, HIGH, list(curves), title)
    _prepare(axes, curves, limit)
    for index, (name, curve) in enumerate(curves.items()):
        _draw_curve(axes, index, name, curve)
    longest = max(map(len, curves.values()))
    margin = max(0.5, 0.02 * longest)
    axes.set_xlim(-margin, max(longest - 1, 1) + margin)
    axes.xaxis.set_major_locator(MaxNLocator(9, steps=[1, 2, 5, 10], integer=True))
    axes.xaxis.set_major_formatter(lambda number, _: f"{number:,.0f}")
    axes.set_xlabel("step", labelpad=2)
    axes.set_ylabel(f"largest difference in {what}", labelpad=3)
    chart.draw_key(axes)
    return Chart(figure, axes, _text(curves, limit, what), _describe(curves, limit, what))


def _checked(by_name: Any, limit: float) -> dict[str, Any]:
    if not isinstance(by_name, Mapping):
        raise TypeError(f"{WANTED}, but this is of type {type(by_name).__name__}")
    if not by_name:
        raise ValueError("nothing to draw: pass at least one list, such as {'by hand': [0.0, 1e-9]}")
    if not 0 < limit < math.inf:
        raise ValueError(f"the limit must be a number above 0, not {limit!r}")
    curves = {}
    for name, numbers in by_name.items():
        try:
            curve = np.array([float(number) for number in numbers])
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"{WANTED}, but {str(name)!r} has a value of type {type(numbers).__name__}") from None
        if (curve < 0).any():
            raise ValueError(f"a difference can't be negative, but {str(name)!r} has {curve.min():g}: take its abs()")
        curves[str(name)] = curve
    return curves


def _prepare(axes: Axes, curves: Mapping[str, Any], limit: float) -> None:
    """Scale the axis by powers of ten, and linearly from the smallest of them down to zero."""
    numbers = np.concatenate(list(curves.values()))
    finite = numbers[np.isfinite(numbers)]
    powers = np.log10([limit, *finite[finite > 0]])
    low, high = math.floor(powers.min()) - 1, math.ceil(powers.max() + 0.3)
    axes.set_yscale("symlog", linthresh=10.0**low, linscale=0.6)
    has_zero = bool((numbers == 0).any())
    axes.set_ylim(-0.4 * 10.0**low if has_zero else 10.0**low, 10.0**high)
    every = -(-(high - low) // 8)
    ticks = {10.0**power: _power(power) for power in range(high, low, -1) if power % every == 0}
    ticks |= {0.0: "0"} if has_zero else {}
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticks(list(ticks), list(ticks.values()), color=INK)
    axes.axhline(limit, color=ALARM, lw=1.4, ls=(0, (5, 2.5)), zorder=2)
    aside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center"}
    axes.text(1.01, limit, f"limit {short(limit)}", color=ALARM, **aside)
    if has_zero:
        axes.text(1.01, 0.0, "exactly equal", color=FAINT, **aside)
    if len(finite) < len(numbers):
        axes.text(1.01, HIGHEST, "nan or inf", color=ALARM, transform=axes.transAxes, va="center")


def _draw_curve(axes: Axes, index: int, name: str, curve: Any) -> None:
    """Draw a curve with a gap at each nan or inf, and a mark above the gap."""
    is_rank = re.fullmatch(r"rank (\d+)", name)
    color = rank_color(int(is_rank[1]) if is_rank else index)
    steps, is_odd = np.arange(len(curve)), ~np.isfinite(curve)
    style: dict[str, Any] = {"color": color, "zorder": 3 + 0.1 * index, "clip_on": False, "solid_joinstyle": "round"}
    style |= {"lw": max(1.2, 2.2 - 0.5 * index)}  # of the one below, a rim is seen
    if len(curve) <= MOST_MARKERS:
        size = max(3.5, 8.5 - 1.7 * index)
        style |= {"marker": MARKERS[index % len(MARKERS)], "ms": size, "mec": PAPER, "mew": 0.6}
    heights = np.where(is_odd, math.nan, curve)
    axes.plot(*chart.thinned(steps, heights, MOST_POINTS), label=name, **style)
    chart.mark_odd(axes, steps[is_odd], HIGHEST, color)


def short(number: float) -> str:
    """Write a number as the axis does: 1e-6, not 1e-06, and 1e-4, not 0.0001."""
    base, _, exponent = (f"{number:.5e}" if number < 0.01 else f"{number:g}").partition("e")
    return f"{float(base):g}e{int(exponent)}" if exponent else base


def _power(power: int) -> str:
    return "1" if power == 0 else f"1e{power}"


def _verdict(curve: Any, limit: float) -> str:
    if not len(curve):
        return "no steps"
    if not np.isfinite(curve).all():
        verdict = "some of them nan or inf"
    else:
        verdict = "below the limit at every step" if (curve < limit).all() else "not always below the limit"
    return f"{count(len(curve), 'step')}, {verdict}"


def _text(curves: Mapping[str, Any], limit: float, what: str) -> str:
    lines = [f"  {name}: {_verdict(curve, limit)}" for name, curve in curves.items()]
    return "\n".join([f"Largest difference in {what}, step by step; the limit is {short(limit)}:", *lines])


def _describe(curves: Mapping[str, Any], limit: float, what: str) -> str:
    told = "; ".join(f"{name}, {_verdict(curve, limit)}" for name, curve in curves.items())
    return f"Largest difference in {what}, step by step, with a line at {short(limit)}: {told}."
