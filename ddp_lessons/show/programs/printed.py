"""Output that a page shows as text, which can be selected, copied, and read by a screen reader.

What a program printed differs from run to run, and so does the HTML. The plain text is the same in every run, so that
a lesson's outputs can be compared.
"""

from __future__ import annotations

import functools
import html
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddp_lessons.run.diagnosis.wording import count

MOST_LINES, MOST_LETTERS = 40, 500
LINES_OF_MPI, LETTERS_OF_MPI = 24, 118
LOOKS = {"works": "works", "wrong": "alarm", "died": "alarm", "no answer": "alarm"}  # of the outcomes that need one


@dataclass(frozen=True, eq=False, repr=False)
class Printed:
    """Returned by the functions of `show` that show lines or a table.

    `content` is HTML; `text` and `alt` contain no times and no names of machines.
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
    """Format a table in which each column is as wide as its widest cell; the columns `numbers` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [str.ljust] * len(widths)
    aligned[numbers] = [str.rjust] * len(aligned[numbers])
    lines = ([align(cell, width) for align, cell, width in zip(aligned, row, widths, strict=True)] for row in rows)
    return [between.join(line).rstrip() for line in lines]


def terminal(printed: str, title: str) -> Printed:
    """Show what a program printed; if it printed very many lines, only the first and the last.

    `title` is also stored as text, so it has to be the same in every run.
    """
    lines = [line.expandtabs(4).rstrip() for line in printed.splitlines()]
    half = MOST_LINES // 2
    if len(lines) > MOST_LINES:
        lines[half:-half] = [f"... {len(lines) - MOST_LINES:,} lines ..."]
    readable = ["".join(letter if letter.isprintable() else " " for letter in line) for line in lines]
    return Printed(_terminal(title, [_shortened(line, MOST_LETTERS) for line in readable]), title, title)


def mpi_run(ended: Any) -> Printed:
    """Show what `mpirun` returned: the command and its output, marked as run on this machine or as recorded."""
    left_out = len(ended.lines) - LINES_OF_MPI
    lines = [f"$ {ended.command}", *(_shortened(line, LETTERS_OF_MPI) for line in ended.lines[:LINES_OF_MPI])]
    lines += [f"... and {count(left_out, 'more line')}"] if left_out > 0 else []
    origin = f'<i class="{"ddp-live" if ended.is_live else "ddp-recorded"}">{html.escape(ended.origin)}</i>'
    text = "\n".join([*lines, "(run on this machine if it has MPI, otherwise recorded; the figure says which)"])
    alt = f"Terminal: {ended.command}, and {count(len(ended.lines), 'line')} of output."
    return Printed(_terminal("Terminal", lines, origin), text, alt)


def _terminal(title: str, lines: Sequence[str], origin: str = "") -> str:
    """Show each line as it is. Long lines scroll in a box that can be reached with the keyboard."""
    inside = html.escape("\n".join(lines), quote=False)
    return f'<figcaption>{html.escape(title)}{origin}</figcaption>\n<pre tabindex="0">{inside}</pre>'


def _shortened(line: str, most_letters: int) -> str:
    return line if len(line) <= most_letters else f"{line[: most_letters - 3]}..."


def what_works(trials: Any) -> Printed:
    """Show what `try_backends` found on this machine, and below it why a column is empty.

    The outcomes differ from machine to machine, so they are only in the table. The text says what was tried; to see the
    outcomes as text, print the trials.
    """
    places, calls = trials.places, trials.calls
    heads = "".join(f'<th scope="col">{html.escape(place)}</th>' for place in places)
    rows = [f"<thead><tr><td></td>{heads}</tr></thead>", "<tbody>"]
    for call in calls:
        fields = "".join(_field(trials.of(place, call).outcome) for place in places)
        rows.append(f'<tr><th scope="row">{html.escape(call)}</th>{fields}</tr>')
    content = ['<div tabindex="0"><table>', *rows, "</tbody></table></div>"]
    reasons = {place: trials.why_not(place) for place in places}
    content += [f"<p>{html.escape(f'{place}: {reason}')}</p>" for place, reason in reasons.items() if reason]
    tried = "The table shows what works on this machine (print the trials to get it as text). These were tried:"
    text = "\n".join([tried, *(f"  {place}" for place in places), f"each of them with {', '.join(calls)}."])
    alt = f"Table of {len(calls)} calls with {len(places)} backends, and which of them work on this machine."
    return Printed("\n".join(content), text, alt)


def _field(outcome: str) -> str:
    look = f' class="ddp-{LOOKS[outcome]}"' if outcome in LOOKS else ""
    return f"<td{look}>{html.escape('·' if outcome == 'not tried' else outcome)}</td>"
