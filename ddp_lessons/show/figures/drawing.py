"""A still image out of boxes, lines and words, as SVG and as PNG.

Colors are names, such as "ink" or "rank 2", so that the SVG follows a light or a dark page. A layout counts in pixels.
"""

from __future__ import annotations

import base64
import functools
import gzip
import html
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ddp_lessons.record.colors import RANK_COLORS

LIGHT = {
    "paper": "#FFFFFF",
    "ink": "#111820",
    "faint": "#5F6B7A",
    "line": "#D5DAE1",
    "band": "#F5F7FA",
    "alarm": "#A8121E",
    "collective": "#64748B",
    "ddp": "#8B5FB8",
}
DARK = {
    "paper": "#15191E",
    "ink": "#E8ECF1",
    "faint": "#A3AEBB",
    "line": "#3A434D",
    "band": "#1D232A",
    "alarm": "#FF6B6B",
}
RANKS = {f"rank {number}": color for number, color in enumerate(RANK_COLORS)}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
SIZE = 13.0  # of words
COMMON = SIZE - 1  # of most words
_WITHOUT_LETTERS = re.compile("[\U00010000-\U0010ffff]")  # in that font: pictures of things, about as wide as a W
MOST_DATA = 100_000  # letters: a notebook keeps every figure that it shows
_DOCUMENT = re.compile("<metadata id=['\"]ddp-figure['\"]>(.*?)</metadata>")
_OTHER_QUOTES = str.maketrans("'\"", "\"'")


@dataclass(frozen=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    edge: str = "none"
    opacity: float = 1.0  # of what fills it
    corner: float = 2.0
    is_dashed: bool = False
    is_hatched: bool = False  # in the color of its edge
    about: str = ""  # what a mouse that rests on it is told, where words have no room


@dataclass(frozen=True)
class Bars:
    """Side by side, each a part of the height, from y upwards; downwards where the height is below 0."""

    x: float
    y: float
    width: float  # of each, with the gap behind it
    height: float
    parts: Sequence[float]
    fill: str = "none"
    edge: str = "none"
    gap: float = 0.0
    is_hatched: bool = False  # in the color of its edge

    def boxes(self) -> Iterator[Box]:
        for place, part in enumerate(self.parts):
            high = part * abs(self.height)
            if high:
                top = self.y - high if self.height > 0 else self.y
                yield Box(self.x + place * self.width, top, self.width - self.gap, high, corner=0)


@dataclass(frozen=True)
class Line:
    points: Sequence[tuple[float, float]]
    color: str = "line"
    width: float = 1.0
    has_head: bool = False
    is_dashed: bool = False


@dataclass(frozen=True)
class Words:
    x: float
    y: float  # of their middle
    text: str
    color: str = "ink"
    anchor: str = "start"  # "middle", "end"
    size: float = SIZE
    is_bold: bool = False


Shape = Box | Bars | Line | Words


@dataclass(frozen=True)
class Drawing:
    width: float
    height: float
    shapes: Sequence[Shape]


def color_of_rank(rank: int) -> str:
    return f"rank {rank % len(RANK_COLORS)}"


@functools.lru_cache(maxsize=8192)
def width_of(text: str, size: float = SIZE) -> float:
    """In pixels, in a wide font: in that of the page it will take no more."""
    from ddp_lessons.show.page.picture import text_size

    return text_size(_WITHOUT_LETTERS.sub("W", text), size)[0] if text else 0.0


def ink_on(color: str) -> str:
    """The color of words on a filled box; it is the same in a light and in a dark page."""
    from ddp_lessons.show.page.picture import ink_on as better

    return better((LIGHT | RANKS)[color])


def to_svg(drawing: Drawing, alt: str, document: Mapping[str, Any] | None = None) -> str:
    """A file of its own. It carries the document that it was drawn from, so that a page can bring it to life."""
    anchors = Counter(shape.anchor for shape in drawing.shapes if isinstance(shape, Words))
    anchor = anchors.most_common(1)[0][0] if anchors else "start"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(drawing.width)} {_n(drawing.height)}" '
        f'width="{_n(drawing.width)}" height="{_n(drawing.height)}" role="img" font-family="{FONT}" '
        f'font-size="{_n(COMMON)}" text-anchor="{anchor}" fill="none" stroke="none">',
        f"<title>{html.escape(alt)}</title>",
        f"<style>{_style(drawing.shapes)}</style>",
        _patterns(drawing.shapes),
        '<rect class="f-paper" width="100%" height="100%"/>',
        "".join(_element(shape, anchor) for shape in drawing.shapes),
    ]
    data = "" if document is None else json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    if 0 < len(data) <= MOST_DATA:
        packed = base64.b64encode(gzip.compress(data.encode(), mtime=0)).decode("ascii")
        parts.append(f'<metadata id="ddp-figure">{packed}</metadata>')
    return as_kept("\n".join([*parts, "</svg>"]))


def as_kept(svg: str) -> str:
    """In a notebook's file a double quote takes two letters. Words have their quotes escaped."""
    return svg.translate(_OTHER_QUOTES)


def document_of(svg: str) -> Any:
    """The document that such an SVG carries, or None."""
    packed = _DOCUMENT.search(svg)
    return json.loads(gzip.decompress(base64.b64decode(packed[1]))) if packed else None


def without_document(svg: str) -> str:
    return _DOCUMENT.sub("", svg)


def to_png(drawing: Drawing, scale: float = 2.0) -> bytes:
    """The light one, for readers that show no SVG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from ddp_lessons.show.page.picture import house_style

    with house_style():
        figure = Figure(figsize=(drawing.width / 72, drawing.height / 72), facecolor=LIGHT["paper"], dpi=72 * scale)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
        axes.set_axis_off()
        for order, shape in enumerate(drawing.shapes):
            _to_axes(axes, shape, order)
        file = io.BytesIO()
        canvas: Any = FigureCanvasAgg(figure)
        canvas.print_png(file)
    return file.getvalue()


def _style(shapes: Sequence[Shape]) -> str:
    used = {name for shape in shapes for name in _colors(shape)} | {"paper"}

    def classes(colors: Mapping[str, str]) -> str:
        names = ((name.replace(" ", "-"), color) for name, color in colors.items() if name in used)
        return "".join(f".f-{name}{{fill:{color}}}.s-{name}{{stroke:{color}}}" for name, color in names)

    return f"{classes(LIGHT | RANKS)}@media (prefers-color-scheme: dark){{{classes(DARK)}}}"


def _colors(shape: Shape) -> tuple[str, ...]:
    return (shape.fill, shape.edge) if isinstance(shape, Box | Bars) else (shape.color,)


def _element(shape: Shape, common_anchor: str) -> str:
    if isinstance(shape, Words):
        weight = ' font-weight="600"' * shape.is_bold
        anchor = f' text-anchor="{shape.anchor}"' * (shape.anchor != common_anchor)
        size = f' font-size="{_n(shape.size)}"' * (shape.size != COMMON)
        place = f'x="{_n(shape.x)}" y="{_n(shape.y + 0.35 * shape.size)}"{size}'
        return f"<text {place}{anchor}{weight} {_paint(shape.color, 'none')}>{html.escape(shape.text)}</text>"
    if isinstance(shape, Line):
        dashes = ' stroke-dasharray="5 3"' * shape.is_dashed
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in shape.points)
        shaft = f'<polyline points="{points}" {_paint("none", shape.color)} stroke-width="{_n(shape.width)}"{dashes}/>'
        if not shape.has_head:
            return shaft
        corners = " ".join(f"{_n(x)},{_n(y)}" for x, y in head_of(shape))
        return f'{shaft}<polygon points="{corners}" {_paint(shape.color, "none")}/>'
    if isinstance(shape, Bars):
        path = _outline(shape)
        hatched = f'<path d="{path}" fill="{_hatch(shape.edge)}"/>' * shape.is_hatched
        return f'<path d="{path}" {_paint(shape.fill, shape.edge)}/>{hatched}'
    place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
    dashes = ' stroke-dasharray="5 3"' * shape.is_dashed
    corner = f' rx="{_n(shape.corner)}"' * (shape.corner > 0)
    faded = f' fill-opacity="{_n(shape.opacity)}"' * (shape.opacity != 1)
    about = f"<title>{html.escape(shape.about)}</title>" * bool(shape.about)
    box = f"<rect {place}{corner} {_paint(shape.fill, shape.edge)}{faded}{dashes}" + (
        f">{about}</rect>" if about else "/>"
    )
    hatched = f'<rect {place} fill="{_hatch(shape.edge)}"/>' * shape.is_hatched
    return box + hatched


def _outline(bars: Bars) -> str:
    """Of many without gaps, one for all: a notebook keeps every letter of it."""
    if bars.gap == 0:
        tops = "".join(f"V{_n(bars.y - part * bars.height)}h{_n(bars.width)}" for part in bars.parts)
        return f"M{_n(bars.x)} {_n(bars.y)}{tops}V{_n(bars.y)}z"
    return "".join(f"M{_n(b.x)} {_n(b.y)}h{_n(b.width)}v{_n(b.height)}h{_n(-b.width)}z" for b in bars.boxes())


def _hatch(color: str) -> str:
    return f"url(#h-{color.replace(' ', '-')})"


def _paint(fill: str, stroke: str) -> str:
    classes = [f"{letter}-{name.replace(' ', '-')}" for letter, name in (("f", fill), ("s", stroke)) if _is_name(name)]
    others = [(kind, name) for kind, name in (("fill", fill), ("stroke", stroke)) if not _is_name(name)]
    plain = [f'{kind}="{name}"' for kind, name in others if name != "none"]  # which all are
    return " ".join([*([f'class="{" ".join(classes)}"'] if classes else []), *plain])


def _is_name(color: str) -> bool:
    return color in LIGHT or color in RANKS


def _patterns(shapes: Sequence[Shape]) -> str:
    """Slanting lines, in each color that needs them."""
    colors = sorted({shape.edge for shape in shapes if isinstance(shape, Box | Bars) and shape.is_hatched})
    about = 'width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"'
    line = '<line y2="6" stroke-width="1.6" {}/>'
    patterns = [
        f'<pattern id="h-{color.replace(" ", "-")}" {about}>{line.format(_paint("none", color))}</pattern>'
        for color in colors
    ]
    return f"<defs>{''.join(patterns)}</defs>" * bool(patterns)


def head_of(line: Line, size: float = 8.0) -> list[tuple[float, float]]:
    """A triangle with its tip at the line's end."""
    (x0, y0), (x1, y1) = line.points[-2:]
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1.0
    along, across = (x1 - x0) / length * size, (y1 - y0) / length * size
    back = x1 - along, y1 - across
    return [(x1, y1), (back[0] - across / 2, back[1] + along / 2), (back[0] + across / 2, back[1] - along / 2)]


def _to_axes(axes: Any, shape: Shape, order: int) -> None:
    from matplotlib.patches import FancyBboxPatch, Polygon

    colors = LIGHT | RANKS
    style: dict[str, Any] = {"zorder": order}
    if isinstance(shape, Words):
        style |= {"ha": {"start": "left", "middle": "center", "end": "right"}[shape.anchor], "va": "center_baseline"}
        style |= {"weight": "bold" if shape.is_bold else "normal", "color": colors.get(shape.color, shape.color)}
        axes.text(shape.x, shape.y, shape.text, fontsize=shape.size, **style)
    elif isinstance(shape, Line):
        color = colors.get(shape.color, shape.color)
        xs, ys = zip(*shape.points, strict=True)
        axes.plot(xs, ys, color=color, lw=shape.width, ls="--" if shape.is_dashed else "-", **style)
        if shape.has_head:
            axes.add_patch(Polygon(head_of(shape), facecolor=color, edgecolor="none", **style))
    elif isinstance(shape, Bars):
        for box in shape.boxes():
            _to_axes(axes, replace(box, fill=shape.fill, edge=shape.edge, is_hatched=shape.is_hatched), order)
    else:
        style |= {"boxstyle": f"round,pad=0,rounding_size={shape.corner}", "ls": "--" if shape.is_dashed else "-"}
        fill, edge = (colors.get(name, name) for name in (shape.fill, shape.edge))
        place = (shape.x, shape.y), shape.width, shape.height
        axes.add_patch(FancyBboxPatch(*place, facecolor=fill, edgecolor="none", alpha=shape.opacity, **style))
        hatch = "////" if shape.is_hatched else None
        axes.add_patch(FancyBboxPatch(*place, facecolor="none", edgecolor=edge, lw=1, hatch=hatch, **style))


def _n(number: float) -> str:
    return f"{number:.4g}" if abs(number) < 1000 else f"{number:.1f}".removesuffix(".0")
