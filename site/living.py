"""The figures and the questions of the lessons on pages without a kernel.

A still carries the document that it was drawn from; the same module draws it in the page as in a notebook.
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
CHART = re.compile("<svg [^>]*class=.ddp-chart")  # which needs no script
FOLDER = "_figures"
FIRST_PAGE = "first_page.json"  # what landing.py makes, for the template landing.html
FILES: dict[str, Callable[[], str]] = {f"{FOLDER}/figures.js": script_of_page, f"{FOLDER}/figures.css": style_sheet}


def bring_to_life(cell: Any) -> None:
    """In the place of each still, what site.js makes a living figure of; the still stays where there is no script."""
    for output in cell.get("outputs", []):
        still = output.get("data", {}).get(STILL)
        if still and CHART.match(still):
            output.data = {"text/html": as_html(still, words_of(output))}
        elif still:
            output.data = {"text/html": place_of(still, words_of(output))}


def place_of(still: str, alt: str) -> str:
    return living_place(document_of(still), image_of(still, alt))


def living_place(document: Mapping[str, Any] | None, until_then: str) -> str:
    """Where the document will live; without a script, or without a document, the HTML that is there stays."""
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    script = f'<script type="application/json">{data}</script>' if document else ""
    return f'<div class="ddp-living">{until_then}{script}</div>'


def words_of(output: Any) -> str:
    return str(output.metadata.get(STILL, {}).get("alt", ""))


def image_of(still: str, alt: str) -> str:
    """As an image: the styles of a still that stood in the page itself would be those of all."""
    svg = base64.b64encode(without_document(still).encode()).decode("ascii")
    return f'<img alt="{html.escape(alt, quote=True)}" src="data:{STILL};base64,{svg}">'
