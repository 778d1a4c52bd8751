"""What every picture has to be: nothing stands on another thing, nothing sticks out of the page."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from ddp_lessons import show
from ddp_lessons.show.figures.drawing import COMMON, Bars, Box, Drawing, Line, Shape, Words, width_of


def all_texts(picture: show.Picture) -> list[Text]:
    """Those that one can see: the picture's own, those of its axes, ticks and keys."""
    return [text for text in picture.figure.findobj(Text) if text.get_text().strip() and text.get_visible()]


def words(picture: show.Picture, gid: str) -> list[str]:
    return [text.get_text() for text in all_texts(picture) if str(text.get_gid()).startswith(gid)]


def check_that_texts_stand_apart(picture: show.Picture) -> None:
    canvas: Any = FigureCanvasAgg(picture.figure)
    canvas.draw()
    page = picture.figure.bbox
    seen = [(text, text.get_window_extent(canvas.get_renderer())) for text in _drawn(picture)]
    for text, box in seen:
        is_inside = box.x0 >= -1 and box.x1 <= page.x1 + 1 and box.y0 >= -1 and box.y1 <= page.y1 + 1
        assert is_inside, f"{text.get_text()!r} sticks out of the page"
    shrunk = [(text, box.padded(-1.5)) for text, box in seen]  # a letter's own margin may touch
    pairs = itertools.combinations(shrunk, 2)
    covered = [(a.get_text(), b.get_text()) for (a, one), (b, other) in pairs if one.overlaps(other)]
    assert not covered


def lines_of(axes: Axes, gid: str) -> list[tuple[Any, Any]]:
    """The points of every line of this name: x, y."""
    found = [line for line in axes.lines if line.get_gid() == gid]
    return [(list(np.asarray(line.get_xdata())), list(np.asarray(line.get_ydata()))) for line in found]


def _drawn(picture: show.Picture) -> list[Text]:
    """Matplotlib keeps ticks that lie outside of their axes, and does not draw them."""
    hidden = set()
    for axes in picture.figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            outside = [tick for tick in ticks if not low <= tick.get_loc() <= high or not axes.axison]
            hidden |= {id(label) for tick in outside for label in (tick.label1, tick.label2)}
            hidden |= {id(axis.get_offset_text())} if not axes.axison else set()
    return [text for text in all_texts(picture) if id(text) not in hidden]


def layouts_of(figure: show.Figure) -> list[Drawing]:
    """What the browser has to choose from, out of its document."""
    return [Drawing(one["width"], one["height"], [*map(_shape, one["shapes"])]) for one in figure.document["layouts"]]


def _shape(plain: dict[str, Any]) -> Shape:
    kinds: dict[str, Any] = {"box": Box, "bars": Bars, "line": Line, "words": Words}
    (kind,) = kinds.keys() & plain.keys()
    size = {"size": COMMON} if kind == "words" else {}
    return kinds[kind](*plain[kind], **size, **{name: value for name, value in plain.items() if name != kind})  # type: ignore[no-any-return]


def labels(drawing: Drawing) -> list[str]:
    return [shape.text for shape in drawing.shapes if isinstance(shape, Words)]


def check_layouts(figure: show.Figure) -> None:
    """Words stand apart at every width; the still is the widest, with the title above it."""
    layouts = layouts_of(figure)
    assert [one.width for one in layouts] == sorted({one.width for one in layouts})
    for one in (*layouts, figure.still):
        check_that_words_stand_apart(one)
    title = [figure.document["title"]] * bool(figure.document["title"])
    words = [one for one in figure.still.shapes if isinstance(one, Words)]
    assert {one.size for one in words[len(title) :]} == {COMMON}  # which the browser gives to all
    assert labels(figure.still) == [*title, *labels(layouts[-1])]


def check_that_words_stand_apart(still: Drawing) -> None:
    """Of a still: none covers another, all are inside, and none is smaller than 12 pixels."""
    boxes = [(one.text, *_box_of(one)) for one in still.shapes if isinstance(one, Words) and one.text]
    outside = [
        text
        for text, x, y, right, bottom in boxes
        if x < -1 or y < -1 or right > still.width + 1 or bottom > still.height + 1
    ]
    assert not outside
    assert min(one.size for one in still.shapes if isinstance(one, Words)) >= 12
    pairs = itertools.combinations(boxes, 2)
    assert not [(a[0], b[0]) for a, b in pairs if a[1] < b[3] and b[1] < a[3] and a[2] < b[4] and b[2] < a[4]]


def _box_of(words: Words) -> tuple[float, float, float, float]:
    """Of its letters; a letter's own margin may touch."""
    width = width_of(words.text, words.size)
    left = words.x - {"start": 0.0, "middle": 0.5, "end": 1.0}[words.anchor] * width
    return left + 1, words.y - 0.38 * words.size, left + width - 1, words.y + 0.38 * words.size
