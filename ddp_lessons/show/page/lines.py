"""What charts share: long curves made short without hiding a peak, the key and the title above, the cores behind."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ddp_lessons.record.colors import rank_color
from ddp_lessons.show.page.picture import BAND, FAINT, INK, LINE, new_figure, text_size

WIDTH = 7.2  # inches, of most charts
KEY_SIZE, KEY_ROW, HANDLE = 8.5, 14.0, 35.0  # points: the letters, a row, and a sign with the gaps around it


def new_axes(left: float, right: float, high: float, above: float, foot: float) -> tuple[Figure, Axes]:
    """The axes of a chart, so many inches high, with so many inches of paper around them."""
    height = above + high + foot
    figure = new_figure(WIDTH, height)
    axes = figure.add_axes((left / WIDTH, foot / height, (WIDTH - left - right) / WIDTH, high / height))
    draw_rulers(axes)
    return figure, axes


def draw_rulers(axes: Axes, axis: Literal["both", "y"] = "y") -> None:
    """Grid lines behind the curves, one at each tick."""
    axes.grid(axis=axis, color=LINE, lw=0.6)
    axes.set_axisbelow(True)


def thinned(x: Any, y: Any, most: int = 600) -> tuple[Any, Any]:
    """The lowest and the highest point of every stretch, so many points at most; x does not decrease, y has no nan."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) <= most:
        return x, y
    edges = np.linspace(0, len(y), most // 2 + 1).astype(int)
    stretches = list(itertools.pairwise(edges))
    chosen = {begin + extreme for begin, end in stretches for extreme in (y[begin:end].argmin(), y[begin:end].argmax())}
    kept = sorted({0, len(y) - 1, *map(int, chosen)})
    return x[kept], y[kept]


def color_of(name: str, index: int) -> str:
    """A rank's own color for "rank 2", else that of its turn."""
    is_rank = re.fullmatch(r"rank (\d+)", name)
    return rank_color(int(is_rank[1]) if is_rank else index)


def key_columns(names: Sequence[str], room: float) -> int:
    """How many columns the key may have, to stay within so many points."""
    for columns in range(len(names), 1, -1):
        rows = [names[begin : begin + columns] for begin in range(0, len(names), columns)]
        widths = [max(_width(row[column]) for row in rows if column < len(row)) for column in range(columns)]
        if sum(widths) <= room:
            return columns
    return 1


def height_above(names: Sequence[str], room: float, title: str | None) -> float:
    """In inches, of the key of these names, and of the title."""
    return (key_height(names, room) + 8 + (18 if title else 0)) / 72


def key_height(names: Sequence[str], room: float) -> float:
    return -(-len(names) // key_columns(names, room)) * KEY_ROW if names else 0.0


def draw_key_above(axes: Axes, room: float) -> None:
    """All that has a label, in rows above the axes, where it hides nothing."""
    handles, names = axes.get_legend_handles_labels()
    columns = key_columns(names, room)
    rows = -(-len(names) // columns)
    # matplotlib fills column by column, and we read row by row
    order = [row * columns + column for column in range(columns) for row in range(rows)]
    order = [place for place in order if place < len(names)]
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "ncols": columns, "borderaxespad": 0.3}
    style: dict[str, Any] = {"frameon": False, "fontsize": KEY_SIZE, "labelcolor": INK, "columnspacing": 1.2}
    style |= {"labelspacing": 0.35, "handlelength": 1.9}
    axes.legend([handles[i] for i in order], [names[i] for i in order], **place, **style)


def write_title(figure: Figure, title: str | None) -> None:
    width, height = figure.get_size_inches()
    if title:
        style: dict[str, Any] = {"fontsize": 10, "weight": "bold", "va": "center", "parse_math": False}
        figure.text(8 / 72 / width, 1 - 11 / 72 / height, title, gid="title", **style)


def draw_cores(axes: Axes, cores: int) -> None:
    """Where ranks have to share cores, the page is darker."""
    left, right = axes.get_xlim()
    if left < cores < right:
        axes.axvspan(cores, right, color=BAND, lw=0, zorder=0)
        axes.axvline(cores, color=FAINT, lw=0.9, ls="--", zorder=0.5, gid="cores")


def _width(name: str) -> float:
    return text_size(name, KEY_SIZE)[0] + HANDLE
