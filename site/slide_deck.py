"""From a lesson to its slides: each shows one question, program or figure, and the prose goes to the speaker notes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from lesson_pages import ASKS, PREDICT
from living import STILL, words_of
from slide_blocks import LONGEST_LEAD, Block, Slide, lay_out
from staging import FENCED

from ddp_lessons.quiz.question import Question, questions_of
from ddp_lessons.show.figures.figure import living_svg_in, page_of

IMPORT = re.compile(r"(?:(?:import|from) .+\n?|%load_ext .+\n?|\n)+")
LINK_INSIDE = re.compile(r"\[([^\]\[]*)\]\((?![a-z][a-z0-9+.-]*:)[^)]*\)")
HEADING = re.compile(r"^#{1,3} ", re.M)
POINT = re.compile(r"^(?:[-*]|\d+\.) ")
SENTENCE = re.compile(r".+?[.?!](?=\s+[^a-z\s]|\s*$)", re.S)
ANSI = re.compile(r"\x1b\[[\d;]*m")
STYLE, TAG = re.compile(r"<style>.*?</style>", re.DOTALL), re.compile(r"<[^>]*>")
PRINTED = 'class="ddp-printed"'  # objects whose text says only that they exist
WRITES = re.compile(r"(?:Writing|Overwriting) \S+$")  # the output of %%writefile
CHECKS = re.compile(r"^check\.", re.M)
TALLEST_TABLE = 500
PLAYS = ' data-plays="True"'
FEW_LINES = 3  # of code, so that a picture fits below


class Deck:
    """The slides of one lesson, filled cell by cell."""

    def __init__(self, notebook: Any) -> None:
        self.slides: list[Slide] = []
        self._title = ""
        self._prose: list[str] = []  # the prose since the last slide
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                for text in sections(LINK_INSIDE.sub(r"\1", cell.source)):
                    self._add_text(text)
                    if not self.slides:
                        self._end_section()
            else:
                self._add_code(cell)
        self._end_section()

    def _add(self, title: str, *blocks: Block) -> None:
        self.slides += lay_out(title, blocks, self._prose)
        self._prose = []

    def _add_text(self, text: str) -> None:
        if heading := HEADING.match(text):
            self._end_section()
            line, _, text = text[heading.end() :].partition("\n")
            self._title = line.strip()
        paragraphs = [part.strip() for part in text.split("\n\n") if part.strip()]
        if paragraphs and paragraphs[0].startswith("**Why") and self.slides and not self._prose:
            self.slides[-1].notes += paragraphs[:1]  # it explains the previous slide
            del paragraphs[:1]
        self._prose += paragraphs
        listed = [block for part in paragraphs for block in points(part)]
        if listed:
            self._add(self._title, *listed)

    def _end_section(self) -> None:
        """A section with only prose gets a slide with its first sentence. The first slide lists the objectives."""
        if self.slides and self.slides[-1].title == self._title:
            self.slides[-1].notes += self._prose
        elif self._prose:
            self._add(self._title, Block("lead", lead_of(self._prose[:1])))
        self._prose = []

    def _add_code(self, cell: Any) -> None:
        if asked := ASKS.search(cell.source):
            self._ask(questions_of(int(asked[1])))
        elif not is_plumbing(cell):
            self._show(without_imports(cell.source), cell.outputs)

    def _ask(self, questions: Sequence[Question]) -> None:
        for number, question in enumerate(questions, 1):
            self._prose = [question.verdict(question.right)]
            self._add(f"Question {number} of {len(questions)}", *asked_as_blocks(question))

    def _show(self, code: str, outputs: list[Any]) -> None:
        lead = [Block("lead", text)] if (text := lead_of(self._prose)) else []
        program = Block("code", code)
        shown = [] if CHECKS.search(code) else list(blocks_of(outputs))
        printed = [block for block in shown if block.kind != "picture"]
        pictures = [block for block in shown if block.kind == "picture"]
        if pictures and not printed and len(code.splitlines()) <= FEW_LINES:
            self._add(self._title, *lead, program, pictures.pop(0))
        else:
            self._add(self._title, *lead, program, *printed)
        for picture in pictures:
            self._add(self._title, picture)


def figure_of(still: str, alt: str) -> str:
    """Slides play it themselves, when it is seen."""
    living = living_svg_in(still)
    waiting = living.replace(PLAYS, "")
    return f'<div class="ddp-living{" plays" if waiting != living else ""}">{page_of(waiting, alt)}</div>'


def sections(text: str) -> Iterator[str]:
    """Split at headings in the middle of a cell."""
    plain = FENCED.sub(lambda code: "~" * len(code[0]), text)
    begins = [begin for begin in (match.start() for match in HEADING.finditer(plain)) if begin]
    for begin, end in pairwise([0, *begins, len(text)]):
        yield text[begin:end].strip()


def points(paragraph: str) -> list[Block]:
    """One block per list item or table row; other prose goes to the speaker notes."""
    lines = paragraph.splitlines()
    if lines[0].startswith("|"):
        return list(tables(lines[:2], lines[2:]))
    if not POINT.match(lines[0]):
        return []
    items = re.split(r"\n(?=(?:[-*]|\d+\.) )", paragraph)
    return [Block("point", " ".join(item.split())) for item in items]


def tables(head: list[str], rows: list[str]) -> Iterator[Block]:
    """One table, or several if it is too long, each with the header."""
    here: list[str] = []
    for row in rows:
        if here and Block("table", "\n".join([*head, *here, row])).height > TALLEST_TABLE:
            yield Block("table", "\n".join([*head, *here]))
            here = []
        here.append(row)
    yield Block("table", "\n".join([*head, *here]))


def lead_of(prose: list[str]) -> str:
    """The question to the room, or otherwise the last sentence of the prose."""
    prose = [part for part in prose if not part.startswith(("```", "|", "- "))]
    if not prose:
        return ""
    asked = [part[part.index("**Predict") :] for part in prose if "**Predict" in part and PREDICT.search(part)]
    text = " ".join((asked or prose)[-1].split())
    kept = ""
    for sentence in SENTENCE.findall(text) or [text]:
        if kept and (not asked or len(kept + sentence) > LONGEST_LEAD):
            break
        kept += sentence
    return kept.strip()


def is_plumbing(cell: Any) -> bool:
    """Whether a cell only imports, or prepares a folder or a variable, without definitions and outputs."""
    code = without_imports(cell.source)
    is_set_up = code != cell.source.strip("\n") and not re.search(r"^(def|class) ", code, re.M)
    return not code or (is_set_up and not cell.outputs)


def without_imports(code: str) -> str:
    """The code without imports, because a room needs to read only what the cell does."""
    found = IMPORT.match(code)
    return code[found.end() :].strip("\n") if found else code.strip("\n")


def blocks_of(outputs: list[Any]) -> Iterator[Block]:
    """The outputs, which appear with the next key."""
    printed: list[str] = []
    for output in outputs:
        data = output.get("data", {})
        if STILL in data:
            yield Block("picture", figure_of(data[STILL], words_of(output)), is_shown_later=True)
        elif "image/png" in data:
            yield Block("picture", png_of(output), is_shown_later=True)
        elif not str(data.get("text/html", "")).startswith("<details"):  # the text of the previous picture
            printed.append(text_of(output))
    text = "\n".join(part for part in printed if part and not WRITES.match(part))
    if text:
        yield Block("output", text, is_shown_later=True)


def text_of(output: Any) -> str:
    failed = f"{output.get('ename')}: {output.get('evalue')}" if output.output_type == "error" else ""
    data = output.get("data", {})
    page = str(data.get("text/html", ""))
    printed = html.unescape(TAG.sub("", STYLE.sub("", page))).strip() if PRINTED in page else ""
    text = output.get("text") or printed or data.get("text/plain") or failed
    return ANSI.sub("", str(text)).rstrip()


def png_of(output: Any) -> str:
    alt = output.metadata.get("image/png", {}).get("alt", "").replace('"', "&quot;")
    data = "".join(output.data["image/png"].split())
    return f'<img alt="{alt}" src="data:image/png;base64,{data}">'


def asked_as_blocks(question: Question) -> Iterator[Block]:
    yield Block("lead", question.text)
    if question.program:
        yield Block("code", question.program)
    for letter, one in question.choices.items():
        yield Block("choice", f"- **{letter})** {one.choice}")
