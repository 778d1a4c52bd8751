"""One chart of each kind, and what is to be seen in a chart."""

from __future__ import annotations

import itertools
from typing import Any
from xml.etree import ElementTree

import numpy as np
from figure_catalog import FIGURES, curves
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from ddp_lessons import show
from ddp_lessons.record.colors import rank_color

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("latency", "cost", "cost by ranks", "distance", "scaling", "explore_scaling", "training", "digits")
CHARTS = {name: FIGURES[name] for name in NAMES} | {
    "long training": lambda: show.training(curves(4, 3000, "loss", "accuracy", "rate")),
    "nothing": lambda: show.training(curves(2, 0)),
}


def words(chart: show.Chart) -> set[str]:
    """The chart's own, and those of its axes, ticks and keys."""
    return {str(one.text) for one in ElementTree.fromstring(chart.svg).iter(f"{SVG}text")}


def line(axes: Axes, name: str | int) -> tuple[list[float], list[float]]:
    """The points of the last line with this name in the key, or with this rank's color."""
    drawn = {one.get_label(): one for one in axes.lines} | {one.get_color(): one for one in axes.lines}
    found = drawn[rank_color(name) if isinstance(name, int) else name]
    return np.asarray(found.get_xdata()).tolist(), np.asarray(found.get_ydata()).tolist()


def check_that_texts_stand_apart(chart: show.Chart) -> None:
    canvas: Any = FigureCanvasAgg(chart.figure)
    canvas.draw()
    page = chart.figure.bbox.padded(1)
    seen = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in _texts(chart)]
    assert not [text for text, box in seen if not (page.fully_contains(*box.min) and page.fully_contains(*box.max))]
    shrunk = [(text, box.padded(-1.5)) for text, box in seen]  # a letter's own margin may touch
    assert not [(a, b) for (a, one), (b, other) in itertools.combinations(shrunk, 2) if one.overlaps(other)]


def _texts(chart: show.Chart) -> list[Text]:
    """Matplotlib keeps ticks that lie outside of their axes, and does not draw them."""
    axes: list[Any] = [axis for one in chart.figure.axes for axis in (one.xaxis, one.yaxis)]
    ticks = [(tick, *sorted(axis.get_view_interval())) for axis in axes for tick in axis.get_major_ticks()]
    away = [tick for tick, low, high in ticks if not low <= tick.get_loc() <= high or not tick.axes.axison]
    outside = [label for tick in away for label in (tick.label1, tick.label2)]
    there = [text for text in chart.figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    return [text for text in there if text not in outside]
