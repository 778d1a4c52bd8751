"""The report of a check: passed, not started, or what is wrong, with yours next to expected, and the traffic.

In a notebook it is a card: its text with a mark, tables as tables, and traffic as bars.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ddp_lessons.run.output.cards import Kind, framed, in_words, lines_of_text, mark, one_line
from ddp_lessons.run.output.terminal_text import message_on_terminal
from ddp_lessons.run.output.transcript import without_middle

_LONGEST_MISTAKE, _LONGEST_LINE, _MOST_LINES = 600, 200, 40  # a learner's exception may have a message of megabytes


@dataclass(frozen=True, repr=False)
class Report:
    """The outcome of a check. It displays itself as the last line of a cell.

    `passed` says whether your answer is correct, and `mistake` names the likely mistake, or is "".
    """

    exercise: str
    passed: bool
    verdict: str  # "passed", "not started yet", "not right yet"
    mistake: str = ""
    details: tuple[str, ...] = ()
    next_step: str = ""  # where to go once it is passed, or where to look when you are stuck

    @property
    def is_a_try(self) -> bool:
        """Something was written and judged."""
        return self.passed or self.verdict == "not right yet"

    @property
    def text(self) -> str:
        around = [[f"  {sentence}"] if sentence else [] for sentence in (self.mistake, self.next_step)]
        return "\n".join([f"check.{self.exercise}: {self.verdict}", *around[0], *self.details, *around[1]])

    def _repr_html_(self) -> str:
        return as_card(self.exercise, self.verdict, self.mistake, self.details, self.next_step)

    def __repr__(self) -> str:
        """Colored on a terminal; `text` is plain everywhere."""
        return message_on_terminal(self.text, kind_of(self.verdict))


def not_started(exercise: str) -> Report:
    return Report(exercise, False, "not started yet")


def check_failed(exercise: str, traceback: str) -> Report:
    lines = [without_middle(f"    {line}", _LONGEST_LINE) for line in traceback.rstrip().split("\n")]
    mistake = "The check itself failed because of a bug in ddp_lessons, not because of your code."
    step = "  Next: show this traceback to your instructor, or report it to the authors of the course."
    return Report(exercise, False, "could not judge", mistake, (*lines[-_MOST_LINES:], step))


def not_right(exercise: str, mistake: str, details: Sequence[str] = ()) -> Report:
    lines = [without_middle(line, _LONGEST_LINE) for line in details[:_MOST_LINES]]
    if len(details) > _MOST_LINES:
        lines.append(f"    [... {len(details) - _MOST_LINES:,} lines left out]")
    return Report(exercise, False, "not right yet", without_middle(mistake, _LONGEST_MISTAKE), tuple(lines))


Rows = Sequence[Sequence[str]]


class Row(str):
    """A line of a table: aligned text, and its cells."""

    cells: tuple[str, ...]
    is_head: bool

    @classmethod
    def of(cls, cells: Sequence[str], widths: Sequence[int], is_head: bool) -> Row:
        first, *others = cells
        padded = [other.rjust(width) for other, width in zip(others, widths[1:], strict=True)]
        row = cls("    " + "   ".join([first.ljust(widths[0]), *padded]).rstrip())
        row.cells, row.is_head = tuple(cells), is_head
        return row


def table(rows: Rows) -> list[str]:
    """Aligned columns with a head: the first one left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [Row.of(row, widths, is_head=place == 0) for place, row in enumerate(rows)]


_KINDS: dict[str, Kind] = {
    "passed": "passed",
    "they agree": "passed",
    "not right yet": "wrong",
    "they differ": "wrong",
}
_TRAFFIC = "traffic of"


def kind_of(verdict: str) -> Kind:
    return _KINDS.get(verdict, "open")


def as_card(exercise: str, verdict: str, mistake: str, details: Sequence[str], after: str) -> str:
    kind = kind_of(verdict)
    name = f"<strong><code>check.{html.escape(exercise)}</code>: {html.escape(verdict)}</strong>"
    said = f'<p class="ddp-mistake">{in_words(mistake)}</p>' if mistake else ""
    end = f"<p>{in_words(after)}</p>" if after else ""
    return framed(f"<p>{mark(kind)}{name}</p>{said}{''.join(_parts(details))}{end}", kind)


def _parts(details: Sequence[str]) -> Iterator[str]:
    for is_table, lines in groupby(details, key=lambda line: isinstance(line, Row)):
        if is_table:
            yield from map(_table, _tables(line for line in lines if isinstance(line, Row)))
        else:
            yield from lines_of_text([*lines])


def _tables(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """One after the other: each table starts with its head."""
    table: list[Row] = []
    for row in rows:
        if row.is_head and table:
            yield table
            table = []
        table.append(row)
    if table:
        yield table


def _table(rows: Sequence[Row]) -> str:
    head, *body = rows
    is_traffic = head.cells[0].startswith(_TRAFFIC) and len(head.cells) == 3
    heads = "".join(f'<th scope="col">{in_words(cell)}</th>' for cell in head.cells)
    lines = []
    for place, row in enumerate(body):
        first, *others = row.cells
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in others)
        bars = f'<td class="ddp-amounts">{_bars(others)}</td>' if is_traffic and place == 0 else ""
        lines.append(f'<tr><th scope="row">{one_line(first)}</th>{cells}{bars}</tr>')
    wide = f'<div class="ddp-wide" tabindex="0"><table><thead><tr>{heads}</tr></thead>'
    return f"{wide}<tbody>{''.join(lines)}</tbody></table></div>"


def _bars(amounts: Sequence[str]) -> str:
    """Yours above the one that is needed."""
    numbers = [float(amount.replace(",", "")) for amount in amounts]
    most = max([*numbers, 1.0])
    wide = [f"width:{8 * number / most:.2f}em" for number in numbers]
    looks = ["ddp-amount", *["ddp-amount ddp-theirs"] * (len(wide) - 1)]
    bars = zip(looks, wide, strict=True)
    return "<br>".join(f'<span class="{look}" aria-hidden="true" style="{size}"></span>' for look, size in bars)
