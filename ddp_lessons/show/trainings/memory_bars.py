"""How much of a training each rank holds: a bar for each rank, in parts, and the ways to share it below each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ddp_lessons.record.colors import rank_color
from ddp_lessons.show.page.picture import (
    FAINT,
    HATCH,
    INK,
    LINE,
    PAPER,
    SHADES,
    Picture,
    count,
    drawn_in_house_style,
    new_figure,
    show_bytes,
    text_size,
)

WIDTH, RIGHT, ROW, GAP, KEY, FOOT = 8.6, 0.15, 0.21, 0.1, 0.3, 0.12  # inches
NAME_SIZE, SIZE = 9.0, 8.0
MOST_PARTS = 4
Held = Mapping[str, int]


@drawn_in_house_style
def memory(ways: Mapping[str, Sequence[Held]], title: str | None = None) -> Picture:
    """Draw how many bytes every rank holds, in parts, for one way to train or for several.

    Args:
        ways: {"DDP": [{"parameters": 800, "gradients": 800}, ...], ...}: by rank, what it holds of each kind.
        title: a heading.

    Raises:
        TypeError: something in it is not of that form.
        ValueError: there is nothing to draw, there are more than four kinds, or a number is below 0.
    """
    held = _checked(ways)
    kinds = list(dict.fromkeys(kind for ranks in held.values() for rank in ranks for kind in rank))
    if len(kinds) > MOST_PARTS:
        raise ValueError(f"a bar has at most {MOST_PARTS} parts, and these are {len(kinds)}: {', '.join(kinds)}")
    figure, axes = _draw(held, kinds, title)
    return Picture(figure, axes, _text(held, kinds), _describe(held, kinds))


def _checked(ways: Any) -> dict[str, list[dict[str, int]]]:
    wanted = 'give a dict of names to what each rank holds, as in {"DDP": [{"parameters": 800}, {"parameters": 800}]}'
    if not isinstance(ways, Mapping):
        raise TypeError(f"{wanted}, and not something of type {type(ways).__name__}")
    held: dict[str, list[dict[str, int]]] = {}
    for name, ranks in ways.items():
        if isinstance(ranks, str | Mapping) or not isinstance(ranks, Sequence):
            raise TypeError(f"{wanted}; for {name!r} there is no list by rank, but a {type(ranks).__name__}")
        for rank, kinds in enumerate(ranks):
            if not isinstance(kinds, Mapping):
                raise TypeError(f"{wanted}; for {name!r}, rank {rank} has something of type {type(kinds).__name__}")
            for kind, number in kinds.items():
                if isinstance(number, bool) or not isinstance(number, int):
                    raise TypeError(f"{name!r}, rank {rank}: bytes are whole numbers, and {kind} is {number!r}")
                if number < 0:
                    raise ValueError(f"{name!r}, rank {rank}: bytes are not below 0, and {kind} is {number}")
        if not ranks:
            raise ValueError(f"there is nothing to draw for {name!r}, which has no ranks: {wanted}")
        held[str(name)] = [{str(kind): number for kind, number in kinds.items()} for kinds in ranks]
    if not held:
        raise ValueError(f"there is nothing to draw: {wanted}")
    return held


def _draw(held: Mapping[str, Sequence[Held]], kinds: Sequence[str], title: str | None) -> tuple[Figure, Axes]:
    """Rows of one height; a gap before each way. Everything in inches from the top."""
    rows = sum(map(len, held.values()))
    high = rows * ROW + len(held) * GAP
    above = KEY + (0.24 if title else 0.0)
    height = above + high + FOOT
    names = max(text_size(name, NAME_SIZE, weight="bold")[0] for name in held) / 72
    most_ranks = max(map(len, held.values()))
    left = names + max(text_size(f"rank {rank}", SIZE)[0] for rank in range(most_ranks)) / 72 + 0.62
    figure = new_figure(WIDTH, height)
    wide = WIDTH - left - RIGHT
    axes = figure.add_axes((left / WIDTH, FOOT / height, wide / WIDTH, high / height))
    totals = [sum(rank.values()) for ranks in held.values() for rank in ranks]
    most = max(1, *totals)
    room = max(text_size(show_bytes(total), SIZE)[0] for total in totals) / 72 + 0.25
    axes.set(xlim=(0, most * wide / (wide - room)), ylim=(high, 0), xticks=[], yticks=[])
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_visible(False)
    top = GAP / 2
    for number, (name, ranks) in enumerate(held.items()):
        bottom = top + len(ranks) * ROW
        if number:
            axes.axhline(top - GAP / 2, -left / wide, 1, color=LINE, lw=0.8, clip_on=False)
        place = (-(left - 0.1) / wide, (top + bottom) / 2)
        own: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "parse_math": False, "va": "center"}
        axes.text(*place, name, fontsize=NAME_SIZE, weight="bold", gid=f"way {number}", **own)
        for rank, parts in enumerate(ranks):
            _draw_rank(axes, number, rank, top + (rank + 0.5) * ROW, parts, kinds, wide)
        top = bottom + GAP
    _draw_key(figure, kinds, title)
    return figure, axes


def _draw_rank(axes: Axes, way: int, rank: int, middle: float, parts: Held, kinds: Sequence[str], wide: float) -> None:
    color, end = rank_color(rank), 0
    for number, kind in enumerate(kinds):
        size = parts.get(kind, 0)
        style = _style(number, color)
        axes.barh(middle, size, ROW * 0.72, left=end, gid=f"{kind} {way} {rank}", lw=0.7, **style)
        end += size
    across: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center_baseline", "fontsize": SIZE}
    axes.text(-0.08 / wide, middle, f"rank {rank}", ha="right", gid=f"name {way} {rank}", **across)
    beside: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center_baseline"}
    axes.annotate(show_bytes(end), (end, middle), fontsize=SIZE, gid=f"bytes {way} {rank}", **beside)


def _style(number: int, color: str) -> dict[str, Any]:
    """Full, pale, hatched, empty: to be told apart without colours."""
    faces = (color, _pale(color), PAPER, PAPER)
    hatch = {"hatch": HATCH} if number == 2 else {}
    return {"facecolor": faces[number], "edgecolor": color, **hatch}


def _pale(color: str) -> str:
    """One of the shades that a picture's few colours have."""
    rest = round(0.6 * SHADES) / SHADES
    red, green, blue = (part * (1 - rest) + rest for part in to_rgb(color))
    return to_hex((red, green, blue))


def _draw_key(figure: Figure, kinds: Sequence[str], title: str | None) -> None:
    height = figure.get_figheight()
    signs = [Patch(lw=0.7, **_style(number, FAINT)) for number in range(len(kinds))]
    style: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "handlelength": 1.9, "columnspacing": 1.4}
    top = 1 - (0.26 if title else 0.02) / height
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, top), "borderaxespad": 0.1}
    figure.legend(signs, kinds, ncols=len(kinds), labelcolor=INK, **place, **style)
    if title:
        heading: dict[str, Any] = {"fontsize": 10, "weight": "bold", "va": "center", "parse_math": False}
        figure.text(0.1 / WIDTH, 1 - 0.13 / height, title, gid="title", **heading)


def _text(held: Mapping[str, Sequence[Held]], kinds: Sequence[str]) -> str:
    head = ["bytes held", *kinds, "in all"]
    rows = [
        [f"{name}, rank {rank}", *(f"{parts.get(kind, 0):,}" for kind in kinds), f"{sum(parts.values()):,}"]
        for name, ranks in held.items()
        for rank, parts in enumerate(ranks)
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "   ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in (head, *rows)
    )


def _describe(held: Mapping[str, Sequence[Held]], kinds: Sequence[str]) -> str:
    told = []
    for name, ranks in held.items():
        totals = [sum(parts.values()) for parts in ranks]
        low, high = (show_bytes(total) for total in (min(totals), max(totals)))
        each = low if low == high else f"{low} to {high}"
        told.append(f"{name}: {each} on {'each of ' * (len(ranks) > 1)}{count(len(ranks), 'rank')}")
    return f"Bars of the bytes that ranks hold, as {', '.join(kinds)}. {'; '.join(told)}."
