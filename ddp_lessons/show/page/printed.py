"""Words that a page shows as words: they can be selected and copied, and a screen reader reads them.

What a program printed differs from run to run, and so does the HTML. The text beside it is the same in every run, so
that a lesson can be compared.
"""

from __future__ import annotations

import functools
import html
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False, repr=False)
class Printed:
    """What the functions of `show` return that show lines or a table.

    `content` is HTML; `text` and `alt` have no times and no names of machines.
    """

    content: str
    text: str
    alt: str

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        figure = f'<figure class="ddp-printed" aria-label="{html.escape(self.alt)}">\n{self.content}\n</figure>'
        return {"text/html": f"<style>{_style()}</style>\n{figure}", "text/plain": self.text}, {}

    def __repr__(self) -> str:
        return self.text


@functools.cache
def _style() -> str:
    return pathlib.Path(__file__).with_name("printed.css").read_text(encoding="utf-8").strip()


def in_columns(rows: Sequence[Sequence[str]], between: str = " | ", numbers: slice = slice(0)) -> list[str]:
    """Lines of text, in which each column is as wide as its widest cell; those of `numbers` are aligned right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [str.ljust] * len(widths)
    aligned[numbers] = [str.rjust] * len(aligned[numbers])
    lines = ([align(cell, width) for align, cell, width in zip(aligned, row, widths, strict=True)] for row in rows)
    return [between.join(line).rstrip() for line in lines]


def caption(words: str, more: str = "") -> str:
    """The title above; `more` is HTML."""
    return f"<figcaption>{html.escape(words)}{more}</figcaption>"


def lines_as_html(lines: Sequence[str]) -> str:
    """Each line as it is. A long one scrolls in its own box, which the keyboard reaches."""
    return f'<pre tabindex="0">{html.escape(chr(10).join(lines), quote=False)}</pre>'


def shortened(line: str, most_letters: int) -> str:
    return line if len(line) <= most_letters else f"{line[: most_letters - 3]}..."
