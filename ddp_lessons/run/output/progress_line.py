"""The progress of long work in one line, which disappears when the work is done.

In a notebook it is an output that is empty at the start and at the end. A saved notebook does not contain it, and
nbval, which compares the first state, has nothing to compare.
"""

from __future__ import annotations

import contextlib
import html
import sys
import time
from collections.abc import Sequence
from contextvars import Token
from types import TracebackType
from typing import Any

from ddp_lessons.run.output.screen import ERASE_LINE, Screen, in_a_notebook, quiet_screen
from ddp_lessons.run.output.terminal_text import is_terminal
from ddp_lessons.run.output.transcript import Transcript

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

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._shown:
            self._write("")

    def _write(self, words: str) -> None:
        self._shown = words
        if in_a_notebook():
            self._update(words)
        elif sys.stderr is not None:  # stdout may be redirected to a file
            with contextlib.suppress(OSError, ValueError):  # the terminal was closed: the work goes on
                if is_terminal(sys.stderr):
                    print(f"{ERASE_LINE}{words}", end="", file=sys.stderr, flush=True)

    def _update(self, words: str) -> None:
        from IPython.display import display

        if self._live is None:
            self._live = display({}, raw=True, display_id=True)
        page = f'<div style="opacity:.7">{html.escape(words)}</div>'
        self._live.update({"text/plain": words, "text/html": page} if words else {}, raw=True)


class LaunchCount:
    """Counts the quiet launches within a `with`, and shows how many are left while they run.

    `total` is None if it is not known, or no longer.
    """

    def __init__(self, total: int | None) -> None:
        self.total = total
        self._done = 0
        self._begin = self._last_end = time.monotonic()
        self._line = ProgressLine()

    def show(self, transcripts: Sequence[Transcript], doing: str) -> None:
        self._line.show(self.words())

    def finish(self, transcripts: Sequence[Transcript]) -> None:
        self._done += 1
        self._last_end = time.monotonic()

    def words(self) -> str:
        number = self._done + 1
        if self.total is None or number > self.total:
            return f"launch {number}"
        words = f"launch {number} of {self.total}"
        seconds = self._seconds_left(self.total)
        return f"{words}, about {seconds:.0f} s left" if seconds >= 1 else words

    def _seconds_left(self, total: int) -> float:
        """The time left if the others take as long as those that are done; 0 before the first is."""
        if not self._done:
            return 0.0
        each = (self._last_end - self._begin) / self._done
        return each * (total - self._done) - (time.monotonic() - self._last_end)

    def __enter__(self) -> LaunchCount:
        self._before: Token[Screen] = quiet_screen.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        quiet_screen.reset(self._before)
        self._line.__exit__(kind, error, at)
