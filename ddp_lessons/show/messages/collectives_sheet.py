"""All collectives on one sheet: what each rank held before and after, and an arrow for every value that moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ddp_lessons.record.colors import rank_color
from ddp_lessons.run.launch import launch
from ddp_lessons.show.messages.collective_examples import Pair, run_examples
from ddp_lessons.show.page.boxes import draw_arrow, draw_box, draw_lines
from ddp_lessons.show.page.picture import (
    FAINT,
    INK,
    LINE,
    PAPER,
    Picture,
    count,
    drawn_in_house_style,
    new_figure,
    text_size,
)

# In the columns of the table that closes the lesson. gloo and NCCL both have the form with a single tensor.
SHEET = (
    ("scatter", "gather", "all_gather", "all_to_all_single"),
    ("broadcast", "reduce", "all_reduce", "reduce_scatter"),
)
WIDTH, LEFT = 9.6 * 72, 6.0  # points
TITLE, ROW, BETWEEN, SIZE = 24.0, 25.0, 14.0, 8.5


@drawn_in_house_style
def collectives(world_size: int = 3) -> Picture:
    """Run eight collectives on a few numbers, here and now, and draw them all on one sheet.

    A row is a rank: on the left what it brings, on the right what it has afterwards. Rank 2 brings 20, 21, ... An arrow
    has the color of the rank that a value comes from. Where ranks add up, every value goes into every sum.

    Raises:
        ValueError: there are not two to four ranks, for whom there is room.
    """
    if world_size not in range(2, 5):
        raise ValueError(f"there is room for 2 to 4 ranks on a sheet, not {world_size}")
    names = [name for row in SHEET for name in row]
    ranks = launch(run_examples, world_size, names, quiet=True)
    pairs = {name: [pairs[number] for pairs in ranks] for number, name in enumerate(names)}
    figure, axes = _draw(pairs, world_size)
    alt = f"Eight collectives of {count(world_size, 'rank')}, each before and after, with an arrow for what moved."
    return Picture(figure, axes, "\n\n".join(_text(name, held) for name, held in pairs.items()), alt)


def moves(name: str, held: Sequence[Pair]) -> list[tuple[int, int]]:
    """From which rank to which something went, also from a rank to itself: by the values that were found there."""
    origins = {value: rank for rank, (before, _) in enumerate(held) for tensor in before for value in tensor}
    found = set()
    for receiver, (_, after) in enumerate(held):
        values = [value for tensor in after for value in tensor]
        if "reduce" in name:  # a sum: it has something of everybody
            found |= {(sender, receiver) for sender in range(len(held)) if values}
        else:
            found |= {(origins[value], receiver) for value in values}
    return sorted(found)


def _draw(pairs: dict[str, list[Pair]], world_size: int) -> tuple[Figure, Axes]:
    """The axes count in points."""
    panel = TITLE + world_size * ROW
    height = len(SHEET) * panel + (len(SHEET) - 1) * BETWEEN + 6
    figure = new_figure(WIDTH / 72, height / 72)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    for row, names in enumerate(SHEET):
        wide = (WIDTH - LEFT) / len(names)
        for column, name in enumerate(names):
            _draw_panel(axes, name, pairs[name], (LEFT + column * wide, row * (panel + BETWEEN)), wide)
    return figure, axes


def _draw_panel(axes: Axes, name: str, held: Sequence[Pair], corner: tuple[float, float], wide: float) -> None:
    x, y = corner
    title = name.removesuffix("_single") + " (sum)" * ("reduce" in name)
    axes.text(
        x + wide / 2, y + TITLE / 2, title, fontsize=9.5, weight="bold", ha="center", va="center", gid=f"title {name}"
    )
    texts = [[_show(side) for side in pair] for pair in held]
    room = max(text_size(text, SIZE)[0] for pair in texts for text in pair) + 10
    left, right = x + 16 + room / 2, x + wide - 14 - room / 2
    middles = [y + TITLE + (rank + 0.5) * ROW for rank in range(len(held))]
    for sender, receiver in moves(name, held):
        color, gid = rank_color(sender), f"arrow {name} {sender} {receiver}"
        draw_arrow(axes, (left + room / 2, middles[sender]), (right - room / 2, middles[receiver]), color, gid, lw=1.1)
    for rank, middle in enumerate(middles):
        axes.text(x + 4, middle, str(rank), fontsize=SIZE, color=rank_color(rank), weight="bold", va="center_baseline")
        for place, text, when in zip((left, right), texts[rank], ("before", "after"), strict=True):
            style = {} if text else {"facecolor": PAPER, "ls": ":"}
            draw_box(axes, (place, middle), (room, ROW - 8), rank_color(rank) if text else LINE, f"box {name}", **style)
            draw_lines(axes, (place, middle), [text], SIZE, f"{when} {name} {rank}", INK if text else FAINT)


def _show(held: Sequence[Sequence[Any]]) -> str:
    return " ".join(str(value) for tensor in held for value in tensor)


def _text(name: str, held: Sequence[Pair]) -> str:
    rows = [
        f"rank {rank}: {_show(before) or '-'} -> {_show(after) or '-'}" for rank, (before, after) in enumerate(held)
    ]
    return "\n".join([name, *rows])
