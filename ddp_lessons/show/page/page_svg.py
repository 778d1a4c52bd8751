"""What matplotlib draws, as a small SVG in the colors of the page.

Colors that a light and a dark page have differently become classes, such as "f-ink" for what is filled and "s-ink" for
lines. Groups, names and digits that make no visible difference are left out.
"""

from __future__ import annotations

import hashlib
import html
import io
import re
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from matplotlib.figure import Figure

from ddp_lessons.show.figures.drawing import DARK, FONT, LIGHT, RANKS, as_kept
from ddp_lessons.show.figures.living import theme
from ddp_lessons.show.page.picture import house_style

PIXELS_PER_POINT = 1.5  # letters of 8 points are 12 pixels high
FONT_SIZE = 9.0
THEMED = {LIGHT[name].lower(): name for name in DARK}
OF_RANKS = {color.lower(): name.replace(" ", "-") for name, color in RANKS.items()}
READABLE = "color-mix(in srgb, {} 62%, {})"  # a rank's color and ink: for words
PAINTS = {"fill": "f", "stroke": "s"}
STYLE = re.compile(r"<style>.*?</style>\n", re.DOTALL)
NAME = re.compile("(?<=id='ddp-)|(?<=#ddp-)")
Attributes = Mapping[str, str]


def still_svg(figure: Figure, alt: str) -> str:
    """A file of its own, light or dark like the reader's system."""
    file = io.StringIO()
    with house_style():
        figure.savefig(file, format="svg", metadata={"Date": None})
    width, height = (72 * inches for inches in figure.get_size_inches())
    size = f'width="{_n(PIXELS_PER_POINT * width)}" height="{_n(PIXELS_PER_POINT * height)}"'
    content = "".join(_Writer().written(ElementTree.fromstring(file.getvalue())))
    dark = f"@media (prefers-color-scheme: dark){{{_rules(DARK, content)}}}"
    return as_kept(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="ddp-chart" viewBox="0 0 {_n(width)} {_n(height)}" {size} '
        f'role="img" aria-label="{html.escape(alt)}" font-family="{FONT}" font-size="{_n(FONT_SIZE)}" fill="none" '
        f'stroke-linejoin="round">\n<style>{_rules(LIGHT, content)}{dark}</style>\n{content}\n</svg>'
    )


def as_html(still: str, alt: str) -> str:
    """The same in a page, in the colors of that page. Where that is narrow, it scrolls in its own box."""
    colors = {name: f"var(--ddp-{name})" for name in DARK}
    mark = hashlib.sha256(still.encode()).hexdigest()[:6]  # in one page no two things may have the same name
    svg = NAME.sub(f"{mark}-", STYLE.sub("", still, count=1))
    box = f'<div class="ddp-page ddp-room" tabindex="0" role="group" aria-label="{html.escape(alt)}">'
    return f"{box}<style>{theme()}{_rules(colors, svg)}</style>{svg}</div>"


def _rules(colors: Mapping[str, str], content: str) -> str:
    """For the classes that the content has. A `<use>` takes only rules without an ancestor."""
    rules = [
        f".{letter}-{name}{{{paint}:{colors[name]}}}"
        for name in DARK
        for paint, letter in PAINTS.items()
        if f"{letter}-{name}" in content
    ]
    rules += [
        f".w-{name}{{fill:{READABLE.format(color, colors['ink'])}}}"
        for color, name in OF_RANKS.items()
        if f"w-{name}" in content
    ]
    return "".join(rules)


class _Writer:
    """Walks through what matplotlib wrote; things that others point to get short names."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def written(self, element: ElementTree.Element) -> Iterator[str]:
        kind = element.tag.rpartition("}")[2]
        inside = [line for child in element for line in self.written(child)]
        if kind in ("metadata", "style") or (kind == "defs" and not inside):
            return
        if kind in ("g", "svg") and "clip-path" not in element.attrib:
            yield from inside
        elif kind == "text":
            yield f"<text{self._attributes(element, is_words=True)}>{html.escape(element.text or '')}</text>"
        elif inside:
            yield "".join((f"<{kind}{self._attributes(element)}>", *inside, f"</{kind}>"))
        else:
            yield f"<{kind}{self._attributes(element)}/>"

    def _attributes(self, element: ElementTree.Element, is_words: bool = False) -> str:
        given = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
        style = dict(_declarations(given.pop("style", "")))
        if element.tag.endswith("}g"):
            given.pop("id", None)
        classes = [found for paint in PAINTS if (found := _class_of(paint, style.get(paint, ""), is_words))]
        for paint in PAINTS:
            if style.get(paint) == "none" or style.get(paint) in THEMED:
                del style[paint]
        if element.tag.endswith("}use"):  # the shape it points to has its lines, but not what fills it
            style = {name: value for name, value in style.items() if name == "fill"}
            classes = [name for name in classes if name.startswith("f-")]
        values = {name: self._value(name, value) for name, value in (given | style).items()}
        values |= {"class": " ".join(classes)} if classes else {}
        return "".join(f' {name}="{value}"' for name, value in values.items() if value)

    def _value(self, name: str, value: str) -> str:
        if name == "d":
            return _path(value)
        if name == "id" or (name == "href" and value.startswith("#")) or value.startswith("url(#"):
            bare = value.removeprefix("url(").removesuffix(")").removeprefix("#")
            return value.replace(bare, self._names.setdefault(bare, f"ddp-{len(self._names)}"))
        if name == "transform":
            return "" if value.startswith("rotate(-0 ") else re.sub(r"-?\d+\.\d+", lambda n: _n(float(n[0])), value)
        return _n(float(value)) if re.fullmatch(r"-?[\d.]+", value) else html.escape(value)


def _class_of(paint: str, color: str, is_words: bool) -> str:
    if color in THEMED:
        return f"{PAINTS[paint]}-{THEMED[color]}"
    return f"w-{OF_RANKS[color]}" if is_words and color in OF_RANKS else ""


def _declarations(style: str) -> Iterator[tuple[str, str]]:
    """A font's family is that of the whole picture; older releases write all of a font in one."""
    for declaration in filter(None, style.split(";")):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            weight, size = re.search(r"\b(bold|\d00)\b", value), re.search(r"([\d.]+)px", value)
            yield from (("font-weight", weight[1]),) if weight else ()
            name, value = "font-size", size[1] if size else ""
        value = value.removesuffix("px")
        if name != "font-family" and (name, value) != ("font-size", _n(FONT_SIZE)):
            yield name, value


def _path(d: str) -> str:
    """Coordinates to a tenth of a point, or a hundredth if all are small. Consecutive lines share one letter."""
    parts = re.findall(r"[A-Za-z]|[-\d.e]+", d)
    numbers = [abs(float(part)) for part in parts if not part.isalpha()]
    digits = 1 if max(numbers, default=0) > 20 else 2
    written, last = "", ""
    for part in parts:
        if part.isalpha():
            written += "" if part == last == "L" else part
            last = part
        else:
            number = _n(float(part), digits)
            written += number if written[-1:].isalpha() else f" {number}"
    return written


def _n(number: float, digits: int = 1) -> str:
    text = f"{number:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
