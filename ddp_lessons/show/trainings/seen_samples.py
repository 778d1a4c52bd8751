"""Who saw which sample: a row for each rank, a column for each sample, and below them how often it was seen in all.

Few samples have a cell each. Many share a column, whose bar is as high as the part of them that the rank saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ddp_lessons.record.colors import rank_color
from ddp_lessons.show.page.picture import (
    ALARM,
    BAND,
    COLLECTIVE,
    FAINT,
    HATCH_FOR_EVER,
    INK,
    LINE,
    PAPER,
    SHADES,
    Picture,
    count,
    drawn_in_house_style,
    ink_on,
    new_figure,
    text_size,
    write_picture,
)
from ddp_lessons.show.trainings.sample_counts import Epoch, describe_epochs, read_epochs, tell_epochs

WIDTH, LEFT, MAP = 690.0, 76.0, 330.0  # points; and where a row of samples begins, and how long it is at most
HEAD, TOTAL, TOTAL_OF_MANY, FOOT, GAP = 20.0, 24.0, 46.0, 20.0, 8.0
WIDEST, NARROWEST, COARSE = 24.0, 3.0, 2.0  # of a column; below the narrowest, samples share one
HIGHEST = 680.0  # points, for all epochs together
SMALLEST = 0.12  # part of a row's height
FIGURE_SPACE = "\u2007"  # as wide as a digit

LIGHT_ALARM = to_hex(tuple(part + (1 - part) * 8 / SHADES for part in to_rgb(ALARM)))  # type: ignore[arg-type]
Shape = list[tuple[float, float]]


@dataclass(frozen=True)
class Columns:
    """Where samples lie between left and right."""

    total: int

    @property
    def is_coarse(self) -> bool:
        return MAP / self.total < NARROWEST

    @property
    def width(self) -> float:
        return min(WIDEST, MAP / min(self.total, self.most))

    @property
    def most(self) -> int:
        return int(MAP / COARSE) if self.is_coarse else self.total

    @cached_property
    def edges(self) -> Any:
        """The first sample of every column, and the end."""
        return np.linspace(0, self.total, min(self.total, self.most) + 1).round().astype(int)

    def part(self, samples: Any) -> Any:
        """Of each column's samples, the part that is among these; a single one is drawn larger, so that it is seen."""
        is_there = np.zeros(self.total, dtype=int)
        is_there[samples] = 1
        parts = np.add.reduceat(is_there, self.edges[:-1]) / np.diff(self.edges)
        return np.where(parts > 0, np.maximum(parts, SMALLEST), 0)

    def x(self, column: float) -> float:
        return LEFT + column * self.width

    @property
    def total_height(self) -> float:
        """Of the last row: where it has three parts, it is higher."""
        return TOTAL_OF_MANY if self.is_coarse else TOTAL

    @property
    def right(self) -> float:
        return self.x(len(self.edges) - 1)

    @property
    def seen(self) -> float:
        """Where the numbers of samples end that stand beside the rows."""
        return self.right + 46

    @property
    def order(self) -> float:
        """Where the indices in their order begin."""
        return self.seen + 14

    def shapes(self, low: Any, high: Any) -> list[Shape]:
        """From a height to another one in every column, where there is something between them."""
        gap = 0.0 if self.is_coarse else 0.25 if self.width < 6 else 1.0
        sides = [(self.x(at) + gap, self.x(at + 1) - gap) for at in range(len(self.edges) - 1)]
        return [
            [(left, a), (right, a), (right, b), (left, b)]
            for (left, right), a, b in zip(sides, low, high, strict=True)
            if a != b
        ]


@drawn_in_house_style
def samples(results: Any, total: int | None = None, title: str | None = None) -> Picture:
    """Draw which rank saw which samples, which were never seen, and which more than once.

    Args:
        results: by rank, the indices that it saw in their order, or a list of such lists: one for each epoch.
        total: how many samples there are; without it, the highest index that anybody saw is the last.

    Raises:
        TypeError: these are not indices.
        ValueError: an index is below 0, or not below the total.
    """
    epochs, has_epochs = read_epochs(results, total)
    if not epochs:
        return write_picture("No rank saw any sample.")
    figure, axes = _draw(epochs, has_epochs, title)
    return Picture(figure, axes, tell_epochs(epochs, has_epochs), describe_epochs(epochs, has_epochs))


def _draw(epochs: Sequence[Epoch], has_epochs: bool, title: str | None) -> tuple[Figure, Axes]:
    """The axes count in points."""
    ranks, total = len(epochs[0].by_rank), epochs[0].total
    row = 20.0 if ranks <= 4 else 16.0 if ranks <= 8 else 13.0
    columns = Columns(total)
    block = HEAD + ranks * row + columns.total_height + GAP
    shown = epochs[: max(2, int(HIGHEST // block))]
    top = (20 if title else 4) + 16
    height = top + len(shown) * block + FOOT
    figure = new_figure(WIDTH / 72, height / 72)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    if title:
        axes.text(4, 12, title, fontsize=10, weight="bold", va="center", gid="title", parse_math=False)
    _name_columns(axes, columns, top - 8)
    for turn, epoch in enumerate(shown):
        _draw_epoch(axes, columns, epoch, top + turn * block, row, has_epochs)
    left_out = [f"{count(len(epochs) - len(shown), 'further epoch')} left out"] * (len(shown) < len(epochs))
    _draw_key(axes, shown, columns, height - FOOT / 2, left_out)
    return figure, axes


def _name_columns(axes: Axes, columns: Columns, y: float) -> None:
    """As many numbers of samples as there is room for, and the names of what stands beside."""
    style: dict[str, Any] = {"fontsize": 9, "color": FAINT, "va": "center_baseline"}
    axes.text(4, y, "sample", **style)
    axes.text(columns.seen, y, "seen", ha="right", **style)
    axes.text(columns.order, y, "in this order", **style)
    room = text_size(f"{columns.total:,}", 8)[0] + 8
    steps = (size * 10**power for power in range(9) for size in (1, 2, 5))
    per_sample = columns.width * (len(columns.edges) - 1) / columns.total
    every = next(step for step in steps if step * per_sample >= room or step * 2 > columns.total)
    for sample in range(0, columns.total, every):
        x = LEFT + (sample + (0 if columns.is_coarse else 0.5)) * per_sample
        axes.text(x, y, f"{sample:,}", fontsize=8, ha="center", va="center_baseline", gid=f"sample {sample}")


def _draw_epoch(axes: Axes, columns: Columns, epoch: Epoch, top: float, row: float, has_epochs: bool) -> None:
    gid = f"{epoch.number}"
    color = ALARM if epoch.is_bad else INK
    x = 4.0
    if has_epochs:
        name = f"epoch {epoch.number}:"
        axes.text(x, top + HEAD / 2, name, fontsize=9, weight="bold", va="center_baseline", gid=f"epoch {gid}")
        x += text_size(name, 9)[0] * 1.15 + 6
    axes.text(x, top + HEAD / 2, epoch.summary, fontsize=9, va="center_baseline", color=color, gid=f"summary {gid}")
    for rank, seen in enumerate(epoch.by_rank):
        y = top + HEAD + rank * row
        axes.plot(9, y + row / 2, "s", color=rank_color(rank), ms=6.5)
        axes.text(18, y + row / 2, f"rank {rank}", fontsize=9, va="center_baseline", gid=f"name {gid} {rank}")
        band = Rectangle((LEFT, y + 1), columns.right - LEFT, row - 2, facecolor=BAND, lw=0, zorder=0)
        axes.add_patch(band)
        if seen is None:
            words = "had no such epoch (so far)"
            axes.text(columns.order, y + row / 2, words, fontsize=8, color=FAINT, va="center_baseline")
            continue
        low = np.full(len(columns.edges) - 1, y + row - 1)
        shapes = columns.shapes(low, low - columns.part(seen) * (row - 2))
        _add(axes, shapes, f"seen {gid} {rank}", facecolors=rank_color(rank))
        _write_own_repeats(axes, columns, seen, rank, y + row / 2)
        style: dict[str, Any] = {"fontsize": 8, "va": "center_baseline"}
        axes.text(columns.seen, y + row / 2, f"{len(seen):,}", ha="right", gid=f"number {gid} {rank}", **style)
        axes.text(columns.order, y + row / 2, _fitting(columns, "", seen, 8), gid=f"order {gid} {rank}", **style)
    _draw_times(axes, columns, epoch, top + HEAD + len(epoch.by_rank) * row)


def _write_own_repeats(axes: Axes, columns: Columns, seen: Any, rank: int, y: float) -> None:
    """How often a rank saw a sample that it saw more than once."""
    if columns.width < 9 or columns.is_coarse:
        return
    times = np.bincount(seen, minlength=columns.total)
    for sample in np.flatnonzero(times > 1):
        style: dict[str, Any] = {"fontsize": 7.5, "ha": "center", "va": "center_baseline"}
        axes.text(columns.x(sample + 0.5), y, str(times[sample]), color=ink_on(rank_color(rank)), **style)


def _draw_times(axes: Axes, columns: Columns, epoch: Epoch, top: float) -> None:
    """The last row: never seen, seen once, seen more than once."""
    middle, high = top + columns.total_height / 2 + 1, columns.total_height - 4.0
    axes.text(4, middle, "times seen", fontsize=9, va="center_baseline", gid=f"times {epoch.number}")
    bottom = np.full(len(columns.edges) - 1, top + columns.total_height - 1)
    never, often = columns.part(epoch.never), columns.part(epoch.often)
    never = np.minimum(never, 1 - often * (never < 1))  # small ones are drawn larger than they are
    at_never, at_often = bottom - high + never * high, bottom - often * high
    _add(axes, columns.shapes(bottom, bottom - high), f"once {epoch.number}", facecolors=LINE)
    _add(axes, columns.shapes(bottom, at_often), f"often {epoch.number}", facecolors=COLLECTIVE)
    alarming: dict[str, Any] = {"facecolors": LIGHT_ALARM, "edgecolors": ALARM, "hatch": HATCH_FOR_EVER, "lw": 0.0}
    shapes = columns.shapes(bottom - high, at_never)
    if columns.width >= 9 and not columns.is_coarse:
        alarming |= {"facecolors": PAPER, "hatch": None, "lw": 1.4}
        shapes = [_inset(shape, 0.7) for shape in shapes]
    _add(axes, shapes, f"never {epoch.number}", **alarming)
    if columns.width >= 9 and not columns.is_coarse:
        for sample, times in enumerate(epoch.times):
            color = ALARM if times == 0 else ink_on(LINE if times == 1 else COLLECTIVE)
            style: dict[str, Any] = {"fontsize": 8, "ha": "center", "va": "center_baseline", "color": color}
            style["weight"] = "bold" if times != 1 else "normal"
            axes.text(columns.x(sample + 0.5), middle, str(times), gid=f"times {epoch.number} {sample}", **style)
    lists = [("never:", epoch.never, ALARM), (f"{epoch.often_words}:", epoch.often, INK)]
    lists = [one for one in lists if len(one[1])]
    for turn, (name, which, color) in enumerate(lists):
        y = middle + (turn - (len(lists) - 1) / 2) * 10.5
        words = _fitting(columns, name, which, 7.5)
        axes.text(
            columns.order, y, words, fontsize=7.5, va="center_baseline", color=color, gid=f"{name} {epoch.number}"
        )
        style = {"fontsize": 7.5, "va": "center_baseline", "ha": "right", "color": color}
        axes.text(columns.seen, y, f"{len(which):,}", gid=f"number of {name} {epoch.number}", **style)


def _inset(shape: Shape, by: float) -> Shape:
    """A frame lies on the middle of an edge: so much further inside, all of it is there."""
    (left, a), (right, _), (_, b), _ = shape
    low, high = max(a, b), min(a, b)
    return [(left + by, high + by), (right - by, high + by), (right - by, low - by), (left + by, low - by)]


def _fitting(columns: Columns, name: str, indices: Any, size: float) -> str:
    """As many of them as there is room for, in one line; below each other they stand in columns."""
    digits, room = len(str(columns.total - 1)), WIDTH - columns.order - 10
    words = [name] * bool(name)
    for turn, index in enumerate(indices[:100]):
        words.append(str(index).rjust(digits, FIGURE_SPACE))
        rest = ["…"] if turn + 1 < len(indices) else []
        if text_size("  ".join(words + rest), size)[0] > room:
            return "  ".join([*words[:-1], "…"])
    return "  ".join(words)


def _add(axes: Axes, shapes: Sequence[Shape], gid: str, **style: Any) -> None:
    collection = PolyCollection(shapes, **{"linewidths": 0, "zorder": 2, **style})
    collection.set_gid(gid)
    collection.set_antialiased(bool(style.get("lw")))
    axes.add_collection(collection, autolim=False)


def _draw_key(axes: Axes, epochs: Sequence[Epoch], columns: Columns, y: float, notes: Sequence[str]) -> None:
    """The signs of the last row that occur."""
    signs: list[tuple[str, dict[str, Any]]] = []
    if any(len(epoch.never) for epoch in epochs):
        signs.append(("seen by nobody", {"facecolor": PAPER, "edgecolor": ALARM, "lw": 1.2}))
    signs.append(("seen once", {"facecolor": LINE, "lw": 0}))
    if any(len(epoch.often) for epoch in epochs):
        signs.append(("seen twice or more", {"facecolor": COLLECTIVE, "lw": 0}))
    if columns.is_coarse:
        if signs[0][0] == "seen by nobody":
            signs[0][1].update({"lw": 0.6, "facecolor": LIGHT_ALARM, "hatch": HATCH_FOR_EVER})
        notes = ["height of a bar: the part of the samples there", *notes]
    x = LEFT
    for name, style in signs:
        axes.add_patch(Rectangle((x, y - 4.5), 14, 9, **style))
        axes.text(x + 18, y, name, fontsize=8, va="center_baseline", gid=f"key {name}")
        x += 18 + text_size(name, 8)[0] + 14
    axes.text(x, y, "; ".join(notes), fontsize=8, color=FAINT, va="center_baseline", gid="notes")
