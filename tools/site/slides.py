"""Make slides from the lessons: `python -m tools.site.slides FOLDER`.

A slide has a question, a program with its output, a figure or a list; the prose goes into the speaker notes. What does
not fit continues on the next slide, which slides/slides.js finds out in the browser. reveal.js (MIT) comes from the
package sphinx-revealjs and is copied next to the slides, so they need no network.
"""

from __future__ import annotations

import html
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sphinx_revealjs
from jinja2 import Environment, FileSystemLoader
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import BashLexer, PythonLexer

from ddp_lessons.quiz.question import questions_of
from ddp_lessons.record.colors import RANK_COLORS, rank_color
from ddp_lessons.show.figures.figure import living_svg_in, page_of
from ddp_lessons.workshop.stored_outputs import FIGURE
from tools.site.lesson_pages import ASKS, LESSONS, PREDICT, read_lesson, title_of, words_of

SITE = Path(__file__).resolve().parent
PARTS_OF_REVEAL = (
    "LICENSE",
    "dist/reset.css",
    "dist/reveal.css",
    "dist/reveal.js",
    "plugin/notes/notes.js",
    "plugin/notes/speaker-view.html",
)
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
LISTS = {"bullet_list_open": "points", "ordered_list_open": "points", "table_open": "table"}
LINK_INSIDE = re.compile(r"\[([^\]\[]*)\]\((?![a-z][a-z0-9+.-]*:)[^)]*\)")
SENTENCE = re.compile(r".+?[.?!](?=\s+[^a-z\s]|\s*$)", re.S)
LONGEST_QUESTION = 320  # characters
IMPORTS = re.compile(r"(?:(?:import|from) .+\n?|%load_ext .+\n?|\n)+")
CHECKS = re.compile(r"^check\.", re.M)
RANK = re.compile(r"^rank (\d+)(?= )", re.M)
WRITES = re.compile(r"(?:Writing|Overwriting) \S+$")  # the output of %%writefile
NOT_WORDS = re.compile(r"<style>.*?</style>|<[^>]*>", re.DOTALL)
PLAYS = ' data-plays="True"'


@dataclass(frozen=True)
class Slide:
    title: str
    blocks: Sequence[str]  # HTML
    notes: str  # Markdown


def slides_of(notebook: Any) -> list[Slide]:
    slides, title, prose = list[Slide](), "", list[str]()  # the prose since the last slide

    def add(*blocks: str) -> None:
        slides.append(Slide(title, blocks, "\n\n".join(prose)))
        prose.clear()

    def explain(words: Sequence[str]) -> None:
        last = slides.pop()
        slides.append(Slide(last.title, last.blocks, "\n\n".join(filter(None, [last.notes, *words]))))

    def end_section() -> None:
        """End a section, which gets a slide with its first sentence if it has only prose."""
        if prose and slides and slides[-1].title == title:
            explain(prose)
        elif prose:
            add(block("lead", lead_of(prose[:1])))
        prose.clear()

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for kind, text in paragraphs(LINK_INSIDE.sub(r"\1", cell.source)):
                if kind == "heading_open":
                    end_section()
                    title = text.strip("# \n")
                elif text.startswith("**Why") and slides and not prose:
                    explain([text])
                else:
                    prose.append(text)
                if kind in LISTS:
                    add(block(LISTS[kind], text))
            if not slides:  # the first one has the objectives
                end_section()
        elif asked := ASKS.search(cell.source):
            questions = questions_of(int(asked[1]))
            for number, question in enumerate(questions, 1):
                title, prose = f"Question {number} of {len(questions)}", [question.verdict(question.right)]
                choices = "\n".join(f"- **{letter})** {one.choice}" for letter, one in question.choices.items())
                program = [code_of(question.program)] if question.program else []
                add(block("lead", question.text), *program, block("choice", choices))
        elif code := code_to_show(cell):
            shown = [] if CHECKS.search(code) else list(shown_of(cell.outputs))
            first, *figures = [one for one in shown if one.startswith("<div")] or [""]
            printed = [one for one in shown if one.startswith("<pre")]
            lead = lead_of(prose)
            add(*filter(None, [lead and block("lead", lead), code_of(code), *printed, first]))
            for figure in figures:
                add(figure)
    end_section()
    return slides


def paragraphs(markdown: str) -> Iterator[tuple[str, str]]:
    """The parts of a text, as pairs of kind and Markdown."""
    lines = markdown.splitlines()
    for token in MARKDOWN.parse(markdown):
        if token.level == 0 and token.map:
            yield token.type, "\n".join(lines[slice(*token.map)]).strip()


def lead_of(prose: Sequence[str]) -> str:
    """The question to the room, or else the first sentence of the last paragraph."""
    prose = [part for part in prose if not part.startswith(("```", "|", "- "))]
    asked = [part[part.index("**Predict") :] for part in prose if "**Predict" in part and PREDICT.search(part)]
    text = " ".join((asked or prose or [""])[-1].split())
    first, *others = list[str](SENTENCE.findall(text)) or [text]
    for sentence in others if asked else []:
        if len(first + sentence) > LONGEST_QUESTION:
            break
        first += sentence
    return first.strip()


def code_to_show(cell: Any) -> str:
    """The code without imports, or nothing if the cell only prepares something."""
    imports = IMPORTS.match(cell.source)
    code = str(cell.source[imports.end() if imports else 0 :]).strip("\n")
    is_set_up = imports and not cell.outputs and not re.search(r"^(def|class) ", code, re.M)
    return "" if is_set_up else code


def shown_of(outputs: Sequence[Any]) -> Iterator[str]:
    """The output and figures of a cell, each of which appears on a key press, so that the room can predict it."""
    printed = []
    for output in outputs:
        data = output.get("data", {})
        page = data.get("text/html", "")
        if FIGURE in data:  # slides.js plays it when it is seen
            living = living_svg_in(data[FIGURE])
            plays = " plays" * (PLAYS in living)
            figure = page_of(living.replace(PLAYS, ""), words_of(output))
            yield f'<div class="picture fragment"><div class="ddp-living{plays}">{figure}</div></div>'
        elif 'class="ddp-printed"' in page:  # its text says only that it exists
            printed.append(html.unescape(NOT_WORDS.sub("", page)).strip())
        elif not page.startswith("<details"):  # the words of the figure above
            printed.append(re.sub(r"\x1b\[[\d;]*m", "", output.get("text") or data.get("text/plain", "")).rstrip())
    if text := "\n".join(part for part in printed if part and not WRITES.match(part)):
        mark = r'<b class="rank-\1">\g<0></b>'
        yield f'<pre class="output fragment">{in_lines(RANK.sub(mark, html.escape(text)))}</pre>'


def block(kind: str, markdown: str) -> str:
    return f'<div class="{kind}">{MARKDOWN.render(markdown)}</div>'


def code_of(code: str) -> str:
    is_shell = code.startswith(("!", "%%writefile", "%%bash")) and "def " not in code
    lines = highlight(code, BashLexer() if is_shell else PythonLexer(), HtmlFormatter(nowrap=True))
    return f'<div class="highlight"><pre>{in_lines(lines.rstrip())}</pre></div>'


def in_lines(text: str) -> str:
    """Split text into lines, so that slides.js can continue it on the next slide; Pygments closes tags on each line."""
    return "".join(f'<span class="line">{line}\n</span>' for line in text.split("\n"))


def style_sheet() -> str:
    """Our styles, and the colors of code and ranks, for light and dark."""
    light, dark = (
        HtmlFormatter(style=style).get_style_defs(".highlight") for style in ("a11y-high-contrast-light", "a11y-dark")
    )
    ranks = [f".rank-{rank} {{ border-left: 8px solid {rank_color(rank)}; }}" for rank in range(len(RANK_COLORS))]
    ours = (SITE / "slides" / "slides.css").read_text(encoding="utf-8")
    return "\n".join([light, "@media (prefers-color-scheme: dark) {", dark, "}", *ranks, ours])


def make_slides(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for part in PARTS_OF_REVEAL:
        goal = folder / "reveal" / part
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(str(sphinx_revealjs.__file__)).parent / "_static" / "revealjs" / part, goal)
    shutil.copy(SITE / "slides" / "slides.js", folder)
    (folder / "slides.css").write_text(style_sheet(), encoding="utf-8")
    pages = Environment(loader=FileSystemLoader(SITE / "slides"), trim_blocks=True, lstrip_blocks=True)
    pages.filters |= {"markdown": MARKDOWN.render, "in_one_line": MARKDOWN.renderInline}
    rows = [
        (f"{Path(lesson).stem}.slides.html", f"{number}. {title_of(lesson)}", slides_of(read_lesson(lesson)))
        for number, lesson in enumerate(LESSONS)
    ]
    for name, title, slides in rows:
        text = pages.get_template("lesson.html").render(title=title, slides=slides)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "index.html").write_text(pages.get_template("index.html").render(rows=rows), encoding="utf-8")
    print(f"{folder}/index.html: {len(rows)} lessons as slides")


if __name__ == "__main__":
    make_slides(Path(sys.argv[1]))
