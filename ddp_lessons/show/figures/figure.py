"""A figure that shows itself: alive where the front end has widgets, and everywhere as a still image with its words."""

from __future__ import annotations

import abc
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddp_lessons.show.figures.drawing import Drawing, Words, to_png, to_svg, width_of


class Shown(abc.ABC):
    """What shows itself in a notebook, and can be saved."""

    text: str
    alt: str

    @property
    @abc.abstractmethod
    def svg(self) -> str:
        """In the colors of a light or a dark page."""

    @abc.abstractmethod
    def png(self) -> bytes:
        """In the light ones."""

    def save(self, path: str | pathlib.Path) -> None:
        """Write a .png or an .svg file."""
        suffix = pathlib.Path(path).suffix.lower()
        if suffix == ".png":
            pathlib.Path(path).write_bytes(self.png())
        elif suffix == ".svg":
            pathlib.Path(path).write_text(self.svg, encoding="utf-8")
        else:
            raise ValueError(f"a picture is saved as .png or .svg, and {str(path)!r} ends in neither")

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"image/svg+xml": self.svg, "text/plain": self.text}, {"image/svg+xml": {"alt": self.alt}}

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False, repr=False)
class Figure(Shown):
    """What the functions of `show` return that draw anything but charts.

    `document` is all that is drawn, as JSON. `text` is the same in every run of a deterministic program: it has no
    times. `alt` says in a sentence or two what is to be seen.
    """

    document: Mapping[str, Any]
    still: Drawing
    text: str
    alt: str

    @property
    def svg(self) -> str:
        return to_svg(self.still, self.alt, self.document)

    def png(self) -> bytes:
        return to_png(self.still)

    def _ipython_display_(self) -> None:
        from ddp_lessons.show.figures.living import publish, view_of

        publish(self, view_of(self.document))


def write_figure(sentence: str) -> Figure:
    """A figure of a sentence: where there is nothing to draw, it says why."""
    still = Drawing(width_of(sentence) + 16, 30, [Words(8, 15, sentence)])
    return Figure({"kind": "note", "alt": sentence}, still, sentence, sentence)
