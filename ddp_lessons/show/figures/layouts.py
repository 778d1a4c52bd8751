"""Figures with layouts for several widths, and with steps. A page shows the widest layout that fits.

All text has the same readable size; what doesn't fit next to something goes below it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ddp_lessons.show.figures.drawing import FONT_SIZE, Area, Box, Drawing, Group, Line, Shape, Words
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.palette import color_of_rank, width_of

WIDTHS = (320.0, 520.0, 760.0)
LEFT = 68.0  # where rows begin, after the names of their ranks
LINE_HEIGHT = 17.0
Entry = tuple[Shape, str]  # a symbol, drawn around (8, 0), and its name


def figure_of(draw: Callable[[float], Drawing], text: str, alt: str, title: str | None = None) -> Figure:
    """Make a figure from the drawing for each width, with the title above."""
    return Figure({"": layouts_of(draw, title)}, text, alt)


def layouts_of(
    draw: Callable[[float], Drawing], title: str | None = None, widths: Sequence[float] = WIDTHS
) -> list[Drawing]:
    """Return the layouts from narrow to wide, without those equal to the one before."""
    drawings = [draw(width) for width in widths]
    different = drawings[:1] + [one for before, one in itertools.pairwise(drawings) if one.shapes != before.shapes]
    return [with_title(one, title) for one in different]


@dataclass(frozen=True)
class Cue:
    """A shape, and when it is visible: from step `since` until just before step `until`.

    If both are the same, it is visible only while it moves to its place.
    """

    shape: Shape
    since: int = 0
    until: int | None = None
    origin: tuple[float, float] | None = None  # where it starts, relative to its place; without an origin, it fades in

    @property
    def data(self) -> dict[str, object]:
        """What the player needs to know."""
        origin = " ".join(f"{part:.0f}" for part in self.origin) if self.origin else None
        known = {"since": self.since or None, "until": self.until, "from": origin}
        return {name: value for name, value in known.items() if value is not None}

    def is_seen(self, step: int) -> bool:
        return self.since <= step and (self.until is None or step < self.until)


@dataclass(frozen=True)
class Film:
    width: float
    height: float
    cues: Sequence[Cue]

    def still(self, step: int) -> Drawing:
        """The drawing at this step; what only other steps show is hidden in it."""
        shapes: list[Shape] = []
        for data, cues in itertools.groupby(self.cues, lambda cue: cue.data):
            own = [*cues]
            group = Group([cue.shape for cue in own], data, is_hidden=not own[0].is_seen(step))
            shapes += [group] if data else group.shapes
        return Drawing(self.width, self.height, shapes)


def film_of(
    draw: Callable[[float], Film],
    captions: Sequence[str],
    moment: int,
    title: str,
    text: str,
    alt: str,
    **data: object,
) -> Figure:
    """Make an animated figure. `captions[k]` describes step k; without a player, step `moment` is visible."""
    layouts = layouts_of(lambda width: draw(width).still(moment), title)
    return Figure({"": layouts}, text, alt, captions, data=data)


def with_title(drawing: Drawing, title: str | None) -> Drawing:
    if not title:
        return drawing
    lines = wrapped(title, drawing.width / 1.1 - 8)  # bold is wider
    words = [Words(4, (n + 0.5) * LINE_HEIGHT, line, is_bold=True) for n, line in enumerate(lines)]
    lower = len(lines) * LINE_HEIGHT + 4
    shapes = [moved(shape, 0, lower) for shape in drawing.shapes]
    return Drawing(drawing.width, drawing.height + lower, [fixed(words), *shapes])


def fixed(shapes: Iterable[Shape]) -> Group:
    """Group shapes that keep their place and size when the rest is zoomed."""
    return Group([*shapes], {"fixed": ""})


def moved(shape: Shape, x: float, y: float) -> Shape:
    if isinstance(shape, Group):
        return replace(shape, shapes=[moved(one, x, y) for one in shape.shapes])
    if isinstance(shape, Line | Area):
        return replace(shape, points=[(a + x, b + y) for a, b in shape.points])
    return replace(shape, x=shape.x + x, y=shape.y + y)


def name_rank(rank: int, y: float, noun: str = "rank") -> Iterator[Shape]:
    yield Box(4, y - 5, 10, 10, color_of_rank(rank))
    yield Words(19, y, f"{noun} {rank}")


def fits(text: str, room: float) -> bool:
    return width_of(text, FONT_SIZE) <= room


def cut(text: str, room: float) -> str:
    """Shorten the text to this width."""
    if fits(text, room):
        return text
    return next((f"{text[:end]}…" for end in range(len(text) - 1, 0, -1) if fits(f"{text[:end]}…", room)), "…")


def wrapped(text: str, room: float) -> list[str]:
    """Break the text into lines of this width."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and not fits(longer, room):
            lines.append(word)
        else:
            lines[-1] = longer
    return [cut(line, room) for line in lines if line]


def notes_at(y: float, notes: Sequence[str], width: float, color: str = "faint") -> tuple[list[Words], float]:
    """Notes below a figure, and where they end."""
    lines = wrapped("; ".join(notes), width - 12)
    words = [Words(4, y + (n + 0.5) * LINE_HEIGHT, line, color) for n, line in enumerate(lines)]
    return words, y + len(lines) * LINE_HEIGHT


def key_at(y: float, entries: Sequence[Entry], width: float) -> tuple[list[Shape], float]:
    """The legend, in as many rows as it needs, and where it ends."""
    shapes: list[Shape] = []
    x, middle = 4.0, y + LINE_HEIGHT / 2
    for sign, name in entries:
        shown = cut(name, width - 36)
        wide = width_of(shown, FONT_SIZE) + 38
        if x > 4 and x + wide - 14 > width:
            x, middle = 4.0, middle + LINE_HEIGHT
        shapes += [moved(sign, x, middle), Words(x + 22, middle, shown)]
        x += wide
    return shapes, middle + LINE_HEIGHT / 2


def write_figure(sentence: str) -> Figure:
    """Make a figure of one sentence, which says why there is nothing to draw."""

    def draw(width: float) -> Drawing:
        words, bottom = notes_at(4, [sentence], width, "ink")
        return Drawing(width, bottom + 4, words)

    return figure_of(draw, sentence, sentence)
