"""The named colors of figures on a light and on a dark page, and the font for measuring text.

In an SVG, a color is a class: "f-ink" for fills and "s-ink" for lines. A page can override it by setting `--ddp-ink`.
"""

from __future__ import annotations

import functools
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
INK, PAPER = LIGHT["ink"], LIGHT["paper"]


def color_of_rank(rank: int) -> str:
    return f"rank {rank % len(RANK_COLORS)}"


def ink_on(color: str) -> str:
    """The color of text on a filled box, which is the same on a light and on a dark page."""
    color = (LIGHT | RANKS).get(color, color)
    return max(INK, PAPER, key=functools.partial(contrast, color))


def contrast(one: str, other: str) -> float:
    """The contrast ratio of accessibility guidelines, from 1 (the same color) to 21 (black on white)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@functools.lru_cache(maxsize=8192)
def width_of(text: str, size: float) -> float:
    """The width in pixels in DejaVu Sans, which is wide, so that the text also fits in the page's font."""
    return sum(map(_advance, text)) * size


def font_file() -> str:
    import matplotlib

    return f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf"


@functools.cache
def _font() -> Any:
    from matplotlib.ft2font import FT2Font

    font = FT2Font(font_file())
    font.set_size(100, 72)
    return font


@functools.cache
def _advance(letter: str) -> float:
    """The width at a font size of one pixel. A character that the font lacks, such as an emoji, counts as a W."""
    number = ord(letter)
    known = number if _font().get_char_index(number) else ord("W")
    return float(_font().load_char(known).linearHoriAdvance / 65536 / 100)
