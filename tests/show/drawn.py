"""What is drawn in the SVG of a figure: its layouts, and in each of them where every shape is, and in which steps."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from ddp_lessons import show
from ddp_lessons.show.figures.palette import width_of

SVG = "{http://www.w3.org/2000/svg}"
SIZE = 12.0
PLACES = {"start": 0.0, "middle": 0.5, "end": 1.0}


@dataclass(frozen=True)
class Drawn:
    """A text or a box: where its letters are, or its edges, and from which step until which it is seen."""

    text: str
    colors: Sequence[str]  # classes, such as "f-ink" and "s-rank-2", and a fill without a class
    opacity: float
    left: float
    top: float
    right: float
    bottom: float
    since: int
    until: float

    def is_with(self, other: Drawn) -> bool:
        """Whether there is a step in which both are seen. What only flies to its place is seen in none."""
        return max(self.since, other.since) < min(self.until, other.until)

    def overlaps(self, other: Drawn) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


@dataclass(frozen=True)
class Layout:
    view: str
    width: float
    height: float
    is_shown: bool
    shapes: Sequence[Drawn]

    @property
    def texts(self) -> list[Drawn]:
        return [shape for shape in self.shapes if shape.text]


def layouts_of(figure: show.Figure) -> list[Layout]:
    """As they are in the SVG, from narrow to wide in each view."""
    return [_layout(one) for one in ElementTree.fromstring(figure.living_svg) if one.get("data-view") is not None]


def _layout(group: ElementTree.Element) -> Layout:
    width, height = map(float, group.get("data-size", "").split())
    return Layout(group.get("data-view", ""), width, height, group.get("display") is None, [*_drawn(group)])


def shown_layout(figure: show.Figure) -> Layout:
    (shown,) = [layout for layout in layouts_of(figure) if layout.is_shown]
    return shown


def words_of(figure: show.Figure) -> list[str]:
    return [text.text for text in shown_layout(figure).texts]


def calls_of(figure: show.Figure) -> list[ElementTree.Element]:
    """The groups of the calls in the layout that is shown."""
    groups = ElementTree.fromstring(figure.living_svg).iter(f"{SVG}g")
    (shown,) = [one for one in groups if one.get("data-view") is not None and one.get("display") is None]
    return [one for one in shown.iter(f"{SVG}g") if one.get("data-call") is not None]


def _drawn(
    element: ElementTree.Element, x: float = 0, y: float = 0, since: int = 0, until: float = math.inf
) -> Iterator[Drawn]:
    right, down = re.findall(r"-?[\d.]+", element.get("transform", "0 0"))
    x, y = x + float(right), y + float(down)
    since, until = max(since, int(element.get("data-since", 0))), min(until, float(element.get("data-until", until)))
    paint = [*element.get("class", "").split(), element.get("fill", "")]
    opacity = float(element.get("fill-opacity", 1))
    if element.tag == f"{SVG}text":
        text = "".join(element.itertext())
        bold = 1.1 if element.get("font-weight") else 1.0
        wide = bold * width_of(text, SIZE)
        left = x + float(element.get("x", 0)) - PLACES[element.get("text-anchor", "start")] * wide
        middle = y + float(element.get("y", 0)) - 0.35 * SIZE
        # a letter's own margin may touch
        yield Drawn(text, paint, 1, left + 1, middle - 0.38 * SIZE, left + wide - 1, middle + 0.38 * SIZE, since, until)
    elif element.tag == f"{SVG}rect":
        left, top, wide, high = (float(element.get(name, 0)) for name in ("x", "y", "width", "height"))
        yield Drawn("", paint, opacity, x + left, y + top, x + left + wide, y + top + high, since, until)
    for bar in re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v(-?[\d.]+)", element.get("d", "")):
        left, foot, wide, high = map(float, bar)
        ends = sorted((foot, foot + high))
        yield Drawn("", paint, opacity, x + left, y + ends[0], x + left + wide, y + ends[1], since, until)
    for child in element:
        yield from _drawn(child, x, y, since, until)
