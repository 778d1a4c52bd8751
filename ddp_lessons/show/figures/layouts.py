"""A picture that is laid out for several widths: the browser shows the widest one that its column has room for.

All words have the same readable size; what doesn't fit next to something goes below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields, replace
from typing import Any, Protocol, TypeVar

from ddp_lessons.show.figures.drawing import COMMON, Box, Drawing, Line, Shape, Words, color_of_rank, width_of
from ddp_lessons.show.figures.figure import Figure

WIDTHS = (320.0, 520.0, 760.0)
LEFT = 68.0  # where rows begin, behind the names of their ranks
HEADING, LINE_HEIGHT = 22.0, 17.0
Entry = tuple[Shape, str]  # a sign, drawn around (8, 0), and its name


def figure_of(draw: Callable[[float], Drawing], title: str | None, text: str, alt: str) -> Figure:
    """What `draw` makes of each width, unless more room changes nothing. The still is the widest, below the title."""
    drawings = without_repeats([draw(width) for width in WIDTHS])
    layouts = [{"width": one.width, "height": one.height, "shapes": [*map(plain, one.shapes)]} for one in drawings]
    document = {"kind": "drawing", "title": title or "", "alt": alt, "layouts": layouts}
    return Figure(document, with_title(drawings[-1], title), text, alt)


class Laid(Protocol):
    """Shapes for one width."""

    @property
    def shapes(self) -> Sequence[object]: ...


L = TypeVar("L", bound=Laid)


def without_repeats(drawings: Sequence[L]) -> list[L]:
    """From narrow to wide, those that differ from the one before."""
    narrower = [None, *(one.shapes for one in drawings[:-1])]
    return [one for one, shapes in zip(drawings, narrower, strict=True) if one.shapes != shapes]


def plain(shape: Shape) -> dict[str, Any]:
    """{"box": [8, 4, 30, 12], "fill": "rank 1"}: what each has, and what is not as in most. All words have one size."""
    values = {field: _short(getattr(shape, field.name)) for field in fields(shape) if field.name != "size"}
    own = [value for field, value in values.items() if field.default is MISSING]
    special = {field.name: value for field, value in values.items() if field.default not in (MISSING, value)}
    return {type(shape).__name__.lower(): own, **special}


def _short(value: Any) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [*map(_short, value)]
    if isinstance(value, float):
        return int(value) if value == int(value) else round(value, 2)
    return value


def with_title(drawing: Drawing, title: str | None) -> Drawing:
    if not title:
        return drawing
    shapes = [moved(shape, 0, HEADING) for shape in drawing.shapes]
    width = max(drawing.width, 1.1 * width_of(title) + 12)  # bold is wider
    return Drawing(width, drawing.height + HEADING, [Words(4, 12, title, is_bold=True), *shapes])


def moved(shape: Shape, x: float, y: float) -> Shape:
    if isinstance(shape, Line):
        return replace(shape, points=[(a + x, b + y) for a, b in shape.points])
    return replace(shape, x=shape.x + x, y=shape.y + y)


def label(x: float, y: float, text: str, color: str = "ink", anchor: str = "start", *, is_bold: bool = False) -> Words:
    return Words(x, y, text, color, anchor, COMMON, is_bold)


def name_rank(rank: int, y: float, noun: str = "rank") -> Iterator[Shape]:
    yield Box(4, y - 5, 10, 10, color_of_rank(rank))
    yield label(19, y, f"{noun} {rank}")


def fits(text: str, room: float) -> bool:
    return width_of(text, COMMON) <= room


def cut(text: str, room: float) -> str:
    """As much of it as there is room for."""
    if fits(text, room):
        return text
    return next((f"{text[:end]}…" for end in range(len(text) - 1, 0, -1) if fits(f"{text[:end]}…", room)), "…")


def wrapped(text: str, room: float) -> list[str]:
    """In as many lines as it needs."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and not fits(longer, room):
            lines.append(word)
        else:
            lines[-1] = longer
    return [cut(line, room) for line in lines if line]


def notes_at(y: float, notes: Sequence[str], width: float) -> tuple[list[Words], float]:
    """Sentences below a picture, and where they end."""
    lines = wrapped("; ".join(notes), width - 12)
    words = [label(4, y + (n + 0.5) * LINE_HEIGHT, line, "faint") for n, line in enumerate(lines)]
    return words, y + len(lines) * LINE_HEIGHT


def key_at(y: float, entries: Sequence[Entry], width: float) -> tuple[list[Shape], float]:
    """Signs and their names in as many rows as they need, and where they end."""
    shapes: list[Shape] = []
    x, middle = 4.0, y + LINE_HEIGHT / 2
    for sign, name in entries:
        shown = cut(name, width - 36)
        wide = width_of(shown, COMMON) + 38
        if x > 4 and x + wide - 14 > width:
            x, middle = 4.0, middle + LINE_HEIGHT
        shapes += [moved(sign, x, middle), label(x + 22, middle, shown)]
        x += wide
    return shapes, middle + LINE_HEIGHT / 2
