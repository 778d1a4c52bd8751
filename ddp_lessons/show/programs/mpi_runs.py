"""What a program printed in a terminal, and whether it ran here or was recorded elsewhere.

The words beside it are the same in both cases.
"""

from __future__ import annotations

import html
from typing import Protocol

from ddp_lessons.show.page.picture import count
from ddp_lessons.show.page.printed import Printed, caption, lines_as_html, shortened

MOST_LINES, MOST_LETTERS = 24, 118


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


def mpi_run(ended: Ended) -> Printed:
    """Show a command and the lines that it printed, marked as run on this machine or as recorded."""
    lines = [f"$ {ended.command}", *_fitting(ended.lines)]
    origin = f'<i class="{"ddp-live" if ended.is_live else "ddp-recorded"}">{html.escape(ended.origin)}</i>'
    text = "\n".join([*lines, "(run on this machine where it can, else recorded on another: the picture says which)"])
    alt = f"Terminal: {ended.command}, and {count(len(ended.lines), 'line')} of output."
    return Printed(f"{caption('Terminal', origin)}\n{lines_as_html(lines)}", text, alt)


def _fitting(lines: tuple[str, ...]) -> list[str]:
    shown = [shortened(line, MOST_LETTERS) for line in lines[:MOST_LINES]]
    left_out = len(lines) - len(shown)
    return [*shown, f"... and {count(left_out, 'more line')}"] if left_out else shown
