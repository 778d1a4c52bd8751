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
from typing import Any

from ddp_lessons.record.colors import rank_color
from ddp_lessons.record.line_names import notebook_shell
from ddp_lessons.record.rank_record import Told
from ddp_lessons.record.results import NO_VALUE, Results, told_by_rank
from ddp_lessons.run.output.terminal_text import is_terminal, painted_by_rank
from ddp_lessons.run.output.transcript import Transcript, without_middle, without_terminal_codes

ERASE_LINE = "\r\x1b[K"
_LIVE_LINES = 12  # per rank, while it runs
_FINAL_LINES = 40  # the first, and as many of the last
_LONGEST_LINE = 1_000
_LONGEST_VALUE = 20_000
_SECONDS_BETWEEN_PICTURES = 0.15
_SECONDS_BETWEEN_LIVE_PICTURES = 0.3
_SECONDS_OF_SILENCE = 1.0


class Live:
    """A picture of what the ranks have logged so far, updated while they run; in a notebook only.

    The learner may pass any function: if it raises, the drawing stops, and the ranks go on. A function that returns
    None displays its picture itself.
    """

    def __init__(self, draw: Callable[[Results[Any]], object] | None, world_size: int) -> None:
        self._draw, self._ranks = draw if in_a_notebook() else None, range(world_size)
        self._output: Any = None
        self._count, self._begin, self._next = -1, time.monotonic(), 0.0

    def show(self, told: Mapping[int, Sequence[Told]]) -> None:
        """Called often while ranks run; draws if there is something new and enough time has passed."""
        count, begin = sum(map(len, told.values())), time.monotonic()
        if count == self._count or begin < self._next:
            return
        by_rank = told_by_rank([told.get(rank, ()) for rank in self._ranks], origin=None)
        nothing_yet: tuple[Any, ...] = (NO_VALUE,) * len(self._ranks)
        self.finish(Results(nothing_yet, ([],) * len(self._ranks), begin - self._begin, told=by_rank))
        seconds = time.monotonic() - begin
        self._count, self._next = (
            count,
            begin + max(_SECONDS_BETWEEN_LIVE_PICTURES, 5 * seconds),
        )  # a slow one less often

    def finish(self, results: Results[Any]) -> None:
        """Draw these; called at the end, also after a failure."""
        try:
            picture = self._draw(results) if self._draw is not None else None
            if picture is not None:
                self._replace(picture)
        except Exception as error:
            self._draw = None
            warnings.warn(f"the live picture stopped: {type(error).__name__}: {error}", stacklevel=2)

    def _replace(self, picture: Any) -> None:
        """Display the form that a notebook stores. A picture that displays itself could not be replaced later."""
        from IPython.display import display

        form = getattr(picture, "_repr_mimebundle_", lambda: notebook_shell().display_formatter.format(picture))
        data, about = form()
        if self._output is None:
            self._output = display(data, metadata=about, raw=True, display_id=True)
        else:
            self._output.update(data, metadata=about, raw=True)


class Screen:
    """Shows nothing. The other screens show what the ranks print."""

    def show(self, transcripts: Sequence[Transcript], doing: str) -> None:
        """Called often while ranks run; draws if enough time has passed."""

    def finish(self, transcripts: Sequence[Transcript]) -> None:
        """Called once, also after a failure."""


quiet_screen = ContextVar("quiet_screen", default=Screen())  # noqa: B039  it has no state


def screen_for_here(quiet: bool) -> Screen:
    return quiet_screen.get() if quiet else Notebook() if in_a_notebook() else Terminal()


def in_a_notebook() -> bool:
    return notebook_shell() is not None


def show_card(card: str, text: str) -> None:
    from IPython.display import publish_display_data

    publish_display_data({"text/html": card, "text/plain": text})


class _Clock:
    """What the ranks are doing, and for how long: shown if they have printed nothing for a moment."""

    def __init__(self) -> None:
        self._begin = self._last_word = time.monotonic()
        self._bytes_seen = 0

    def words(self, bytes_seen: int, doing: str) -> str:
        now = time.monotonic()
        if bytes_seen != self._bytes_seen:
            self._bytes_seen, self._last_word = bytes_seen, now
        return f"{doing} … {now - self._begin:.0f} s" if doing and now - self._last_word > _SECONDS_OF_SILENCE else ""


class Terminal(Screen):
    """Lines as they come, each with its rank in front."""

    def __init__(self) -> None:
        self._shown: dict[int, int] = {}
        self._clock, self._clock_shown = _Clock(), ""

    def show(self, transcripts: Sequence[Transcript], doing: str) -> None:
        with contextlib.suppress(AttributeError, OSError, ValueError):  # no terminal, a closed one, a full disk: go on
            self._write(transcripts, doing)

    def finish(self, transcripts: Sequence[Transcript]) -> None:
        self.show(transcripts, "")

    def _write(self, transcripts: Sequence[Transcript], doing: str) -> None:
        new = []
        for rank, transcript in enumerate(transcripts):
            lines, self._shown[rank] = transcript.latest(self._shown.get(rank, 0))
            new += [printable(f"{painted_by_rank(f'rank {rank} |', rank)} {line}\n") for line in lines]
        words = self._clock.words(sum(transcript.bytes_seen for transcript in transcripts), doing)
        clock = printable(words) if is_terminal() else ""  # in a file it would remain
        if new or clock != self._clock_shown:
            sys.stdout.write(f"{ERASE_LINE if self._clock_shown else ''}{''.join(new)}{clock}")
            self._clock_shown = clock
        sys.stdout.flush()


class Notebook(Screen):
    """A block for each rank, redrawn a few times a second."""

    def __init__(self) -> None:
        from IPython.display import display

        self._clock = _Clock()
        self._drawn, self._next = (0, ""), 0.0
        self._live: Any = display({}, raw=True, display_id=True)

    def show(self, transcripts: Sequence[Transcript], doing: str) -> None:
        now, bytes_seen = time.monotonic(), sum(transcript.bytes_seen for transcript in transcripts)
        clock = self._clock.words(bytes_seen, doing)
        if now >= self._next and self._drawn != (bytes_seen, clock):
            self._live.update(_printed(transcripts, 0, _LIVE_LINES, clock), raw=True)
            self._drawn, self._next = (bytes_seen, clock), now + _SECONDS_BETWEEN_PICTURES

    def finish(self, transcripts: Sequence[Transcript]) -> None:
        from IPython.display import display

        if self._drawn != (0, ""):
            self._live.update({}, raw=True)
        if printed := _printed(transcripts, _FINAL_LINES, _FINAL_LINES):
            display(printed, raw=True)


def _printed(transcripts: Sequence[Transcript], first: int, last: int, clock: str = "") -> dict[str, str]:
    shown = []
    for rank, transcript in enumerate(transcripts):
        lines = [without_terminal_codes(line) for line in transcript.lines(first, last)]
        if lines:
            text = "\n".join(without_middle(line, _LONGEST_LINE) for line in lines)
            shown.append((rank, text, _preformatted(text)))
    return _by_rank(shown, clock)


def shown_values(shown_by_rank: Sequence[Sequence[Mapping[str, str]]]) -> dict[str, str]:
    """What ranks display for the last line of a cell (by MIME type), as one output."""
    shown = [(rank, one) for rank, several in enumerate(shown_by_rank) for one in several]
    texts = [without_middle(one["text/plain"], _LONGEST_VALUE) for _, one in shown]
    return _by_rank([(rank, text, _as_html(one, text)) for (rank, one), text in zip(shown, texts, strict=True)])


def _by_rank(shown: Sequence[tuple[int, str, str]], clock: str = "") -> dict[str, str]:
    """An output with a block for each rank, from its text and its HTML; empty if there is none."""
    plain = [f"rank {rank} | {line}" for rank, text, _ in shown for line in text.split("\n")]
    blocks = [
        f'<div style="display:flex;margin:1px 0;border-left:5px solid {rank_color(rank)}">'
        f'<b style="flex:none;min-width:4.2em;padding:0 .8em 0 .5em">rank {rank}</b>{content}</div>'
        for rank, _, content in shown
    ]
    if clock:
        plain.append(clock)
        blocks.append(in_passing(clock))
    return {"text/plain": "\n".join(plain), "text/html": "\n".join(blocks)} if plain else {}


def _as_html(shown: Mapping[str, str], text: str) -> str:
    """The richest form that HTML can contain."""
    if "text/html" in shown:
        return f'<div style="overflow-x:auto">{shown["text/html"]}</div>'
    if "image/svg+xml" in shown:
        return shown["image/svg+xml"]
    if "image/png" in shown:
        name = html.escape(text, quote=True)
        return f'<img alt="{name}" style="max-width:100%" src="data:image/png;base64,{shown["image/png"]}">'
    return _preformatted(text)


def in_passing(words: str) -> str:
    """Words that will be gone when the work is done."""
    return f'<div style="opacity:.7">{html.escape(words)}</div>'


def _preformatted(text: str) -> str:
    style = "flex:auto;margin:0;white-space:pre-wrap;overflow-wrap:anywhere"
    return f'<pre style="{style}">{html.escape(text)}</pre>'


def printable(text: str) -> str:
    """Replace characters that this terminal cannot show."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, errors="backslashreplace").decode(encoding)
