"""Text on a terminal: in color, and wrapped to its width. In a file or a pipe it stays as it is."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
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
    return _in_color(words, _CODES[kind], stream)


def painted_by_rank(words: str, rank: int, stream: TextIO | None = None) -> str:
    red, green, blue = bytes.fromhex(rank_color(rank)[1:])
    return _in_color(words, f"38;2;{red};{green};{blue}", stream)


def message_on_terminal(message: str, kind: Kind, stream: TextIO | None = None) -> str:
    """A message of several lines: the first says what happened, the others where, and what to do next.

    It may quote a dump, a log or a script: whatever controls a terminal is removed here.
    """
    headline, *others = without_terminal_codes(message).split("\n")
    parts = [painted(folded(headline, stream), kind, stream)]
    parts += [_painted_line(part, stream) for line in others for part in folded(line, stream).split("\n")]
    return "\n".join(parts)


def folded(text: str, stream: TextIO | None = None) -> str:
    """Wrap lines of text to the width of the terminal, if it is one."""
    if not is_terminal(stream):
        return text
    width = max(shutil.get_terminal_size().columns, _LEAST_WIDTH)
    return "\n".join(_folded(line, width) for line in text.split("\n"))


def _folded(line: str, width: int) -> str:
    """Wrap between words; keep what a rank does in its column, and source lines and tables whole."""
    if len(line) <= width or kind_of_line(line) != "words":
        return line
    rank = _RANK_FIRST.match(line)
    indent = " " * (rank.end() if rank else len(line) - len(line.lstrip()))
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _painted_line(line: str, stream: TextIO | None) -> str:
    if rank := _RANK_FIRST.match(line):
        return f"{rank[1]}{painted_by_rank(rank[2], int(rank[3]), stream)}{line[rank.end(2) :]}"
    advice = _ADVICE.match(line)
    return f"{_in_color(advice[0], '1', stream)}{line[advice.end() :]}" if advice else line


def _in_color(words: str, code: str, stream: TextIO | None) -> str:
    has_color = is_terminal(stream) and not os.environ.get("NO_COLOR")
    return f"\x1b[{code}m{words}\x1b[0m" if has_color else words
