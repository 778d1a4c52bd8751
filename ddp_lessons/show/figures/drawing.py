"""Drawings made of boxes, lines, text and groups, and their SVG.

An SVG has layouts for each view (a timeline's are by steps and by time) and, in a page, for several widths; one of them
is visible. `player.js` switches layouts, goes through steps and describes calls, and reads only the `data-` attributes.
A layout is measured in pixels, and colors are names, such as "ink" or "rank 2".
"""

from __future__ import annotations

import hashlib
import html
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ddp_lessons.show.figures.palette import DARK, FONT, LIGHT, RANKS

FONT_SIZE = 12.0  # of all text
PALE = 0.25  # the opacity of an area
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")  # characters that XML does not allow
COLORS = LIGHT | RANKS


@dataclass(frozen=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    edge: str = "none"
    opacity: float = 1.0  # of the fill
    corner: float = 2.0
    is_dashed: bool = False
    is_hatched: bool = False  # in the color of its edge
    about: str = ""  # the tooltip, if there is no room for text


@dataclass(frozen=True)
class Bars:
    """Bars side by side, each a fraction of the height, from y up, or down if the height is negative."""

    x: float
    y: float
    width: float  # of each bar, with the gap after it
    height: float
    parts: Sequence[float]
    fill: str = "none"
    edge: str = "none"
    gap: float = 0.0


@dataclass(frozen=True)
class Line:
    points: Sequence[tuple[float, float]]
    color: str = "line"
    width: float = 1.0
    has_head: bool = False
    is_dashed: bool = False


@dataclass(frozen=True)
class Area:
    """A pale polygon."""

    points: Sequence[tuple[float, float]]
    fill: str


@dataclass(frozen=True)
class Words:
    x: float
    y: float  # of the text's middle
    text: str
    color: str = "ink"
    anchor: str = "start"  # "middle", "end"
    is_bold: bool = False
    has_halo: bool = False  # an outline in the background color, where it covers lines


@dataclass(frozen=True)
class Group:
    """Shapes that belong together, and what the player needs to know about them: {"call": 3, "lane": 0}."""

    shapes: Sequence[Shape]
    data: Mapping[str, object] = field(default_factory=dict)
    about: str = ""  # the tooltip
    is_hidden: bool = False  # until the player shows it


Shape = Box | Bars | Line | Area | Words | Group


@dataclass(frozen=True)
class Drawing:
    width: float
    height: float
    shapes: Sequence[Shape]


def to_svg(
    views: Mapping[str, Sequence[Drawing]], still: Drawing, alt: str, captions: Sequence[str] = (), **data: object
) -> str:
    """Return a separate SVG file, which shows the layout `still`."""
    layouts = [(name, one) for name, of_view in views.items() for one in of_view]
    content = "".join(_layout(name, one, is_shown=one is still) for name, one in layouts)
    data |= {"captions": json.dumps([*captions], ensure_ascii=False)} if captions else {}
    width, height = _n(still.width), _n(still.height)
    mark = hashlib.sha256(content.encode()).hexdigest()[:6]  # two patterns in one page must not have the same name
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{html.escape(alt)}" font-family="{FONT}" font-size="{_n(FONT_SIZE)}" fill="none" '
        f'stroke="none"{_data(data)}>\n<style>{_style(content)}</style>\n{_patterns(content)}'
    )
    svg = _UNPRINTABLE.sub(" ", f'{head}<rect class="f-paper" width="100%" height="100%"/>\n{content}</svg>')
    return svg.replace("url(#h-", f"url(#h{mark}-").replace('id="h-', f'id="h{mark}-')


def _layout(view: str, one: Drawing, *, is_shown: bool) -> str:
    data = _data({"view": view, "size": f"{_n(one.width)} {_n(one.height)}"})
    display = "" if is_shown else ' display="none"'
    return f"<g{data}{display}>{''.join(map(_element, one.shapes))}</g>\n"


def as_still(drawing: Drawing) -> Drawing:
    """Remove the hidden shapes, and dissolve the groups."""
    return replace(drawing, shapes=[*_seen(drawing.shapes)])


def _seen(shapes: Sequence[Shape]) -> Iterator[Shape]:
    for shape in shapes:
        if not isinstance(shape, Group):
            yield shape
        elif not shape.is_hidden:
            yield from _seen(shape.shapes)


def _style(content: str) -> str:
    """Style rules for the colors in use. Viewers without CSS variables use the light ones."""
    rules = [
        f".{kind}-{_class(name)}{{{paint}:{color}{f';{paint}:var(--ddp-{name},{color})' if name in LIGHT else ''}}}"
        for name, color in COLORS.items()
        for kind, paint in (("f", "fill"), ("s", "stroke"))
        if f"{kind}-{_class(name)}" in content or name == "paper"
    ]
    dark = "".join(f"--ddp-{name}:{color};" for name, color in DARK.items())
    return f"{''.join(rules)}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"


def _patterns(content: str) -> str:
    """Patterns of slanting lines, in each color that needs them."""
    names = [_class(name) for name in COLORS if f"url(#h-{_class(name)})" in content]
    about = 'width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"'
    patterns = [
        f'<pattern id="h-{name}" {about}><line y2="6" stroke-width="1.6" class="s-{name}"/></pattern>' for name in names
    ]
    return f"<defs>{''.join(patterns)}</defs>\n" if patterns else ""


def _element(shape: Shape) -> str:
    if isinstance(shape, Group):
        hidden = ' visibility="hidden"' if shape.is_hidden else ""
        return f"<g{_data(shape.data)}{hidden}>{_title(shape.about)}{''.join(map(_element, shape.shapes))}</g>"
    if isinstance(shape, Words):
        return _words(shape)
    if isinstance(shape, Line):
        return _line(shape)
    if isinstance(shape, Area):
        return f'<polygon points="{_points(shape.points)}" {_paint(shape.fill)} fill-opacity="{PALE}"/>'
    if isinstance(shape, Bars):
        return f'<path d="{_outline(shape)}" {_paint(shape.fill, shape.edge)}/>'
    return _box(shape)


def _title(about: str) -> str:
    return f"<title>{html.escape(about, quote=False)}</title>" if about else ""


def _box(shape: Box) -> str:
    place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
    place += f' rx="{_n(shape.corner)}"' * (shape.corner > 0)
    faded = f' fill-opacity="{shape.opacity:g}"' * (shape.opacity != 1)
    look = f"{_paint(shape.fill, shape.edge)}{faded}{_dashes(shape.is_dashed)}"
    box = f"<rect {place} {look}>{_title(shape.about)}</rect>" if shape.about else f"<rect {place} {look}/>"
    return box + f'<rect {place} fill="url(#h-{_class(shape.edge)})"/>' * shape.is_hatched


def _words(shape: Words) -> str:
    anchor = f' text-anchor="{shape.anchor}"' * (shape.anchor != "start")
    weight = ' font-weight="600"' * shape.is_bold
    halo = ' paint-order="stroke" stroke-width="4"' * shape.has_halo
    paint = _paint(shape.color, "paper" if shape.has_halo else "none")
    place = f'x="{_n(shape.x)}" y="{_n(shape.y + 0.35 * FONT_SIZE)}"'
    return f"<text {place}{anchor}{weight}{halo} {paint}>{html.escape(shape.text, quote=False)}</text>"


def _line(shape: Line) -> str:
    width = f' stroke-width="{_n(shape.width)}"' * (shape.width != 1)
    paint = _paint("none", shape.color)
    shaft = f'<polyline points="{_points(shape.points)}" {paint}{width}{_dashes(shape.is_dashed)}/>'
    if not shape.has_head:
        return shaft
    return f'{shaft}<polygon points="{_points(head_of(shape))}" {_paint(shape.color)}/>'


def _outline(bars: Bars) -> str:
    """Draw bars without gaps as one outline, because a notebook stores every character."""
    if bars.gap == 0:
        tops = "".join(f"V{_n(bars.y - part * bars.height)}h{_n(bars.width)}" for part in bars.parts)
        return f"M{_n(bars.x)} {_n(bars.y)}{tops}V{_n(bars.y)}z"
    wide = bars.width - bars.gap
    return "".join(
        f"M{_n(bars.x + place * bars.width)} {_n(bars.y)}h{_n(wide)}v{_n(-part * bars.height)}h{_n(-wide)}z"
        for place, part in enumerate(bars.parts)
        if part
    )


def head_of(line: Line, size: float = 8.0) -> list[tuple[float, float]]:
    """The arrowhead: a triangle with its tip at the end of the line."""
    (x0, y0), (x1, y1) = line.points[-2:]
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1.0
    along, across = (x1 - x0) / length * size, (y1 - y0) / length * size
    back = x1 - along, y1 - across
    return [(x1, y1), (back[0] - across / 2, back[1] + along / 2), (back[0] + across / 2, back[1] - along / 2)]


def _paint(fill: str, stroke: str = "none") -> str:
    """Use classes for named colors, and other colors as they are."""
    both = (("f", "fill", fill), ("s", "stroke", stroke))
    classes = " ".join(f"{kind}-{_class(color)}" for kind, _, color in both if color in COLORS)
    plain = [f'{paint}="{color}"' for _, paint, color in both if color not in COLORS and color != "none"]
    return " ".join([f'class="{classes}"'] * bool(classes) + plain)


def _class(color: str) -> str:
    return color.replace(" ", "-")


def _dashes(is_dashed: bool) -> str:
    return ' stroke-dasharray="5 3"' if is_dashed else ""


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(map(_n, itertools.chain.from_iterable(points)))


def _data(data: Mapping[str, object]) -> str:
    return "".join(f' data-{name}="{html.escape(str(value))}"' for name, value in data.items())


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
