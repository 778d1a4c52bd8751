"""The lessons' figures on pages without a kernel: the stored SVG, and the player that a notebook has, too."""

from __future__ import annotations

import base64
import html
from typing import Any

from ddp_lessons.show.figures.figure import living_svg_in, page_of

STILL = "image/svg+xml"
FIRST_PAGE = "first_page.json"  # written by landing.py for the template landing.html


def bring_to_life(cell: Any) -> None:
    """Replace each static picture by the figure; without a script it stays the picture that it is."""
    for output in cell.get("outputs", []):
        if still := output.get("data", {}).get(STILL):
            output.data = {"text/html": page_of(living_svg_in(still), words_of(output))}


def words_of(output: Any) -> str:
    return str(output.metadata.get(STILL, {}).get("alt", ""))


def image_of(still: str, alt: str) -> str:
    """As an image, which takes any size."""
    svg = base64.b64encode(still.encode()).decode("ascii")
    return f'<img alt="{html.escape(alt, quote=True)}" src="data:{STILL};base64,{svg}">'
