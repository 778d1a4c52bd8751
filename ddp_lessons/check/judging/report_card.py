"""A report as a card in a notebook: the words of its text, with a mark, ranks as chips, and traffic as bars."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ddp_lessons.check.judging.report_lines import Row
from ddp_lessons.record.colors import rank_color

_PASSED, _WRONG, _OPEN = ("✓", "passed"), ("✗", "wrong"), ("○", "open")
_MARKS = {"passed": _PASSED, "they agree": _PASSED, "not right yet": _WRONG, "they differ": _WRONG}
_STYLE = """<style>
.ddp-card { border: 1px solid rgba(127, 137, 150, .45); border-left: 5px solid #7a8798; border-radius: 4px;
  padding: .45em .9em .55em; max-width: 62em; overflow-wrap: break-word; }
.ddp-card.ddp-passed { border-left-color: #009e73; }
.ddp-card.ddp-wrong { border-left-color: #d55e00; }
.ddp-card p, .ddp-card pre, .ddp-card table { margin: .35em 0; }
.ddp-card .ddp-mark { display: inline-block; min-width: 1.5em; margin-right: .5em; border-radius: 1em; color: #fff;
  background: #5b6775; font-weight: 700; text-align: center; }
.ddp-card .ddp-passed { background: #00775a; }
.ddp-card .ddp-wrong { background: #b34700; }
.ddp-card .ddp-mistake { font-weight: 600; }
.ddp-card .ddp-lines { overflow-x: auto; }
.ddp-card .ddp-line { margin: .15em 0; }
.ddp-card .ddp-gap { height: .5em; }
.ddp-card .ddp-rank { border-left: 5px solid; padding: 0 .5em 0 .4em; font-weight: 600; white-space: nowrap; }
.ddp-card pre { white-space: pre; }
.ddp-card table { border-collapse: collapse; font-size: inherit; }
.ddp-card th, .ddp-card td { text-align: right; padding: .1em .7em; font-weight: normal; vertical-align: top; }
.ddp-card tr > :first-child { text-align: left; padding-left: 0; }
.ddp-card thead th { font-weight: 600; border-bottom: 1px solid rgba(127, 137, 150, .6); }
.ddp-card td.ddp-bars { text-align: left; line-height: .7; }
.ddp-card .ddp-bar { display: inline-block; height: .6em; min-width: 2px; background: #4c7fb3; }
.ddp-card .ddp-bar.ddp-other { background: #8b95a3; }
</style>"""
_RANK_FIRST = re.compile(r"\s*rank (\d+)\b ?\s*(.*)", re.S)
_PLACE_WITH_CODE = re.compile(r"(.*\bline \d+:)   (.*?)(\)?)$", re.S)  # "(cell line 3:   dist.barrier())"
_NUMBERED = re.compile(r"\s*\d+(  |$)")  # of a program
_TRAFFIC = "traffic of"


def as_card(exercise: str, verdict: str, mistake: str, details: Sequence[str], after: str) -> str:
    mark, kind = _MARKS.get(verdict, _OPEN)
    name = f"<strong><code>check.{html.escape(exercise)}</code>: {html.escape(verdict)}</strong>"
    head = f'<p><span class="ddp-mark ddp-{kind}" aria-hidden="true">{mark}</span>{name}</p>'
    said = f'<p class="ddp-mistake">{in_words(mistake)}</p>' if mistake else ""
    end = f"<p>{in_words(after)}</p>" if after else ""
    return framed(f"{head}{said}{''.join(_parts(details))}{end}", kind)


def framed(content: str, kind: str) -> str:
    """In a frame of the kind's color: "passed", "wrong" or "open"."""
    return f'{_STYLE}<div class="ddp-card ddp-{kind}">{content}</div>'


def in_words(text: str) -> str:
    """Escaped, and with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def _parts(details: Sequence[str]) -> Iterator[str]:
    for kind, lines in groupby(details, key=_kind):
        if kind == "table":
            yield from map(_table, _tables(line for line in lines if isinstance(line, Row)))
        elif kind == "code":
            program = html.escape(textwrap.dedent("\n".join(lines)))
            yield f'<pre class="ddp-lines" tabindex="0">{program}</pre>'
        elif kind == "words":
            yield "".join(f'<div class="ddp-line">{_line(line.strip())}</div>' for line in lines)
        else:
            yield '<div class="ddp-gap"></div>'


def _kind(line: str) -> str:
    if isinstance(line, Row):
        return "table"
    if not line.strip():
        return "gap"
    is_of_words = "   " not in line.strip() or _RANK_FIRST.match(line) or _PLACE_WITH_CODE.match(line)
    return "words" if is_of_words and not _NUMBERED.match(line) else "code"


def _line(line: str) -> str:
    rank = _RANK_FIRST.match(line)
    if rank is None:
        return _words_and_code(line)
    number, rest = rank.groups()
    chip = f'<span class="ddp-rank" style="border-color:{rank_color(int(number))}">rank {number}</span>'
    return chip + _words_and_code(rest)


def _words_and_code(line: str) -> str:
    if line.startswith("Next: "):
        return f"<strong>Next:</strong> {in_words(line.removeprefix('Next: '))}"
    code = _PLACE_WITH_CODE.match(line)
    if code is None:
        return in_words(line)
    place, program, end = code.groups()
    if end and not place.count("("):  # it belongs to the program
        program, end = program + end, ""
    return f"{in_words(place)} <code>{html.escape(program)}</code>{end}"


def _tables(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """One after the other: a table begins with its head."""
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
        bars = f'<td class="ddp-bars">{_bars(others)}</td>' if is_traffic and place == 0 else ""
        lines.append(f'<tr><th scope="row">{_line(first)}</th>{cells}{bars}</tr>')
    wide = f'<div class="ddp-lines" tabindex="0"><table><thead><tr>{heads}</tr></thead>'
    return f"{wide}<tbody>{''.join(lines)}</tbody></table></div>"


def _bars(amounts: Sequence[str]) -> str:
    """Yours above the textbook's."""
    numbers = [float(amount.replace(",", "")) for amount in amounts]
    most = max([*numbers, 1.0])
    return "<br>".join(
        f'<span class="ddp-bar{" ddp-other" * bool(place)}" aria-hidden="true" style="width:{8 * number / most:.2f}em">'
        "</span>"
        for place, number in enumerate(numbers)
    )
