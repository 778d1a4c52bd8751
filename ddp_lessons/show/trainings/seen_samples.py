"""Who saw which sample: a row for each rank, a column for each sample, and below them how often it was seen in all.

Few samples have a cell each. Many share a column, whose bar is as high as the part of them that the rank saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ddp_lessons.show.figures.drawing import COMMON, Bars, Box, Drawing, Shape, color_of_rank, ink_on, width_of
from ddp_lessons.show.figures.figure import Figure, write_figure
from ddp_lessons.show.figures.layouts import LINE_HEIGHT, figure_of, fits, key_at, label, name_rank, notes_at, wrapped
from ddp_lessons.show.page.picture import count
from ddp_lessons.show.trainings.sample_counts import Epoch, describe_epochs, read_epochs, tell_epochs

LEFT, HEAD, TIMES, TIMES_OF_MANY, CLOSE, GAP = 75.0, 20.0, 28.0, 46.0, 14.0, 8.0  # pixels
BESIDE, MAP = 700.0, 340.0  # from this width on, indices are next to the samples, which then have so much of it
WIDEST, NARROWEST, COARSE, READABLE = 26.0, 3.0, 2.5, 9.0  # of a column; below the narrowest, samples share one
HIGHEST = 900.0  # pixels, for all epochs together
SMALLEST = 0.12  # part of a row's height
FIGURE_SPACE = "\u2007"  # as wide as a digit


@dataclass(frozen=True)
class Columns:
    """Where samples lie between left and right."""

    total: int
    page: float

    @property
    def is_beside(self) -> bool:
        return self.page >= BESIDE

    @property
    def room(self) -> float:
        return MAP if self.is_beside else self.page - LEFT - self.number - 6

    @property
    def number(self) -> float:
        """How wide the numbers of samples next to the rows are."""
        return 10 + max(width_of(text, COMMON) for text in ("seen", f"{self.total:,}"))

    @property
    def is_coarse(self) -> bool:
        return self.room / self.total < NARROWEST

    @property
    def is_readable(self) -> bool:
        return not self.is_coarse and self.width >= READABLE

    @property
    def width(self) -> float:
        return min(WIDEST, self.room / (len(self.edges) - 1))

    @cached_property
    def edges(self) -> Any:
        """The first sample of every column, and the end."""
        columns = int(self.room / COARSE) if self.is_coarse else self.total
        return np.linspace(0, self.total, min(self.total, columns) + 1).round().astype(int)

    def parts(self, samples: Any) -> Any:
        """Of each column's samples, the part that is among these; a single one is drawn larger, so that it is seen."""
        is_there = np.zeros(self.total, dtype=int)
        is_there[samples] = 1
        parts = np.add.reduceat(is_there, self.edges[:-1]) / np.diff(self.edges)
        return np.where(parts > 0, np.maximum(parts, SMALLEST), 0)

    def middle(self, sample: int) -> float:
        return LEFT + (sample + 0.5) * self.width

    @property
    def right(self) -> float:
        return LEFT + (len(self.edges) - 1) * self.width

    @property
    def seen(self) -> float:
        """Where these numbers end."""
        return self.right + self.number

    @property
    def order(self) -> float:
        """Where the indices in their order begin."""
        return self.seen + 16 if self.is_beside else LEFT

    def bars(self, y: float, height: float, parts: Any, color: str, edge: str = "none") -> Bars:
        gap = 0.0 if self.is_coarse else 0.5 if self.width < 6 else 2.0
        place = LEFT + gap / 2, y, self.width, height
        return Bars(*place, [round(float(part), 2) for part in parts], color, edge, gap)


def samples(results: Any, total: int | None = None, title: str | None = None) -> Figure:
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
        return write_figure("No rank saw any sample.")
    text, alt = tell_epochs(epochs, has_epochs), describe_epochs(epochs, has_epochs)
    return figure_of(lambda width: _draw(epochs, has_epochs, width), title, text, alt)


def _draw(epochs: Sequence[Epoch], has_epochs: bool, width: float) -> Drawing:
    columns = Columns(epochs[0].total, width)
    row = 20.0 if len(epochs[0].by_rank) <= 4 else 16.0
    shown = epochs[: max(2, int(HIGHEST // (HEAD + TIMES + GAP + row * len(epochs[0].by_rank))))]
    shapes, y = [*_name_columns(columns)], HEAD
    for epoch in shown:
        words = f"epoch {epoch.number}: {epoch.summary}" if has_epochs else epoch.summary
        for line in wrapped(words, 0.9 * width - 8):  # bold is wider
            shapes.append(label(4, y + 10, line, "alarm" if epoch.is_bad else "ink", is_bold=True))
            y += LINE_HEIGHT
        y += 3
        for rank, seen in enumerate(epoch.by_rank):
            shapes += _row(columns, rank, seen, y, row)
            y += row if columns.is_beside else row + LINE_HEIGHT - 2
        times, y = _times(columns, epoch, y)
        shapes += times
        y += GAP
    key, y = key_at(y, _key(shown, columns), width)
    notes = ["height of a bar: the part of the samples there"] * columns.is_coarse
    notes += [f"{count(len(epochs) - len(shown), 'further epoch')} left out"] * (len(shown) < len(epochs))
    words_below, y = notes_at(y, notes, width)
    return Drawing(width, y + 4, [*shapes, *key, *words_below])


def _name_columns(columns: Columns) -> Iterator[Shape]:
    """As many numbers of samples as fit, and the names of the columns next to them."""
    yield label(4, HEAD / 2, "sample", "faint")
    yield label(columns.seen, HEAD / 2, "seen", "faint", "end")
    if columns.is_beside:
        yield label(columns.order, HEAD / 2, "in this order", "faint")
    per_sample = columns.width * (len(columns.edges) - 1) / columns.total
    steps = (size * 10**power for power in range(9) for size in (1, 2, 5))
    last = f"{columns.total:,}"
    every = next(step for step in steps if fits(last, step * per_sample - 8) or step * 2 > columns.total)
    for sample in range(0, columns.total, every):
        x = LEFT + (sample + (0 if columns.is_coarse else 0.5)) * per_sample
        yield label(x, HEAD / 2, f"{sample:,}", anchor="middle")


def _row(columns: Columns, rank: int, seen: Any, y: float, row: float) -> Iterator[Shape]:
    """What one rank saw, with its order next to it or below."""
    middle, color = y + row / 2, color_of_rank(rank)
    beside = middle if columns.is_beside else y + row + 6
    yield from name_rank(rank, middle)
    yield Box(LEFT, y + 1, columns.right - LEFT, row - 2, fill="band")
    if seen is None:
        yield label(columns.order, beside, "had no such epoch (so far)", "faint")
        return
    yield columns.bars(y + row - 1, row - 2, columns.parts(seen), color)
    if columns.is_readable:
        times = np.bincount(seen, minlength=columns.total)
        for sample in map(int, np.flatnonzero(times > 1)):  # which it saw more than once itself
            yield label(columns.middle(sample), middle, str(times[sample]), ink_on(color), "middle")
    yield label(columns.seen, middle, f"{len(seen):,}", anchor="end")
    yield label(columns.order, beside, _fitting(columns, "", seen))


def _times(columns: Columns, epoch: Epoch, top: float) -> tuple[list[Shape], float]:
    """The last row, never seen, seen once, seen more than once; and where it ends, with the lists of these."""
    high = TIMES_OF_MANY if columns.is_coarse else TIMES
    middle, foot, size = top + high / 2, top + high - 2, high - 4
    never, often = columns.parts(epoch.never), columns.parts(epoch.often)
    never = np.minimum(never, 1 - often * (never < 1))  # small ones are drawn larger than they are
    alarm = ("paper", "alarm") if columns.is_readable else ("alarm", "none")
    shapes: list[Shape] = [
        label(4, middle, "times seen"),
        columns.bars(foot, size, np.ones(len(columns.edges) - 1), "line"),
        columns.bars(foot, size, often, "collective"),
        columns.bars(top + 2, -size, never, *alarm),
    ]
    for sample, times in enumerate(epoch.times if columns.is_readable else []):
        ink = "alarm" if times == 0 else "ink" if times == 1 else ink_on("collective")
        shapes.append(label(columns.middle(sample), middle, str(times), ink, "middle", is_bold=bool(times != 1)))
    lists = [("never:", epoch.never, "alarm"), (f"{epoch.often_words}:", epoch.often, "ink")]
    lists = [one for one in lists if len(one[1])]
    pitch = CLOSE if columns.is_beside else LINE_HEIGHT
    first = middle - (len(lists) - 1) * pitch / 2 if columns.is_beside else top + high + pitch / 2
    for turn, (name, which, color) in enumerate(lists):
        shapes.append(label(columns.order, first + turn * pitch, _fitting(columns, name, which), color))
    return shapes, max(top + high, first + (len(lists) - 0.5) * pitch)


def _fitting(columns: Columns, name: str, indices: Any) -> str:
    """As many of them as there is room for, in one line; below each other they stand in columns."""
    digits, room = len(str(columns.total - 1)), columns.page - columns.order - 8
    words = [name] * bool(name)
    for turn, index in enumerate(indices[:100]):
        words.append(str(index).rjust(digits, FIGURE_SPACE))
        rest = ["…"] if turn + 1 < len(indices) else []
        if not fits(FIGURE_SPACE.join(words + rest), room):
            return FIGURE_SPACE.join([*words[:-1], "…"])
    return FIGURE_SPACE.join(words)


def _key(epochs: Sequence[Epoch], columns: Columns) -> list[tuple[Shape, str]]:
    """The signs of the last row that occur."""
    never = ("paper", "alarm") if columns.is_readable else ("alarm", "none")
    signs = [
        (never, "seen by no rank" + ", from above" * columns.is_coarse, any(len(epoch.never) for epoch in epochs)),
        (("line", "none"), "seen once", True),
        (("collective", "none"), "seen twice or more", any(len(epoch.often) for epoch in epochs)),
    ]
    return [(Box(0, -5, 16, 10, *look), name) for look, name, occurs in signs if occurs]
