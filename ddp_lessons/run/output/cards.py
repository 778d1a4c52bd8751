"""A message as a card in a notebook: the same text, with ranks as chips, source lines as code, and links to cells.

It is made from the lines of the text, so card and text cannot differ.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from ddp_lessons.record.colors import rank_color
from ddp_lessons.record.line_names import cell_of_front_end, notebook_shell

Kind = Literal["passed", "wrong", "open"]
_MARKS: dict[Kind, str] = {"passed": "✓", "wrong": "✗", "open": "○"}
_STYLE = """<style>
.ddp-message { border: 1px solid rgba(127, 137, 150, .45); border-left: 5px solid #7a8798; border-radius: 4px;
  padding: .45em .9em .55em; max-width: 62em; overflow-wrap: break-word; }
.ddp-message.ddp-passed { border-left-color: #009e73; }
.ddp-message.ddp-wrong { border-left-color: #d55e00; }
.ddp-message p, .ddp-message pre, .ddp-message table { margin: .35em 0; }
.ddp-message .ddp-sign { display: inline-block; min-width: 1.5em; margin-right: .5em; border-radius: 1em; color: #fff;
  background: #5b6775; font-weight: 700; text-align: center; }
.ddp-message .ddp-passed { background: #00775a; }
.ddp-message .ddp-wrong { background: #b34700; }
.ddp-message .ddp-mistake { font-weight: 600; }
.ddp-message .ddp-wide { overflow-x: auto; }
.ddp-message .ddp-said { margin: .15em 0; }
.ddp-message .ddp-gap { height: .5em; }
.ddp-message .ddp-speaker { border-left: 5px solid; padding: 0 .5em 0 .4em; font-weight: 600; white-space: nowrap; }
.ddp-message pre { white-space: pre; }
.ddp-message table { border-collapse: collapse; font-size: inherit; }
.ddp-message th, .ddp-message td { text-align: right; padding: .1em .7em; font-weight: normal; vertical-align: top; }
.ddp-message tr > :first-child { text-align: left; padding-left: 0; }
.ddp-message thead th { font-weight: 600; border-bottom: 1px solid rgba(127, 137, 150, .6); }
.ddp-message td.ddp-amounts { text-align: left; line-height: .7; }
.ddp-message .ddp-amount { display: inline-block; height: .6em; min-width: 2px; background: #4c7fb3; }
.ddp-message .ddp-amount.ddp-theirs { background: #8b95a3; }
</style>"""
_RANK_FIRST = re.compile(r"\s*rank (\d+)\b ?\s*(.*)", re.S)
_PLACE_WITH_CODE = re.compile(r"(.*\bline \d+:)   (.*?)(\)?)(   \([^()]*\))?$", re.S)  # "(x.py line 3:   barrier())"
_NUMBERED = re.compile(r"\s*\d+(  |$)")  # of a program
_CELL = re.compile(r"\bcell \[(\d+)\]")
_ids: dict[int, str] = {}  # of the cells that ran, by their execution number


def framed(content: str, kind: Kind) -> str:
    return f'{_STYLE}<div class="ddp-message ddp-{kind}">{_CELL.sub(_link, content)}</div>'


def mark(kind: Kind) -> str:
    """A decorative sign: the text next to it says the same."""
    return f'<span class="ddp-sign ddp-{kind}" aria-hidden="true">{_MARKS[kind]}</span>'


def in_words(text: str) -> str:
    """Escaped, with text between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def lines_of_text(lines: Sequence[str]) -> Iterator[str]:
    """Each line of a message: what a rank does, a source line, or a sentence."""
    for kind, some in groupby(lines, key=kind_of_line):
        if kind == "code":
            program = html.escape(textwrap.dedent("\n".join(some)))
            yield f'<pre class="ddp-wide" tabindex="0">{program}</pre>'
        elif kind == "words":
            yield "".join(f'<div class="ddp-said">{one_line(line)}</div>' for line in some)
        else:
            yield '<div class="ddp-gap"></div>'


def kind_of_line(line: str) -> Literal["words", "code", "gap"]:
    if not line.strip():
        return "gap"
    is_of_words = "   " not in line.strip() or _RANK_FIRST.match(line) or _PLACE_WITH_CODE.match(line)
    return "words" if is_of_words and not _NUMBERED.match(line) else "code"


def one_line(line: str) -> str:
    rank = _RANK_FIRST.match(line)
    if rank is None:
        return _words_and_code(line.strip())
    number, rest = rank.groups()
    chip = f'<span class="ddp-speaker" style="border-color:{rank_color(int(number))}">rank {number}</span>'
    return chip + _words_and_code(rest)


def _words_and_code(line: str) -> str:
    if line.startswith("Next: "):
        return f"<strong>Next:</strong> {in_words(line.removeprefix('Next: '))}"
    found = _PLACE_WITH_CODE.match(line)
    if found is None:
        return in_words(line)
    place, program, end, remark = found.groups("")
    if end and "(" not in place:  # it belongs to the program
        program, end = program + end, ""
    return f"{in_words(place)} <code>{html.escape(program)}</code>{end}{in_words(remark)}"


def note_cells() -> None:
    """Start noting the ids of cells, including the one that is running: a card links to the cells that it names.

    JupyterLab sends the id of the cell with each request, and scrolls to it for an address that ends in `#cell-id=`.
    """
    shell = notebook_shell()
    if shell is None:
        return

    def note(before: int = 0) -> None:
        if cell_id := cell_of_front_end():
            _ids[len(shell.history_manager.input_hist_raw) - before] = cell_id  # with 0, which no cell has

    note(1)  # IPython counts up before a cell runs, in older releases after it
    shell.events.register("pre_run_cell", lambda info: note())


def _link(named: re.Match[str]) -> str:
    cell_id = html.escape(_ids.get(int(named[1]), ""))
    style = "color:inherit;text-decoration:underline"
    return f'<a href="#cell-id={cell_id}" style="{style}">{named[0]}</a>' if cell_id else named[0]
