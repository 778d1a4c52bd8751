"""The lessons' figures and questions on pages without a kernel.

A static picture contains the document that it was drawn from; the same module draws it in a page and in a notebook.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ddp_lessons.show.figures.drawing import document_of, without_document
from ddp_lessons.show.figures.living import script_of_page, style_sheet
from ddp_lessons.show.page.page_svg import as_html

STILL = "image/svg+xml"
CHART = re.compile("<svg [^>]*class=.ddp-chart")  # a chart, which needs no script
FOLDER = "_figures"
FIRST_PAGE = "first_page.json"  # written by landing.py for the template landing.html
FILES: dict[str, Callable[[], str]] = {f"{FOLDER}/figures.js": script_of_page, f"{FOLDER}/figures.css": style_sheet}


def bring_to_life(cell: Any) -> None:
    """Replace each static picture by a place for site.js to draw an interactive figure; without a script it stays."""
    for output in cell.get("outputs", []):
        still = output.get("data", {}).get(STILL)
        if still and CHART.match(still):
            output.data = {"text/html": as_html(still, words_of(output))}
        elif still:
            output.data = {"text/html": place_of(still, words_of(output))}


def place_of(still: str, alt: str) -> str:
    return living_place(document_of(still), image_of(still, alt))


def living_place(document: Mapping[str, Any] | None, until_then: str) -> str:
    """The place for an interactive document; without a script or a document, the given HTML stays."""
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    script = f'<script type="application/json">{data}</script>' if document else ""
    return f'<div class="ddp-living">{until_then}{script}</div>'


def words_of(output: Any) -> str:
    return str(output.metadata.get(STILL, {}).get("alt", ""))


def image_of(still: str, alt: str) -> str:
    """As an image, because the styles of inline SVG would apply to the whole page."""
    svg = base64.b64encode(without_document(still).encode()).decode("ascii")
    return f'<img alt="{html.escape(alt, quote=True)}" src="data:{STILL};base64,{svg}">'
