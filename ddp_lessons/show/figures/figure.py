"""A figure that displays itself: as HTML with a player, as an SVG image, and as text."""

from __future__ import annotations

import abc
import base64
import functools
import gzip
import html
import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ddp_lessons.show.figures.drawing import Drawing, as_still, to_svg
from ddp_lessons.show.figures.palette import font_file

HERE = pathlib.Path(__file__).parent
_PACKED = re.compile("<metadata>(.*?)</metadata>")
WIDEST_STILL = 800
_VARIABLE = re.compile(r"var\(--[\w-]+,(#\w+)\)")


class Shown(abc.ABC):
    """Displays itself in a notebook, and can be saved."""

    text: str
    alt: str

    @property
    @abc.abstractmethod
    def svg(self) -> str:
        """The image as SVG, in the colors of a light or a dark page."""

    @abc.abstractmethod
    def png(self) -> bytes:
        """The image as PNG, in the colors of a light page."""

    def save(self, path: str | pathlib.Path) -> None:
        """Save the image as a .png or an .svg file."""
        suffix = pathlib.Path(path).suffix.lower()
        if suffix == ".png":
            pathlib.Path(path).write_bytes(self.png())
        elif suffix == ".svg":
            pathlib.Path(path).write_text(self.svg, encoding="utf-8")
        else:
            raise ValueError(f"a figure is saved as .png or .svg, but {str(path)!r} ends in neither")

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        svg = self.svg
        data = {"text/html": page_of(self._living(svg), self.alt), "image/svg+xml": svg, "text/plain": self.text}
        return data, {"image/svg+xml": {"alt": self.alt}}

    def _living(self, svg: str) -> str:
        """The SVG for a page, which may contain more than the file."""
        return svg

    def _ipython_display_(self) -> None:
        """Display the figure and, below it, a caption that unfolds to the text version."""
        from IPython.display import publish_display_data

        words = f"<details><summary>{html.escape(self.alt)}</summary><pre>{html.escape(self.text)}</pre></details>"
        publish_display_data(*self._repr_mimebundle_())
        publish_display_data({"text/html": words, "text/plain": self.alt})

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False, repr=False)
class Figure(Shown):
    """Returned by the functions of `show` that draw anything but charts.

    `views` has the layouts of each view, from narrow to wide. `captions[k]` describes step k. `text` has no times, so
    it is the same in every run of a deterministic program. `alt` describes the figure in a sentence or two.
    """

    views: Mapping[str, Sequence[Drawing]]
    text: str
    alt: str
    captions: Sequence[str] = ()
    shown: str = ""  # the first view
    data: Mapping[str, object] = field(default_factory=dict)  # what else the player needs to know

    @functools.cached_property
    def svg(self) -> str:
        """What is visible without a player, to keep notebooks small; the whole figure is packed into it."""
        still = as_still(self._still)
        packed = base64.b64encode(gzip.compress(self.living_svg.encode(), mtime=0)).decode("ascii")
        return to_svg({"": [still]}, still, self.alt).replace("</svg>", f"<metadata>{packed}</metadata></svg>")

    @functools.cached_property
    def living_svg(self) -> str:
        return to_svg(self.views, self._still, self.alt, self.captions, **self.data)

    def _living(self, svg: str) -> str:
        return self.living_svg

    @property
    def _still(self) -> Drawing:
        """The widest layout that fits on paper and on GitHub."""
        layouts = self.views[self.shown]
        return next((one for one in reversed(layouts) if one.width <= WIDEST_STILL), layouts[0])

    def png(self) -> bytes:
        import resvg_py

        light = _VARIABLE.sub(r"\1", self.svg)
        fonts = [font_file(), font_file().replace("Sans.", "Sans-Bold.")]
        return bytes(resvg_py.svg_to_bytes(svg_string=light, zoom=2, font_files=fonts, skip_system_fonts=True))


def living_svg_in(svg: str) -> str:
    """Unpack what is in a figure's SVG; a chart's SVG has nothing packed."""
    found = _PACKED.search(svg)
    return gzip.decompress(base64.b64decode(found[1])).decode() if found else svg


@functools.cache
def player() -> str:
    return f"<script data-ddp>\n{(HERE / 'player.js').read_text(encoding='utf-8')}</script>"


@functools.cache
def style_sheet() -> str:
    return f"<style data-ddp>\n{(HERE / 'figure.css').read_text(encoding='utf-8')}</style>"


def page_of(svg: str, alt: str) -> str:
    """Return an image, which the script replaces by the SVG itself. In an untrusted notebook, the image stays."""
    packed = base64.b64encode(svg.encode()).decode("ascii")
    return inline_of(f'<img alt="" src="data:image/svg+xml;base64,{packed}">{player()}', alt)


def inline_of(content: str, alt: str) -> str:
    """Return the SVG itself, in the colors of the page, for a widget, in which no scripts run."""
    room = f'<div class="ddp-room" tabindex="0" role="group" aria-label="{html.escape(alt)}">{content}</div>'
    return f'<div class="ddp-figure">{style_sheet()}{room}</div>'
