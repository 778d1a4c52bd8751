"""A chart: matplotlib's SVG, recolored for a light or a dark page."""

from __future__ import annotations

import contextlib
import functools
import html
import io
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar

import matplotlib.style
import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ddp_lessons.show.figures.figure import Shown
from ddp_lessons.show.figures.palette import DARK, FONT, LIGHT, RANKS, width_of

P = ParamSpec("P")
Drawn = TypeVar("Drawn")

PAPER, INK, FAINT, ALARM = (LIGHT[name] for name in ("paper", "ink", "faint", "alarm"))
LINE, BAND = LIGHT["line"], LIGHT["band"]  # grid lines and frames; the area where ranks share cores
MARKERS = "osD^vP*X"
WIDTH = 7.5  # inches; a browser shows 96 pixels per inch
SIZE = 9.0  # points: the size of most text, 12 pixels
KEY_ROW, HANDLE = 14.0, 35.0  # points: a row of the legend, and a symbol in it with its gaps
_one_at_a_time = threading.RLock()


@dataclass(frozen=True, eq=False, repr=False)
class Chart(Shown):
    """Returned by the functions of `show` that draw curves or images.

    `axes` is matplotlib's Axes, or a list of them. `text` has no times, so it is the same in every run of a
    deterministic program. `alt` describes the figure in a sentence or two.
    """

    figure: Figure
    axes: Any
    text: str
    alt: str

    @property
    def svg(self) -> str:
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        written = self._saved("svg", transparent=True, metadata=metadata).decode()
        head, _, content = written[written.index("<svg") :].partition(">")
        # matplotlib's own rule would apply to the whole page
        content = content.replace("*{", f"{_rules(content)}\n#figure_1 *{{", 1)
        return f"{head}><title>{html.escape(self.alt)}</title>{content}"

    def png(self) -> bytes:
        return self._saved("png")

    def _saved(self, kind: str, **options: Any) -> bytes:
        file = io.BytesIO()
        with house_style():
            self.figure.savefig(file, format=kind, **options)
        return file.getvalue()


def _rules(svg: str) -> str:
    """Replace our colors by those of the page or, in a separate file, by those of the reader's system."""
    rules = [f"#figure_1 text{{font-family:{FONT}!important}}svg:root{{background:var(--ddp-paper,{PAPER})}}"]
    for name, paint in itertools.product(DARK, ("fill", "stroke")):
        written = f"{paint}: {LIGHT[name].lower()}"
        if written in svg:
            rules.append(f'[style*="{written}"]{{{paint}:var(--ddp-{name},{LIGHT[name]})!important}}')
    for color in RANKS.values():  # text in a rank's color is mixed with ink to keep it readable
        mixed = f"color-mix(in srgb,{color} 62%,var(--ddp-ink,{INK}))"
        if f"fill: {color.lower()}" in svg:
            rules.append(f'text[style*="fill: {color.lower()}"]{{fill:{mixed}!important}}')
    dark = ";".join(f"--ddp-{name}:{color}" for name, color in DARK.items())
    return "\n".join([*rules, f"@media (prefers-color-scheme:dark){{svg:root{{{dark}}}}}"])


@contextlib.contextmanager
def house_style() -> Iterator[None]:
    """Draw our charts in one style, whatever style the notebook uses for its own."""
    house: dict[str, Any] = {"font.size": SIZE, "font.family": "DejaVu Sans", "text.color": INK}
    house |= dict.fromkeys(("axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize"), SIZE)
    house |= dict.fromkeys(("axes.labelcolor", "xtick.color", "ytick.color"), FAINT)
    house |= {"axes.edgecolor": LINE, "axes.spines.top": False, "axes.spines.right": False}
    house |= {"svg.hashsalt": "ddp-lessons", "svg.fonttype": "none", "image.composite_image": False}
    house |= {"path.simplify_threshold": 0.25}  # in points: leave out what is too small to see
    house |= {"text.parse_math": False}  # a learner's label may contain dollar signs
    # matplotlib's style is global: if two threads leave in the wrong order, our style would stay behind
    with _one_at_a_time, matplotlib.style.context("default"), rc_context(house):  # type: ignore[arg-type]
        yield


def drawn_in_house_style(draw: Callable[P, Drawn]) -> Callable[P, Drawn]:
    @functools.wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Drawn:
        with house_style():
            return draw(*args, **kwargs)

    return styled


def new_figure(width: float, height: float, title: str | None = None) -> Figure:
    """Create a figure of this size in inches, without pyplot, so it isn't shown twice and needn't be closed."""
    figure = Figure(figsize=(width, height), facecolor=PAPER, dpi=160)
    if title:
        figure.text(8 / 72 / width, 1 - 11 / 72 / height, title, fontsize=10, weight="bold", va="center")
    return figure


def new_axes(
    left: float, right: float, high: float, names: Sequence[str], title: str | None = None
) -> tuple[Figure, Axes]:
    """Create axes `high` inches high, with room for the x-axis below, and for a legend and the title above."""
    columns = _columns(names, left)
    above, foot = (-(-len(names) // columns) * KEY_ROW + 8 + 18 * bool(title)) / 72, 0.5
    height = above + high + foot
    figure = new_figure(WIDTH, height, title)
    axes = figure.add_axes((left / WIDTH, foot / height, (WIDTH - left - right) / WIDTH, high / height))
    draw_rulers(axes)
    return figure, axes


def draw_rulers(axes: Axes, axis: Literal["both", "y"] = "y") -> None:
    """Draw grid lines behind the curves, one at each tick."""
    axes.grid(axis=axis, color=LINE, lw=0.6)
    axes.set_axisbelow(True)


def draw_key(axes: Axes) -> None:
    """Draw the legend in rows above the axes, where it hides nothing."""
    handles, names = axes.get_legend_handles_labels()
    columns = _columns(names, axes.get_position().x0 * WIDTH)
    # matplotlib fills the legend column by column, but we read row by row
    order = [place for column in range(columns) for place in range(column, len(names), columns)]
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "ncols": columns, "borderaxespad": 0.3}
    style: dict[str, Any] = {"frameon": False, "labelcolor": INK, "columnspacing": 1.2, "labelspacing": 0.35}
    axes.legend([handles[i] for i in order], [names[i] for i in order], **place, **style, handlelength=1.9)


def _columns(names: Sequence[str], left: float) -> int:
    """The number of columns in the legend, each as wide as the longest name."""
    widest = max(width_of(name, SIZE) for name in names) + HANDLE
    return min(max(int(72 * (WIDTH - left) // widest), 1), len(names))


def mark_odd(axes: Axes, x: Any, height: float, color: str) -> None:
    """Mark each nan or inf, at this fraction of the axes' height."""
    if len(x):
        few = x[:: -(-len(x) // 30)]
        style: dict[str, Any] = {"ms": 5, "mec": ALARM, "mew": 0.8, "clip_on": False, "zorder": 6}
        axes.plot(few, [height] * len(few), "X", color=color, transform=axes.get_xaxis_transform(), **style)


def thinned(x: Any, y: Any, most: int) -> tuple[Any, Any]:
    """Keep at most `most` points: the highest of each section, and its lowest or a nan."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(x) <= most:
        return x, y
    edges = np.linspace(0, len(y), most // 2 + 1).astype(int)
    stretches = [(begin, np.nan_to_num(y[begin:end], nan=-np.inf)) for begin, end in itertools.pairwise(edges)]
    chosen = {begin + extreme for begin, part in stretches for extreme in (part.argmin(), part.argmax())}
    kept = sorted({0, len(y) - 1, *map(int, chosen)})
    return x[kept], y[kept]
