"""The progress of long work in one line, which disappears when the work is done.

In a notebook it is an output that is empty at the start and at the end. A saved notebook does not contain it, and
nbval, which compares the first state, has nothing to compare.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

from ddp_lessons.run.output.screen import ERASE_LINE, in_a_notebook, in_passing
from ddp_lessons.run.output.terminal_text import is_terminal

_PATIENCE_SECONDS = 2.0  # shorter work shows nothing
_SECONDS_BETWEEN_LINES = 0.3


class ProgressLine:
    """Call `show(words)` as often as you like, within a `with`."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PATIENCE_SECONDS
        self._shown = ""
        self._live: Any = None

    def show(self, words: str) -> None:
        if time.monotonic() < self._next or words == self._shown:
            return
        self._next = time.monotonic() + _SECONDS_BETWEEN_LINES
        self._write(words)

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            self._write("")

    def _write(self, words: str) -> None:
        self._shown = words
        if in_a_notebook():
            self._update(words)
            return
        with contextlib.suppress(AttributeError, OSError, ValueError):  # no terminal, or a closed one: go on
            if is_terminal(sys.stderr):  # stdout may be redirected to a file
                print(f"{ERASE_LINE}{words}", end="", file=sys.stderr, flush=True)

    def _update(self, words: str) -> None:
        from IPython.display import display

        if self._live is None:
            self._live = display({}, raw=True, display_id=True)
        self._live.update({"text/plain": words, "text/html": in_passing(words)} if words else {}, raw=True)
