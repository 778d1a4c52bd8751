"""A plugin of pytest, so that `pytest --nbval` passes for a copy of the lessons in any folder, on anybody's CI.

It is loaded wherever this package is installed, and does nothing without nbval.
"""

from __future__ import annotations

import os
import re
from typing import Any

FIGURE = "image/svg+xml"
OF_A_PAGE = re.compile(r"<(style|script)[^>]* data-ddp\b.*?</\1>\n?", re.DOTALL)


def pytest_configure(config: Any) -> None:
    """An exercise's report mentions the hints after three tries; so a try of a test must not count."""
    if config.getoption("nbval", False) or config.getoption("nbval_lax", False):
        os.environ.setdefault("DDP_LESSONS_PROGRESS", "off")


def pytest_collectstart(collector: Any) -> None:
    """A figure has measured times in it. nbval compares the words next to it, as it does with a PNG."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += (FIGURE,)


def pytest_itemcollected(item: Any) -> None:
    """What a page shows of a figure, and scripts, are not stored."""
    if hasattr(item, "compare_outputs"):
        compare = item.compare_outputs
        item.compare_outputs = lambda fresh, stored, skipped=None: compare([*map(as_stored, fresh)], stored, skipped)


def as_stored(output: Any) -> Any:
    """The output as a lesson stores it: of a figure the SVG and its words, of a page what needs no script."""
    data = output.get("data", {})
    if "text/html" not in data:
        return output
    kept = {kind: content for kind, content in data.items() if kind != "text/html"}
    if FIGURE not in data:
        kept = data | {"text/html": OF_A_PAGE.sub("", data["text/html"])}
    return type(output)({**output, "data": kept})
