"""A report as a card in a notebook: its text with a mark, tables as tables, and traffic as bars."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ddp_lessons.check.judging.report_lines import Row
from ddp_lessons.run.output.cards import Kind, framed, in_words, lines_of_text, mark, one_line

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
    """Yours above the textbook's."""
    numbers = [float(amount.replace(",", "")) for amount in amounts]
    most = max([*numbers, 1.0])
    wide = [f"width:{8 * number / most:.2f}em" for number in numbers]
    looks = ["ddp-amount", *["ddp-amount ddp-theirs"] * (len(wide) - 1)]
    bars = zip(looks, wide, strict=True)
    return "<br>".join(f'<span class="{look}" aria-hidden="true" style="{size}"></span>' for look, size in bars)
