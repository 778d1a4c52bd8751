"""What a program printed: times, names of machines and process numbers, which differ from run to run.

The text form of a program under mpirun is the same whether it ran here or was recorded elsewhere.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Protocol

from ddp_lessons.show.page.picture import count
from ddp_lessons.show.page.printed import Printed, caption, lines_as_html, shortened

MOST_LINES, MOST_LETTERS = 40, 500
LINES_OF_MPI, LETTERS_OF_MPI = 24, 118
TEXT = "What was printed."


class Ended(Protocol):
    """What `mpirun` returns: a command, its lines, and where they come from."""

    @property
    def command(self) -> str: ...

    @property
    def lines(self) -> tuple[str, ...]: ...

    @property
    def is_live(self) -> bool: ...

    @property
    def origin(self) -> str: ...


def terminal(printed: str | Sequence[str], title: str = TEXT) -> Printed:
    """Show the lines that a program printed; of very many, the first and the last.

    Args:
        printed: a text, or its lines.
        title: what is stored as text, too, and so has to be the same in every run.
    """
    lines = [_fitted(line) for line in _in_the_middle_cut(_lines(printed))]
    return Printed(f"{caption(title)}\n{lines_as_html(lines)}", title, title)


def mpi_run(ended: Ended) -> Printed:
    """Show a command and the lines that it printed, marked as run on this machine or as recorded."""
    lines = [f"$ {ended.command}", *_beginning(ended.lines)]
    origin = f'<i class="{"ddp-live" if ended.is_live else "ddp-recorded"}">{html.escape(ended.origin)}</i>'
    text = "\n".join([*lines, "(run on this machine where it can, else recorded on another: the picture says which)"])
    alt = f"Terminal: {ended.command}, and {count(len(ended.lines), 'line')} of output."
    return Printed(f"{caption('Terminal', origin)}\n{lines_as_html(lines)}", text, alt)


def _lines(printed: str | Sequence[str]) -> list[str]:
    if isinstance(printed, str):
        printed = printed.splitlines()
    return [str(line).expandtabs(4).rstrip() for line in printed] or ["(nothing)"]


def _in_the_middle_cut(lines: Sequence[str]) -> list[str]:
    left_out = len(lines) - MOST_LINES
    if left_out <= 0:
        return list(lines)
    half = MOST_LINES // 2
    return [*lines[:half], f"... {left_out:,} lines ...", *lines[-half:]]


def _fitted(line: str) -> str:
    return shortened("".join(letter if letter.isprintable() else " " for letter in line), MOST_LETTERS)


def _beginning(lines: tuple[str, ...]) -> list[str]:
    shown = [shortened(line, LETTERS_OF_MPI) for line in lines[:LINES_OF_MPI]]
    left_out = len(lines) - len(shown)
    return [*shown, f"... and {count(left_out, 'more line')}"] if left_out else shown
