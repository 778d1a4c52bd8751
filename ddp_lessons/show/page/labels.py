"""Labels that do not cover each other: each tries some places, and stays away when all are taken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from ddp_lessons.show.page.picture import FAINT, INK, PAPER, text_size

GAP = 1.5  # points around a label
STRIPE = 40  # points: labels are looked up by the stripes that they touch
Box = tuple[float, float, float, float]  # left, low, right, high, in points


@dataclass(frozen=True)
class Place:
    """Where a label may stand: its middle, or one of its ends, in the units of the axes, moved by so many points."""

    x: float
    y: float
    shift: tuple[float, float] = (0.0, 0.0)
    align: str = "center"
    color: str = INK


class Labels:
    """The labels of one axes, whose size and limits no longer change."""

    def __init__(self, axes: Axes) -> None:
        self._axes = axes
        self._to_points: Any = axes.transData.frozen()
        self._points_per_pixel = 72 / axes.figure.dpi
        self._taken: dict[int, list[Box]] = defaultdict(list)
        (left, low), (right, high) = axes.bbox.get_points() * self._points_per_pixel
        self._page = left, low, right, high

    def put(self, texts: Sequence[str], places: Iterable[Place], size: float, gid: str) -> None:
        """Write the first text that finds a free place."""
        places = tuple(places)
        for text in texts:
            for place in places:
                box = self._box(text, place, size)
                if self._is_free(box):
                    self._write(text, place, box, size, gid)
                    return

    def keep_free(self, x: float, y: float, size: float) -> None:
        """Keep labels away from this point and from a margin of so many points around it."""
        across, up = self.points(x, y)
        self._take((across - size, up - size, across + size, up + size))

    def name_cores(self, cores: int, low: float) -> None:
        """Beside the line from which on ranks share cores, as far down as can be."""
        texts = [f"more ranks than cores ({cores})", f"cores: {cores}"]
        places = [Place(cores, low, (5, up), "left", color=FAINT) for up in range(8, int(self._page[3]) - 8, 6)]
        self.put(texts, [*places, Place(cores, low, (-5, 8), "right", color=FAINT)], 8, "name of the cores")

    def points(self, x: float, y: float) -> tuple[float, float]:
        """A point of the axes, in points of the page."""
        across, up = self._to_points.transform((x, y)) * self._points_per_pixel
        return float(across), float(up)

    def _take(self, box: Box) -> None:
        for stripe in _stripes(box):
            self._taken[stripe].append(box)

    def _box(self, text: str, place: Place, size: float) -> Box:
        width, height = text_size(text, size)[0], size
        x, y = self.points(place.x, place.y)
        x, y = x + place.shift[0], y + place.shift[1]
        left = x - width * {"left": 0.0, "center": 0.5, "right": 1.0}[place.align]
        return left - GAP, y - height / 2 - GAP / 2, left + width + GAP, y + height / 2 + GAP / 2

    def _is_free(self, box: Box) -> bool:
        left, low, right, high = box
        page = self._page
        if left < page[0] or low < page[1] or right > page[2] or high > page[3]:
            return False
        others = (other for stripe in _stripes(box) for other in self._taken[stripe])
        return all(right <= o[0] or o[2] <= left or high <= o[1] or o[3] <= low for o in others)

    def _write(self, text: str, place: Place, box: Box, size: float, gid: str) -> None:
        self._take(box)
        label = self._axes.annotate(
            text,
            (place.x, place.y),
            place.shift,
            textcoords="offset points",
            ha=place.align,
            va="center_baseline",
            fontsize=size,
            color=place.color,
            parse_math=False,
            zorder=10,
            gid=gid,
        )
        label.set_bbox({"boxstyle": "round,pad=0.1", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.85})


def _stripes(box: Box) -> range:
    return range(int(box[1] // STRIPE), int(box[3] // STRIPE) + 1)
