"""A drawing in steps: the browser plays it, and the still has its chief moments, one below the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ddp_lessons.show.figures.drawing import Drawing, Shape
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.layouts import (
    LINE_HEIGHT,
    WIDTHS,
    label,
    moved,
    plain,
    with_title,
    without_repeats,
    wrapped,
)


@dataclass(frozen=True)
class Cue:
    """A shape, and when it is to be seen: it comes in step `since`, and is gone after step `until`."""

    shape: Shape
    since: int = 0
    until: int | None = None
    origin: tuple[float, float] | None = None  # so far from its place it sets out; without, it fades in

    def is_seen(self, step: int) -> bool:
        return self.since <= step and (self.until is None or step < self.until)


@dataclass(frozen=True)
class Film:
    width: float
    height: float
    shapes: Sequence[Cue]

    def at(self, step: int) -> Drawing:
        return Drawing(self.width, self.height, [cue.shape for cue in self.shapes if cue.is_seen(step)])


def film_of(
    draw: Callable[[float], Film], captions: Sequence[str], moments: Sequence[int], title: str, text: str, alt: str
) -> Figure:
    """What `draw` makes of each width. `captions[k]` says what step k is, and a still has the steps of `moments`."""
    films = without_repeats([draw(width) for width in WIDTHS])
    layouts = [{"width": one.width, "height": one.height, "shapes": [*map(_plain, one.shapes)]} for one in films]
    document = {"kind": "drawing", "title": title, "alt": alt, "layouts": layouts, "captions": [*captions]}
    said = [captions[moment] if len(moments) > 1 else "" for moment in moments]
    scenes = [_scene(films[-1].at(moment), one) for moment, one in zip(moments, said, strict=True)]
    return Figure(document, with_title(_below_each_other(scenes), title), text, alt)


def _plain(cue: Cue) -> dict[str, Any]:
    times = {"since": cue.since or None, "until": cue.until}
    origin = {"from": [round(part, 1) for part in cue.origin]} if cue.origin else {}
    return plain(cue.shape) | {name: time for name, time in times.items() if time is not None} | origin


def _scene(drawing: Drawing, caption: str) -> Drawing:
    lines = wrapped(caption, drawing.width - 12) if caption else []
    words = [label(4, (n + 0.5) * LINE_HEIGHT, line, "faint") for n, line in enumerate(lines)]
    lower = len(lines) * LINE_HEIGHT
    return Drawing(
        drawing.width, drawing.height + lower, [*words, *(moved(shape, 0, lower) for shape in drawing.shapes)]
    )


def _below_each_other(scenes: Sequence[Drawing]) -> Drawing:
    shapes: list[Shape] = []
    y = 0.0
    for scene in scenes:
        shapes += [moved(shape, 0, y) for shape in scene.shapes]
        y += scene.height
    return Drawing(scenes[0].width, y, shapes)
