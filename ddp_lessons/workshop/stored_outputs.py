"""A plugin of pytest, so that `pytest --nbval` passes for a copy of the lessons in any folder, on anybody's CI.

It is loaded wherever this package is installed, and does nothing without nbval.
"""

from __future__ import annotations

import os
from typing import Any


def pytest_configure(config: Any) -> None:
    """An exercise's report mentions the hints after three tries; so a try of a test must not count."""
    if config.getoption("nbval", False) or config.getoption("nbval_lax", False):
        os.environ.setdefault("DDP_LESSONS_PROGRESS", "off")


def pytest_collectstart(collector: Any) -> None:
    """A figure has measured times in it. nbval compares the words beside it, as it does with a PNG."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("image/svg+xml",)
