"""Text on a terminal: in color, and wrapped to its width. In a file or a pipe it stays as it is."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import TextIO

from ddp_lessons.record.colors import rank_color
from ddp_lessons.run.output.cards import Kind, kind_of_line
from ddp_lessons.run.output.transcript import without_terminal_codes

_CODES: dict[Kind, str] = {"passed": "32", "wrong": "1;31", "open": "33"}
_LEAST_WIDTH = 40  # in a narrower terminal, one word per line would be harder to read than cut lines
_RANK_FIRST = re.compile(r"( *)(rank (\d+)) +(?=\S)")
_ADVICE = re.compile(r" *(Next|Fix):")


def is_terminal(stream: TextIO | None = None) -> bool:
    """Is it a terminal? By default, this is about the standard output."""
    stream = stream or sys.stdout
    return stream is not None and stream.isatty()


def painted(words: str, kind: Kind, stream: TextIO | None = None) -> str:
    return _in_color(words, _CODES[kind]) if _has_color(stream) else words


def painted_by_rank(words: str, rank: int, stream: TextIO | None = None) -> str:
    red, green, blue = (int(rank_color(rank)[i : i + 2], 16) for i in (1, 3, 5))
    return _in_color(words, f"38;2;{red};{green};{blue}") if _has_color(stream) else words


def message_on_terminal(message: str, kind: Kind, stream: TextIO | None = None) -> str:
    """A message of several lines: the first says what happened, the others where, and what to do next.

    It may quote a dump, a log or a script: whatever controls a terminal is removed here.
    """
    message = without_terminal_codes(message)
    if not is_terminal(stream):
        return message
    headline, *others = message.split("\n")
    parts = [painted(part, kind, stream) for part in _folded(headline)]
    parts += [_painted_line(part, stream) for line in others for part in _folded(line)]
    return "\n".join(parts)


def folded(text: str, stream: TextIO | None = None) -> str:
    """Wrap lines of text to the width of the terminal, if it is one."""
    return "\n".join(part for line in text.split("\n") for part in _folded(line)) if is_terminal(stream) else text


def _folded(line: str) -> Iterator[str]:
    """Wrap between words; keep what a rank does in its column, and source lines and tables whole."""
    width = max(shutil.get_terminal_size().columns, _LEAST_WIDTH)
    if len(line) <= width or kind_of_line(line) != "words":
        yield line
        return
    rank = _RANK_FIRST.match(line)
    indent = rank.end() if rank else len(line) - len(line.lstrip())
    yield from textwrap.wrap(
        line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def _painted_line(line: str, stream: TextIO | None) -> str:
    if rank := _RANK_FIRST.match(line):
        indent, name, number = rank.groups()
        return f"{indent}{painted_by_rank(name, int(number), stream)}{line[rank.end(2) :]}"
    if (advice := _ADVICE.match(line)) and _has_color(stream):
        return f"{_in_color(advice[0], '1')}{line[advice.end() :]}"
    return line


def _has_color(stream: TextIO | None) -> bool:
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def _in_color(words: str, code: str) -> str:
    return f"\x1b[{code}m{words}\x1b[0m"
