"""Show the output of the ranks: live while they run, and sorted by rank at the end.

In a notebook the live view and the final one are two outputs. The live one is empty at the start and at the end, so a
saved notebook contains only what is the same in every run.
"""

from __future__ import annotations

import contextlib
import html
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from ddp_lessons.record.colors import rank_color
from ddp_lessons.record.line_names import notebook_shell
from ddp_lessons.record.rank_record import Told
from ddp_lessons.record.results import NO_VALUE, Results, told_by_rank
from ddp_lessons.run.output.terminal_text import is_terminal, painted_by_rank
from ddp_lessons.run.output.transcript import Transcript, without_middle, without_terminal_codes

ERASE_LINE = "\r\x1b[K"
_LIVE_LINES = 12  # per rank, while it runs
_FINAL_LINES = (40, 40)  # first and last
_LONGEST_LINE = 1_000
_SECONDS_BETWEEN_PICTURES = 0.15
_SECONDS_BETWEEN_LIVE_PICTURES = 0.3
_SECONDS_OF_SILENCE = 1.0


class Live:
    """A picture of what the ranks have logged so far, updated while they run; in a notebook only.

    The learner may pass any function: if it raises, the drawing stops, and the ranks go on. A function that returns
    None displays its picture itself.
    """

    def __init__(self, draw: Callable[[Results[Any]], object] | None, world_size: int) -> None:
        self._draw, self._world_size = draw if in_a_notebook() else None, world_size
        self._handle: Any = None
        self._count, self._next = -1, 0.0
        self._begin = time.monotonic()

    def show(self, told: Mapping[int, Sequence[Told]]) -> None:
        """Called often while ranks run; draws if there is something new and enough time has passed."""
        count = sum(map(len, told.values()))
        if self._draw is None or count == self._count or time.monotonic() < self._next:
            return
        self._count, begin = count, time.monotonic()
        ranks = range(self._world_size)
        by_rank = told_by_rank([told.get(rank, ()) for rank in ranks], origin=None)
        self._show(Results((NO_VALUE,) * len(ranks), ([],) * len(ranks), begin - self._begin, told=by_rank))
        now = time.monotonic()
        self._next = now + max(_SECONDS_BETWEEN_LIVE_PICTURES, 4 * (now - begin))  # draw a slow picture less often

    def finish(self, results: Results[Any]) -> None:
        """Called once, also after a failure."""
        if self._draw is not None:
            self._show(results)

    def _show(self, results: Results[Any]) -> None:
        from IPython.display import display

        assert self._draw is not None
        try:
            picture = self._draw(results)
            if picture is None:
                return
            data, about = _as_data(picture)
            if self._handle is None:
                self._handle = display(data, metadata=about, raw=True, display_id=True)
            else:
                self._handle.update(data, metadata=about, raw=True)
        except Exception as error:
            self._draw = None
            warnings.warn(f"the live picture stopped: {type(error).__name__}: {error}", stacklevel=2)


def _as_data(picture: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The form of a picture that a notebook stores. A picture that displays itself could not be replaced later."""
    from IPython.core.interactiveshell import InteractiveShell

    formatter: Any = InteractiveShell.instance().display_formatter
    data, about = picture._repr_mimebundle_() if hasattr(picture, "_repr_mimebundle_") else formatter.format(picture)
    return data, about


class Screen(Protocol):
    def show(self, transcripts: Sequence[Transcript], doing: str) -> None:
        """Called often while ranks run; draws if enough time has passed."""

    def finish(self, transcripts: Sequence[Transcript]) -> None:
        """Called once, also after a failure."""


def screen_for_here(quiet: bool) -> Screen:
    return quiet_screen.get(Nothing()) if quiet else WhatThereIs(Notebook if in_a_notebook() else Terminal)


def in_a_notebook() -> bool:
    return notebook_shell() is not None


def show_card(card: str, text: str) -> None:
    from IPython.display import publish_display_data

    publish_display_data({"text/html": card, "text/plain": text})


class Nothing:
    def show(self, transcripts: Sequence[Transcript], doing: str) -> None:
        pass

    def finish(self, transcripts: Sequence[Transcript]) -> None:
        pass


quiet_screen: ContextVar[Screen] = ContextVar("quiet_screen")  # used by a launch that shows no output of its ranks


class WhatThereIs:
    """A screen that may be missing or broken, such as a closed terminal or a full disk: the ranks go on."""

    def __init__(self, make: Callable[[], Screen]) -> None:
        self._screen: Screen = Nothing()
        self._error: Exception | None = None
        try:
            if sys.stdout is not None:  # otherwise there is no output: a service, or pythonw
                self._screen = make()
        except Exception as error:
            self._give_up(error)

    def show(self, transcripts: Sequence[Transcript], doing: str) -> None:
        try:
            self._screen.show(transcripts, doing)
        except Exception as error:
            self._give_up(error)

    def finish(self, transcripts: Sequence[Transcript]) -> None:
        try:
            self._screen.finish(transcripts)
        except Exception as error:
            self._give_up(error)
        if self._error is not None:
            reason = f"{type(self._error).__name__}: {self._error}"
            words = (
                f"the output of the ranks could not be shown ({reason}). They kept running; read it in results.lines"
            )
            with contextlib.suppress(Warning, OSError):  # if warnings are errors, this one must not hide a result
                warnings.warn(words, stacklevel=2)

    def _give_up(self, error: Exception) -> None:
        self._screen, self._error = Nothing(), error


class Terminal:
    """Lines as they come, each with its rank in front."""

    def __init__(self) -> None:
        self._shown: dict[int, int] = {}
        self._is_terminal = is_terminal()
        self._clock, self._clock_shown = _Clock(), ""

    def show(self, transcripts: Sequence[Transcript], doing: str) -> None:
        new = []
        for rank, transcript in enumerate(transcripts):
            lines, self._shown[rank] = transcript.latest(self._shown.get(rank, 0))
            new += [printable(f"{self._label(rank)} {line}\n") for line in lines]
        words = self._clock.words(sum(transcript.bytes_seen for transcript in transcripts), doing)
        clock = printable(words) if self._is_terminal else ""  # in a file it would remain
        if new or clock != self._clock_shown:
            sys.stdout.write(f"{ERASE_LINE if self._clock_shown else ''}{''.join(new)}{clock}")
            self._clock_shown = clock
        sys.stdout.flush()

    def finish(self, transcripts: Sequence[Transcript]) -> None:
        self.show(transcripts, "")

    def _label(self, rank: int) -> str:
        return painted_by_rank(f"rank {rank} |", rank)


class _Clock:
    """What the ranks are doing, and for how long: shown if they have printed nothing for a moment."""

    def __init__(self) -> None:
        self._begin = self.last_word = time.monotonic()
        self._bytes_seen = 0

    def words(self, bytes_seen: int, doing: str) -> str:
        now = time.monotonic()
        if bytes_seen != self._bytes_seen:
            self._bytes_seen, self.last_word = bytes_seen, now
        return f"{doing} … {now - self._begin:.0f} s" if doing and now - self.last_word > _SECONDS_OF_SILENCE else ""


class Notebook:
    """A block for each rank, redrawn a few times a second."""

    def __init__(self) -> None:
        from IPython.display import display

        self._clock = _Clock()
        self._drawn, self._clock_drawn = 0.0, ""
        self._live: Any = display({}, raw=True, display_id=True)
        self._is_empty = True

    def show(self, transcripts: Sequence[Transcript], doing: str) -> None:
        now, bytes_seen = time.monotonic(), sum(transcript.bytes_seen for transcript in transcripts)
        clock = self._clock.words(bytes_seen, doing)
        is_old = self._clock.last_word < self._drawn and not (clock or self._clock_drawn)
        if now - self._drawn < _SECONDS_BETWEEN_PICTURES or is_old:
            return
        if not (bytes_seen or clock or self._clock_drawn):
            return
        self._draw(_bundle([transcript.shortened(0, _LIVE_LINES) for transcript in transcripts], clock))
        self._drawn, self._clock_drawn = now, clock

    def finish(self, transcripts: Sequence[Transcript]) -> None:
        from IPython.display import display

        if not self._is_empty:
            self._live.update({}, raw=True)
        lines = [transcript.shortened(*_FINAL_LINES) for transcript in transcripts]
        if any(lines):
            display(_bundle(lines, ""), raw=True)

    def _draw(self, bundle: dict[str, str]) -> None:
        self._live.update(bundle, raw=True)
        self._is_empty = False


def _bundle(lines_by_rank: Sequence[Sequence[str]], clock: str) -> dict[str, str]:
    """The same content as HTML and as plain text."""
    plain, blocks = [], []
    for rank, lines in enumerate(lines_by_rank):
        clean = [without_middle(without_terminal_codes(line), _LONGEST_LINE) for line in lines]
        plain += [f"rank {rank} | {line}" for line in clean]
        if clean:
            blocks.append(block(rank, preformatted("\n".join(clean))))
    if clock:
        plain.append(clock)
        blocks.append(f'<div style="opacity:.7">{html.escape(clock)}</div>')
    return {"text/plain": "\n".join(plain), "text/html": "\n".join(blocks)}


def printable(text: str) -> str:
    """Replace characters that this terminal cannot show."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, errors="backslashreplace").decode(encoding)


def block(rank: int, content: str) -> str:
    """A rank's color and number, followed by some HTML."""
    return (
        f'<div style="display:flex;margin:1px 0;border-left:5px solid {rank_color(rank)}">'
        f'<b style="flex:none;min-width:4.2em;padding:0 .8em 0 .5em">rank {rank}</b>{content}</div>'
    )


def preformatted(text: str) -> str:
    style = "flex:auto;margin:0;white-space:pre-wrap;overflow-wrap:anywhere"
    return f'<pre style="{style}">{html.escape(text)}</pre>'
