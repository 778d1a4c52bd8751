"""The figures of the lessons on pages without a kernel: alive on the site, still on slides.

A still carries the document that it was drawn from; the same module draws it in the page as in a notebook.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable
from typing import Any

from ddp_lessons.show.figures.living import script_of_page, style_sheet
from ddp_lessons.show.page.page_svg import as_html

STILL = "image/svg+xml"
DATA = re.compile(r'<metadata id="ddp-figure">(.*?)</metadata>', re.DOTALL)
CHART = '<svg xmlns="http://www.w3.org/2000/svg" class="ddp-chart"'  # which needs no script
FOLDER = "_figures"
FILES: dict[str, Callable[[], str]] = {f"{FOLDER}/figures.js": script_of_page, f"{FOLDER}/figures.css": style_sheet}


def bring_to_life(cell: Any) -> None:
    """In the place of each still, what site.js makes a living figure of; the still stays where there is no script."""
    for output in cell.get("outputs", []):
        still = output.get("data", {}).get(STILL)
        if still and still.startswith(CHART):
            output.data = {"text/html": as_html(still, output.metadata.get(STILL, {}).get("alt", ""))}
        elif still:
            document = DATA.search(still)
            data = html.unescape(document[1]).replace("<", "\\u003c") if document else ""
            script = f'<script type="application/json">{data}</script>' if document else ""
            output.data = {"text/html": f'<div class="ddp-living">{image_of(output)}{script}</div>'}


def keep_still(cell: Any) -> None:
    """Each still as an image: the styles of one that stood in the page itself would be those of all."""
    for output in cell.get("outputs", []):
        if STILL in output.get("data", {}):
            output.data = {"text/html": image_of(output)}


def image_of(output: Any) -> str:
    alt = html.escape(output.metadata.get(STILL, {}).get("alt", ""), quote=True)
    svg = base64.b64encode(DATA.sub("", output.data[STILL]).encode()).decode("ascii")
    return f'<img alt="{alt}" src="data:{STILL};base64,{svg}">'
