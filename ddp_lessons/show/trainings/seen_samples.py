"""Which rank saw which sample: a row for each rank, a column for each sample, and below them how often each was seen.

Many samples share a column, in which the height of a bar is the fraction of these samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.show.figures.drawing import FONT_SIZE, Bars, Box, Drawing, Shape, Words
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.layouts import LINE_HEIGHT, figure_of, fits, key_at, name_rank, notes_at, wrapped
from ddp_lessons.show.figures.palette import color_of_rank, ink_on, width_of

LEFT, HEAD, ROW, GAP = 75.0, 20.0, 20.0, 8.0  # pixels
BESIDE, MAP = 700.0, 340.0  # pages of this width have indices beside samples of this width
WIDEST, NARROWEST, COARSE, READABLE = 26.0, 3.0, 2.5, 9.0  # of a column; narrower ones are shared
SMALLEST = 0.12  # fraction of a row's height
MOST_OF_TEXT = 16  # indices in a line of the text
FIGURE_SPACE = "\u2007"  # as wide as a digit
Kind = tuple[Any, tuple[str, str], bool, str]  # which samples, fill and edge, whether bars hang down, the name


class Columns:
    """The columns of the samples, on a page of this width."""

    def __init__(self, total: int, page: float) -> None:
        number = 10 + max(width_of(text, FONT_SIZE) for text in ("seen", f"{total:,}"))
        self.is_beside = page >= BESIDE
        room = MAP if self.is_beside else page - LEFT - number - 6
        self.is_coarse = room / total < NARROWEST
        columns = min(total, int(room / COARSE)) if self.is_coarse else total
        self.edges = np.linspace(0, total, columns + 1).round().astype(int)
        self.width = min(WIDEST, room / columns)
        self.right = LEFT + columns * self.width
        self.seen = self.right + number  # the right edge of these numbers
        self.order = self.seen + 16 if self.is_beside else LEFT  # the left edge of the indices in their order
        self.page = page

    def bars(self, y: float, height: float, is_meant: Any, color: str, edge: str = "none") -> Bars:
        """The fraction of each column's samples, high enough to make a single sample visible."""
        parts = np.add.reduceat(is_meant.astype(int), self.edges[:-1]) / np.diff(self.edges)
        heights = [round(float(max(part, SMALLEST)), 2) if part else 0 for part in parts]
        gap = 0.0 if self.is_coarse else 0.5 if self.width < 6 else 2.0
        return Bars(LEFT + gap / 2, y, self.width, height, heights, color, edge, gap)

    def listed(self, indices: Any, name: str = "") -> str:
        """As many indices as fit; lines below each other form columns."""
        digits = len(str(self.edges[-1] - 1))
        words = [*[name] * bool(name), *(str(index).rjust(digits, FIGURE_SPACE) for index in indices)]
        lines = (
            FIGURE_SPACE.join([*words[:end], *["…"] * (end < len(words))]) for end in range(min(len(words), 99), 0, -1)
        )
        return next((line for line in lines if fits(line, self.page - self.order - 8)), "…")


def samples(results: Sequence[Sequence[int]], total: int) -> Figure:
    """Draw which rank saw which samples, which were never seen, and which more than once.

    Args:
        results: by rank, the indices that it saw, in order.
        total: how many samples there are.

    Raises:
        TypeError: the results aren't indices.
        ValueError: an index is below 0, or not below the total.
    """
    by_rank = [_indices(rank, seen, total) for rank, seen in enumerate(results)]
    times = np.bincount(np.concatenate(by_rank), minlength=total)
    never, often = np.flatnonzero(times == 0), np.flatnonzero(times > 1)
    word = "twice" if times.max() <= 2 else "twice or more"
    lists = {name: indices for name, indices in (("never", never), (word, often)) if len(indices)}
    summary = _summary(total, len(never), len(often), word)
    head = f"Samples seen by {count(len(by_rank), 'rank')}, out of {total:,}:"
    lines = [f"rank {rank} | {len(seen):>6,} | {_beginning(seen)}".rstrip() for rank, seen in enumerate(by_rank)]
    lines += [f"{name}: {_beginning(indices)}" for name, indices in lists.items()]
    text = "\n".join([head, "", summary, *lines])
    return figure_of(lambda width: _draw(by_rank, times, lists, summary, width), text, f"{head} {summary}.")


def _indices(rank: int, seen: Any, total: int) -> Any:
    indices = np.asarray(seen)
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        found = f"rank {rank} returned a value of type {type(seen).__name__}"
        raise TypeError(f"every rank must return the list of the indices that it saw, but {found}")
    outside = indices[(indices < 0) | (indices >= total)]
    if outside.size:
        found = f"rank {rank} saw {outside[0]}"
        raise ValueError(f"the indices of {count(total, 'sample')} go from 0 to {total - 1}, but {found}")
    return indices.astype(int)


def _summary(total: int, never: int, often: int, word: str) -> str:
    if never:
        repeated = f", {often:,} {word} ({_percent(often, total)})" * bool(often)
        return f"{_percent(total - never, total)} of {total:,} samples seen, {never:,} never{repeated}"
    return f"every sample seen, {often:,} of {total:,} {word}" if often else "every sample seen exactly once"


def _percent(part: int, whole: int) -> str:
    """A rounded percentage; only all of the samples are "100.0%"."""
    return f"{min(round(1000 * part / whole), 1000 if part == whole else 999) / 10}%"


def _beginning(indices: Any) -> str:
    return " ".join(map(str, indices[:MOST_OF_TEXT])) + " ..." * (len(indices) > MOST_OF_TEXT)


def _draw(by_rank: Sequence[Any], times: Any, lists: dict[str, Any], summary: str, width: float) -> Drawing:
    columns = Columns(len(times), width)
    shapes, y = [*_name_columns(columns)], HEAD
    for line in wrapped(summary, 0.9 * width - 8):  # bold is wider
        shapes.append(Words(4, y + 10, line, "alarm" if "never" in lists else "ink", is_bold=True))
        y += LINE_HEIGHT
    y += 3
    for rank, seen in enumerate(by_rank):
        middle = y + ROW / 2
        is_seen = np.isin(np.arange(len(times)), seen)
        shapes += name_rank(rank, middle)
        shapes.append(Box(LEFT, y + 1, columns.right - LEFT, ROW - 2, fill="band"))
        shapes.append(columns.bars(y + ROW - 1, ROW - 2, is_seen, color_of_rank(rank)))
        shapes.append(Words(columns.seen, middle, f"{len(seen):,}", anchor="end"))
        shapes.append(Words(columns.order, middle if columns.is_beside else y + ROW + 6, columns.listed(seen)))
        y += ROW if columns.is_beside else ROW + LINE_HEIGHT - 2
    kinds = _kinds(columns, times)
    high = 46.0 if columns.is_coarse else 28.0
    shapes += _times(columns, times, kinds, y, high)
    pitch = 14 if columns.is_beside else LINE_HEIGHT
    first = y + (high - (len(lists) - 1) * pitch) / 2 if columns.is_beside else y + high + pitch / 2
    for turn, (name, indices) in enumerate(lists.items()):
        color = "alarm" if name == "never" else "ink"
        shapes.append(Words(columns.order, first + turn * pitch, columns.listed(indices, f"{name}:"), color))
    y = max(y + high, first + (len(lists) - 0.5) * pitch) + GAP
    key, y = key_at(y, [(Box(0, -5, 16, 10, *look), name) for _, look, _, name in kinds], width)
    notes, y = notes_at(y, ["bar height: fraction of the samples in the column"] * columns.is_coarse, width)
    return Drawing(width, y + 4, [*shapes, *key, *notes])


def _kinds(columns: Columns, times: Any) -> list[Kind]:
    """The kinds of bars in the last row, from back to front."""
    alarm = ("paper", "alarm") if columns.width >= READABLE else ("alarm", "none")
    kinds = [
        (times >= 0, ("line", "none"), False, "seen once"),
        (times > 1, ("collective", "none"), False, "seen twice or more"),
        (times == 0, alarm, True, "never seen" + ", from the top" * columns.is_coarse),
    ]
    return [kind for kind in kinds if kind[0].any()]


def _times(columns: Columns, times: Any, kinds: Sequence[Kind], y: float, high: float) -> Iterator[Shape]:
    """The last row, with how often each sample was seen."""
    for is_meant, look, is_from_above, _ in kinds:
        foot, size = (y + 2, 4 - high) if is_from_above else (y + high - 2, high - 4)
        yield columns.bars(foot, size, is_meant, *look)
    yield Words(4, y + high / 2, "times seen")
    for sample, number in enumerate(times if columns.width >= READABLE else []):
        ink = "alarm" if number == 0 else "ink" if number == 1 else ink_on("collective")
        x = LEFT + (sample + 0.5) * columns.width
        yield Words(x, y + high / 2, str(number), ink, "middle", is_bold=bool(number != 1))


def _name_columns(columns: Columns) -> Iterator[Shape]:
    """As many sample indices as fit, and the names of the columns next to them."""
    yield Words(4, HEAD / 2, "sample", "faint")
    yield Words(columns.seen, HEAD / 2, "seen", "faint", "end")
    if columns.is_beside:
        yield Words(columns.order, HEAD / 2, "in this order", "faint")
    total = int(columns.edges[-1])
    per_sample = (columns.right - LEFT) / total
    steps = (size * 10**power for power in range(9) for size in (1, 2, 5))
    every = next(step for step in steps if fits(f"{total:,}", step * per_sample - 8) or step * 2 > total)
    for sample in range(0, total, every):
        x = LEFT + (sample + (0 if columns.is_coarse else 0.5)) * per_sample
        yield Words(x, HEAD / 2, f"{sample:,}", anchor="middle")
