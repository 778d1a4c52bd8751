"""Measured times as points, and the times that a model predicts as lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.show.charts.chart import MARKERS, PAPER, Chart, draw_key, draw_rulers, drawn_in_house_style, new_axes
from ddp_lessons.show.figures.formats import show_bytes, show_seconds

Points = Sequence[tuple[float, float]]
SMOOTH = 150  # points of a line: from 128 on, matplotlib drops those that make no visible difference
LEFT, RIGHT, HIGH = 0.8, 0.2, 2.9  # inches


class Line(NamedTuple):
    """How long a message takes: `latency_seconds + bytes / bytes_per_second`."""

    latency_seconds: float
    bytes_per_second: float

    def seconds(self, bytes: float) -> float:
        return self.latency_seconds + bytes / self.bytes_per_second


def fit_line(measured: Points) -> Line:
    """Fit a latency and a bandwidth to pairs (bytes, seconds), so that the relative errors are smallest."""
    sizes, seconds = _columns(measured)
    if len(set(sizes)) < 2:
        raise ValueError(f"a line needs at least two message sizes, but there is only {count(len(set(sizes)), 'size')}")
    parts = np.stack([1 / seconds, sizes / seconds], axis=1)
    (latency, slope), *_ = np.linalg.lstsq(parts, np.ones(len(sizes)), rcond=None)
    latency, slope = max(float(latency), 0.0), max(float(slope), 0.0)
    return Line(latency, 1 / slope if slope else float("inf"))


@drawn_in_house_style
def latency(measured: Points, model: tuple[float, float] | None = None) -> Chart:
    """Draw the time that messages of each size took, and, if you pass a model, the line `latency + bytes / bandwidth`.

    Args:
        measured: pairs (bytes, seconds).
        model: (latency in seconds, bytes per second), for example `fit_line(measured)`.
    """
    sizes, seconds = _columns(measured)
    told = ["measured"]
    if model is not None:
        line = Line(*model)
        told.append(f"{show_seconds(line.latency_seconds)} + bytes / ({show_bytes(line.bytes_per_second)} per second)")
    figure, axes = new_axes(LEFT, RIGHT, HIGH, told)
    axes.loglog(sizes, seconds, "o", color=RANK_COLORS[0], ms=5, label=told[0])
    if model is not None:
        across = np.geomspace(sizes.min(), sizes.max(), SMOOTH)
        axes.plot(across, [line.seconds(size) for size in across], color=RANK_COLORS[1], label=told[1], zorder=1.5)
    _finish(axes, "bytes")
    kinds = "measured times" + (" and the line latency + bytes / bandwidth" if model is not None else "")
    text = f"{kinds}, by message size: {_sizes(sizes)}"
    return Chart(figure, axes, text[0].upper() + text[1:], f"Log-log plot: {kinds}.")


@drawn_in_house_style
def cost(
    measured: Mapping[str, Points],
    predicted: Mapping[str, Points | Callable[[float], float]] | None = None,
    x: str = "bytes",
    from_zero: bool = False,
) -> Chart:
    """Draw several measured curves as points, and the predicted ones as lines over them.

    Args:
        measured: by name, pairs (x, seconds).
        predicted: by the same names, a function that returns the seconds for x, or pairs.
        x: what x is: "bytes" (on a logarithmic axis), "ranks", or other words.
        from_zero: start the axis of seconds at 0, for times that differ little, instead of making it logarithmic.
    """
    predicted = predicted or {}
    if not any(measured.values()):
        raise ValueError("nothing to draw: pass at least one curve with a point, such as {'ring': [(8, 1e-4)]}")
    names = list(dict.fromkeys([*measured, *predicted]))
    figure, axes = new_axes(LEFT, RIGHT, HIGH, [*measured, *(f"{name}, predicted" for name in predicted)])
    axes.set(xscale="log" if x == "bytes" else "linear", yscale="linear" if from_zero else "log")
    numbers = [number for points in measured.values() for number, _ in points]
    between = np.geomspace if x == "bytes" else np.linspace
    across = between(min(numbers), max(numbers), SMOOTH)
    for index, name in enumerate(names):
        style: dict[str, Any] = {"color": RANK_COLORS[index % len(RANK_COLORS)]}
        if name in predicted:
            axes.plot(*_line(predicted[name], across), lw=1.6, label=f"{name}, predicted", **style)
        if name in measured:
            if from_zero and index:  # the upper curves let the first one show through
                style |= {"ms": 8.5 + 2.5 * index, "mfc": "none", "mec": style["color"], "mew": 1.5}
            else:
                style |= {"ms": max(5.5, 8.5 - 1.5 * index), "mec": PAPER, "mew": 0.6}  # a rim of the one below shows
            axes.plot(*_columns(measured[name]), MARKERS[index % len(MARKERS)], label=name, **style)
    _finish(axes, x)
    lines = [_about(name, x, measured, predicted) for name in names]
    alt = f"Measured times as points, by {x}, for {', '.join(measured)}" + "; predictions as lines." * bool(predicted)
    return Chart(figure, axes, "\n".join([f"Seconds by {x}:", *lines]), alt.rstrip(".") + ".")


def _columns(points: Points) -> tuple[Any, Any]:
    numbers = np.array(list(points), dtype=float)
    if numbers.ndim != 2 or numbers.shape[1] != 2:
        raise ValueError("pass pairs: (bytes, seconds), (bytes, seconds), ...")
    if not (numbers[:, 1] > 0).all():
        raise ValueError("every time must be more than 0 seconds")
    return numbers[:, 0], numbers[:, 1]


def _line(prediction: Points | Callable[[float], float], across: Any) -> tuple[Any, Any]:
    if not callable(prediction):
        return _columns(prediction)
    return across, [prediction(float(number)) for number in across]


def _about(name: str, x: str, measured: Mapping[str, Points], predicted: Mapping[str, Any]) -> str:
    kinds = [kind for kind, there in (("measured", measured), ("predicted", predicted)) if name in there]
    numbers = [number for number, _ in measured.get(name, ())]
    tried = _sizes(numbers) if x == "bytes" else ", ".join(f"{number:g}" for number in numbers)
    return f"  {name}: {' and '.join(kinds)}" + f", at {tried}" * bool(tried)


def _sizes(sizes: Sequence[float]) -> str:
    return ", ".join(show_bytes(size) for size in sorted(set(map(float, sizes))))


def _finish(axes: Axes, x: str) -> None:
    """Label the ticks with readable units, and draw the legend."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "linear":
        axes.set_ylim(0, 1.15 * high)
    else:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 100 else (1,), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: show_seconds(number)))
    if x == "bytes":
        axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: show_bytes(number)))
        axes.xaxis.set_major_locator(LogLocator(numticks=8))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(9, steps=[1, 2, 2.5, 5, 10], integer=True))  # ranks, samples, tensors
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel(x)
    draw_rulers(axes, "both")
    draw_key(axes)
