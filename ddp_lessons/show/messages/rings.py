"""The steps of a ring: what each rank sends to its neighbor, step by step, as it was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from ddp_lessons.record.colors import rank_color
from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.show.page.boxes import (
    LINE_HEIGHT,
    draw_arrow,
    draw_box,
    draw_lines,
    name_column,
    name_row,
    numbers_of,
    show_numbers,
    wrap,
)
from ddp_lessons.show.page.picture import (
    FAINT,
    Picture,
    count,
    drawn_in_house_style,
    events_of,
    new_figure,
    show_bytes,
    text_size,
    write_picture,
)
from ddp_lessons.show.timelines.timeline_picture import NOTHING

MOST_STEPS = 32
LEFT, HEAD, FOOT = 52.0, 24.0, 6.0  # points
NO_SENDS = "No rank sent a message: a ring is made of send and recv."


@dataclass(frozen=True)
class Box:
    """What is drawn for one rank in one row: some text and, in a step, to whom it goes."""

    text: str
    to: int | None = None
    has_arrived: bool = True


Row = tuple[str, list[Box | None]]  # its name, and a box by rank


@drawn_in_house_style
def ring(results: Any, before: Any = None) -> Picture:
    """Draw a row for each step, a column for each rank, and in each box what the rank sends to its neighbor then.

    The k-th message that a rank sends is its step k. Record the values, `launch(..., record="values")`: otherwise the
    boxes hold bytes. The rows around the steps are what the ranks began with, if you give it, and what they returned;
    from a function that returns a pair of tensors, before and after, both are taken.
    """
    events = events_of(results)
    if not len(events):
        return write_picture(NOTHING)
    steps = _steps(events)
    if not steps:
        return write_picture(NO_SENDS)
    first, last = _before_and_after(results)
    first = first if before is None else [numbers_of(value) for value in before]
    shown = steps[:MOST_STEPS]
    rows = [*_row_of_tensors("before", first), *shown, *_row_of_tensors("after", last)]
    rest = f"{count(len(steps) - len(shown), 'further step')} left out." if len(steps) > len(shown) else ""
    alt = (
        f"{count(len(steps), 'step')} of messages between {count(events.world_size, 'rank')}, "
        f"a row for each step with what each rank sends in it."
    )
    figure, axes = _draw(rows, events.world_size, rest)
    return Picture(figure, axes, _text(rows, events.world_size, rest), alt)


def _steps(events: Events) -> list[Row]:
    arrived = {id(delivery.send) for delivery in events.deliveries if delivery.arrived is not None}
    sends = [
        [event for event in events.of(rank) if event.operation == "send" and event.took_part]
        for rank in range(events.world_size)
    ]
    return [
        (f"step {k + 1}", [_box(mine[k], id(mine[k]) in arrived) if k < len(mine) else None for mine in sends])
        for k in range(max(map(len, sends)))
    ]


def _box(send: Event, has_arrived: bool) -> Box:
    text = show_bytes(send.bytes) if send.values is None else show_numbers(send.values)
    return Box(text, send.peer, has_arrived)


def _before_and_after(results: Any) -> tuple[list[Any], list[Any]]:
    """The tensors that the ranks returned; nothing where they returned something else."""
    values = getattr(getattr(results, "results", results), "values", ())
    if not isinstance(values, tuple):
        return [], []
    if values and all(
        isinstance(v, (tuple, list)) and len(v) == 2 and all(hasattr(t, "tolist") for t in v) for v in values
    ):
        return [numbers_of(value[0]) for value in values], [numbers_of(value[1]) for value in values]
    return [], [numbers_of(value) for value in values]


def _row_of_tensors(name: str, tensors: Sequence[list[float] | None]) -> list[Row]:
    boxes = [None if numbers is None else Box(show_numbers(numbers)) for numbers in tensors]
    return [(name, boxes)] if any(boxes) else []


def _draw(rows: Sequence[Row], ranks: int, rest: str) -> tuple[Any, Axes]:
    """The axes count in points, so that boxes and arrows have the size of their text."""
    size = 8.5 if ranks <= 8 else 6.5
    widest = max(text_size(box.text, size)[0] for _, boxes in rows for box in boxes if box)
    pitch = min(max(widest + 40, 84), (9.6 * 72 - LEFT - 13) / ranks)
    gap = min(26.0, pitch * 0.28)
    longest = max(text_size(word, size)[0] for _, boxes in rows for box in boxes if box for word in box.text.split())
    size = max(4.5, size * min(1, (pitch - gap - 4) / longest))
    lines = [[wrap(box.text, pitch - gap - 6, size) if box else [] for box in boxes] for _, boxes in rows]
    heights = [max(map(len, row)) * size * LINE_HEIGHT + 8 for row in lines]
    width, height = LEFT + ranks * pitch + gap / 2, HEAD + sum(heights) + 12 * len(rows) + FOOT + 12 * bool(rest)
    figure = new_figure(width / 72, height / 72)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for rank in range(ranks):
        name_column(
            axes,
            LEFT + (rank + 0.5) * pitch,
            HEAD / 2,
            rank,
            rank_color(rank),
            9 if ranks <= 8 else 7.5,
            "rank " if ranks <= 10 else "",
        )
    y = HEAD
    for (name, boxes), texts, tall in zip(rows, lines, heights, strict=True):
        name_row(axes, 4, y + tall / 2, name)
        for rank, box in enumerate(boxes):
            if box:
                middle = LEFT + (rank + 0.5) * pitch, y + tall / 2
                dashes = "-" if box.has_arrived else (0, (2, 2))
                draw_box(axes, middle, (pitch - gap, tall), rank_color(rank), f"box {name} {rank}", linestyle=dashes)
                draw_lines(axes, middle, texts[rank], size, f"values {name} {rank}")
                _draw_way(axes, box, rank, ranks, middle, (pitch, gap), name)
        y += tall + 12
    axes.text(4, height - 9, rest, fontsize=8, color=FAINT)
    return figure, axes


def _draw_way(
    axes: Axes, box: Box, rank: int, ranks: int, middle: tuple[float, float], wide: tuple[float, float], row: str
) -> None:
    """An arrow into the gap on the right. From the last rank it comes in again on the left; other ways are named."""
    (x, y), (pitch, gap) = middle, wide
    if box.to is None:
        return
    color, gid, edge = rank_color(rank), f"arrow {row} {rank} {box.to}", x + (pitch - gap) / 2
    is_backward = box.to == (rank - 1) % ranks and ranks > 2
    if box.to == (rank + 1) % ranks:
        draw_arrow(axes, (edge, y), (edge + gap - 1, y), color, gid)
        if rank == ranks - 1:
            draw_arrow(axes, (LEFT - gap / 2 + 1, y), (LEFT + gap / 2 - 1, y), color, f"{gid} again")
    elif is_backward:
        edge = x - (pitch - gap) / 2
        draw_arrow(axes, (edge, y), (edge - gap + 1, y), color, gid)
        if rank == 0:
            right = LEFT + ranks * pitch
            draw_arrow(axes, (right, y), (right - gap / 2 + 1, y), color, f"{gid} again")
    else:
        axes.text(edge + 1.5, y, f"→{box.to}", fontsize=7, va="center_baseline", gid=gid)


def _text(rows: Sequence[Row], ranks: int, rest: str) -> str:
    head = ["", *(f"rank {rank}" for rank in range(ranks))]
    table = [head, *([name, *map(_cell, boxes)] for name, boxes in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join([*lines, *[rest] * bool(rest)])


def _cell(box: Box | None) -> str:
    if box is None:
        return ""
    return (
        box.text + (f" ->{box.to}" if box.to is not None else "") + (" (not received)" if not box.has_arrived else "")
    )
