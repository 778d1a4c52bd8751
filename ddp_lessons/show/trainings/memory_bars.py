"""How much of a training each rank holds: a bar for each rank, in parts, and the ways to share it below each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ddp_lessons.show.figures.drawing import COMMON, Box, Drawing, Line, Shape, color_of_rank, width_of
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.layouts import LEFT, cut, figure_of, key_at, label, name_rank, notes_at
from ddp_lessons.show.page.picture import count, show_bytes
from ddp_lessons.show.page.printed import in_columns

ROW, BAR, NAME, GAP = 18.0, 13.0, 22.0, 8.0  # pixels
MOST_PARTS, MOST_RANKS = 4, 16
Held = Mapping[str, int]


def memory(ways: Mapping[str, Sequence[Held]], title: str | None = None) -> Figure:
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
    return figure_of(lambda width: _draw(held, kinds, width), title, _text(held, kinds), _describe(held, kinds))


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


def _draw(held: Mapping[str, Sequence[Held]], kinds: Sequence[str], width: float) -> Drawing:
    """The bars of each way below its name."""
    totals = [sum(rank.values()) for ranks in held.values() for rank in ranks]
    room = max(width_of(show_bytes(total), COMMON) for total in totals) + 12
    scale = (width - LEFT - room) / max(1, *totals)
    signs = [part_of_bar(number, "faint", (0, -5), (16, 10)) for number in range(len(kinds))]
    shapes, y = key_at(0, [*zip(signs, kinds, strict=True)], width)
    for name, ranks in held.items():
        shapes += [
            Line([(4, y + GAP / 2), (width - 4, y + GAP / 2)]),
            label(4, y + GAP + 10, cut(name, 0.9 * width - 8), is_bold=True),
        ]
        y += GAP + NAME
        for rank, parts in enumerate(ranks[:MOST_RANKS]):
            shapes += _rank(rank, parts, kinds, y, scale)
            y += ROW
        if len(ranks) > MOST_RANKS:
            left_out, y = notes_at(y, [f"{count(len(ranks) - MOST_RANKS, 'further rank')} left out"], width)
            shapes += left_out
    return Drawing(width, y + 4, shapes)


def _rank(rank: int, parts: Held, kinds: Sequence[str], y: float, scale: float) -> list[Shape]:
    shapes, end = [*name_rank(rank, y + ROW / 2)], LEFT
    for number, kind in enumerate(kinds):
        wide = scale * parts.get(kind, 0)
        shapes.append(part_of_bar(number, color_of_rank(rank), (end, y + (ROW - BAR) / 2), (wide, BAR)))
        end += wide
    return [*shapes, label(end + 6, y + ROW / 2, show_bytes(sum(parts.values())))]


def part_of_bar(number: int, color: str, corner: tuple[float, float], size: tuple[float, float]) -> Box:
    """Full, pale, hatched, empty: to be told apart without colors."""
    fill, opacity = ((color, 1.0), (color, 0.3), ("none", 1.0), ("none", 1.0))[number]
    return Box(*corner, *size, fill=fill, edge=color, opacity=opacity, corner=0, is_hatched=number == 2)


def _text(held: Mapping[str, Sequence[Held]], kinds: Sequence[str]) -> str:
    width = max(len(f"{name}, rank {len(ranks) - 1}") for name, ranks in held.items())
    head = ["bytes held".ljust(width), *kinds, "in all"]
    rows = [head]
    for name, ranks in held.items():
        for rank, parts in enumerate(ranks):
            numbers = [*(parts.get(kind, 0) for kind in kinds), sum(parts.values())]
            rows.append([f"{name}, rank {rank}".ljust(width), *(f"{number:,}" for number in numbers)])
    return "\n".join(in_columns(rows, "   ", slice(None)))


def _describe(held: Mapping[str, Sequence[Held]], kinds: Sequence[str]) -> str:
    told = []
    for name, ranks in held.items():
        totals = [sum(parts.values()) for parts in ranks]
        low, high = (show_bytes(total) for total in (min(totals), max(totals)))
        each = low if low == high else f"{low} to {high}"
        told.append(f"{name}: {each} on {'each of ' * (len(ranks) > 1)}{count(len(ranks), 'rank')}")
    return f"Bars of the bytes that ranks hold, as {', '.join(kinds)}. {'; '.join(told)}."
