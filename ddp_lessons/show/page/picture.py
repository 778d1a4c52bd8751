"""A picture that shows itself in a notebook and can be read without eyes: it has an alt text and a drawing in text."""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import matplotlib.style
import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath
from PIL import Image

from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.show.figures.figure import Shown

P = ParamSpec("P")
Drawn = TypeVar("Drawn")

PAPER, INK, FAINT, ALARM = "#FFFFFF", "#111820", "#5F6B7A", "#A8121E"
LINE, BAND = "#D5DAE1", "#F5F7FA"  # rulers and frames; every other lane
SHADES = 12
PIXELS_PER_INCH, TALL, PIXELS_PER_INCH_OF_TALL = 160, 4.5, 115
_one_at_a_time = threading.RLock()
SHOWN_PER_INCH = 92  # the page shows fewer, so that a fine screen has pixels to spare


@dataclass(frozen=True, eq=False, repr=False)
class Picture(Shown):
    """What the functions of `show` return. `text` is the same in every run of a deterministic program: it has no times.

    `axes` is matplotlib's Axes, or an array of them; `alt` says in a sentence or two what is to be seen.
    """

    figure: Figure
    axes: Any
    text: str
    alt: str

    @property
    def svg(self) -> str:
        from ddp_lessons.show.page.page_svg import still_svg

        return still_svg(self.figure, self.alt)

    def png(self) -> bytes:
        """Few colors make a small file: a notebook keeps every picture that it shows."""
        with house_style():
            canvas: Any = FigureCanvasAgg(self.figure)
            self.figure.set_dpi(PIXELS_PER_INCH if self.figure.get_figheight() < TALL else PIXELS_PER_INCH_OF_TALL)
            canvas.draw()
        image, file = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"), io.BytesIO()
        image.quantize(palette=_palette(), dither=Image.Dither.NONE).save(file, "png", optimize=True)
        return file.getvalue()

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        width = round(self.figure.get_figwidth() * SHOWN_PER_INCH)
        image = base64.b64encode(self.png()).decode("ascii")
        return {"image/png": image, "text/plain": self.text}, {"image/png": {"alt": self.alt, "width": width}}

    def _ipython_display_(self) -> None:
        from ddp_lessons.show.figures.living import publish

        publish(self, {})


@functools.cache
def _palette() -> Image.Image:
    """Our colors, each in steps down to the paper: a rank's own color stays exactly what it is."""
    colors = np.array([to_rgb(color) for color in (*RANK_COLORS, INK, FAINT, ALARM)])
    rest = np.arange(SHADES)[:, None, None] / SHADES
    shades = (colors * (1 - rest) + rest).reshape(-1, 3)
    plain = np.array([to_rgb(color) for color in (PAPER, BAND, LINE)])
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.rint(255 * np.concatenate([shades, plain])).astype(np.uint8).tobytes())
    return palette


@contextlib.contextmanager
def house_style() -> Iterator[None]:
    """Our pictures look alike whatever style the notebook has chosen for its own."""
    house = {"font.size": 9, "svg.hashsalt": "ddp-lessons", "svg.fonttype": "none", "hatch.linewidth": 0.7}
    house |= {"path.simplify_threshold": 0.25}  # in points: leave out what is too small to see
    house |= {"text.parse_math": False}  # a learner's label may hold dollar signs
    house |= {"text.color": INK, "axes.labelcolor": FAINT, "xtick.color": FAINT, "ytick.color": FAINT}
    house |= {
        "axes.edgecolor": LINE,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.family": "DejaVu Sans",
    }
    # matplotlib's style is of the whole process: of two threads that leave by turns, one would leave ours behind
    with _one_at_a_time, matplotlib.style.context("default"), rc_context(house):  # type: ignore[arg-type]
        yield


def drawn_in_house_style(draw: Callable[P, Drawn]) -> Callable[P, Drawn]:
    @functools.wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Drawn:
        with house_style():
            return draw(*args, **kwargs)

    return styled


def new_figure(width: float, height: float) -> Figure:
    """A figure of so many inches. It doesn't belong to pyplot, so it isn't shown twice and needn't be closed."""
    return Figure(figsize=(width, height), facecolor=PAPER, dpi=PIXELS_PER_INCH)


@functools.lru_cache(maxsize=4096)
def text_size(text: str, size: float, weight: str = "normal") -> tuple[float, float]:
    """How wide and how high a text will be, in points."""
    font = FontProperties(size=size, weight=weight)
    width, height, _ = TextToPath().get_text_width_height_descent(text, font, ismath=False)
    return float(width), float(height)


def contrast(one: str, other: str) -> float:
    """From 1 (the same) to 21 (black on white), as accessibility guidelines count it."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def ink_on(color: str) -> str:
    """The color in which a text on this one reads better."""
    return max(INK, PAPER, key=functools.partial(contrast, color))


def _luminance(color: str) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@drawn_in_house_style
def write_picture(sentence: str) -> Picture:
    """A picture of a sentence: where there is nothing to draw, it says why."""
    figure = new_figure(9.6, 0.45)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.text(0.02, 0.5, sentence, va="center", gid="sentence")
    return Picture(figure, axes, sentence, sentence)


def events_of(results: Any) -> Any:
    """The events of results, of an exception with results, or the events themselves."""
    results = getattr(results, "results", results)
    events = getattr(results, "events", results)
    if not hasattr(events, "deliveries"):
        raise TypeError(f"pictures are drawn from what launch() returned, and this is of type {type(results).__name__}")
    return events


def name_recording(results: Any) -> str:
    """ "recorded (Linux, ...)" if these are results of another machine, else ""."""
    how = getattr(getattr(results, "results", results), "recorded", "")
    return f"recorded ({how})" if how else ""


def count(number: int, noun: str) -> str:
    """ "1 message", "2 messages" """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def show_bytes(number: float) -> str:
    """Short, and with the unit: "16 B", "4 KB", "16 MB" (of 1,000)."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:g} B"


def show_seconds(number: float) -> str:
    """Short, and with the unit: "35 ms"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number / 1e-6:.3g} µs" if number else "0"


def show_network(latency: float, bandwidth: float) -> str:
    return f"a latency of {show_seconds(latency)}, {show_bytes(bandwidth)} per second"


def show_values(values: Any, room: int = 14) -> str:
    """Numbers as short as they are: "[1, 2.5]"; "" if they take more room than there is."""
    text = "[" + ", ".join(f"{value:.4g}" for value in values) + "]"
    return text if len(text) <= room else ""
