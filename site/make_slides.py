"""Make slides of the committed lessons: `python site/make_slides.py FOLDER`.

reveal.js (MIT) comes from the package sphinx-revealjs and is copied next to the slides, so they need no network.
"""

from __future__ import annotations

import html
import re
import shutil
import sys
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from committed import lessons, read_lesson
from jinja2 import Environment, FileSystemLoader
from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import BashLexer, PythonLexer
from slide_blocks import Block, Slide
from slide_deck import Deck
from staging import title_of

from ddp_lessons.record.colors import RANK_COLORS, rank_color

HERE = Path(__file__).resolve().parent / "slides"
PARTS_OF_REVEAL = (
    "LICENSE",
    "dist/reset.css",
    "dist/reveal.css",
    "dist/reveal.js",
    "plugin/notes/notes.js",
    "plugin/notes/speaker-view.html",
)
RANK = re.compile(r"^rank (\d+)(?= )", re.M)
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def make_slides(lesson: str, folder: Path) -> Path:
    deck = Deck(read_lesson(lesson))
    pages = Environment(loader=FileSystemLoader(HERE), trim_blocks=True, lstrip_blocks=True)
    slides = [
        (in_one_line(slide.title), body_of(slide), MARKDOWN.render("\n\n".join(slide.notes))) for slide in deck.slides
    ]
    goal = folder / f"{Path(lesson).stem}.slides.html"
    goal.write_text(pages.get_template("lesson.html").render(title=title_of(lesson), slides=slides), encoding="utf-8")
    return goal


def in_one_line(markdown: str) -> str:
    return str(MARKDOWN.renderInline(markdown))


def body_of(slide: Slide) -> str:
    groups = groupby(slide.blocks, key=lambda block: block.kind)
    return "\n".join(html_of(kind, list(blocks)) for kind, blocks in groups)


def html_of(kind: str, blocks: list[Block]) -> str:
    later = " fragment" * blocks[0].is_shown_later
    if kind == "picture":
        return f'<div class="picture{later}">{blocks[0].text}</div>'
    if kind == "output":
        return f'<pre class="output size-{blocks[0].size}{later}">{with_rank_colors(blocks[0].text)}</pre>'
    if kind == "code":
        return "".join(f'<div class="size-{block.size}">{code_of(block.text)}</div>' for block in blocks)
    text = MARKDOWN.render("\n".join(block.text for block in blocks))
    return f'<div class="{kind}">{text}</div>'


def code_of(code: str) -> str:
    lexer = BashLexer() if code.startswith(("!", "%%writefile", "%%bash")) and "def " not in code else PythonLexer()
    return str(highlight(code, lexer, HtmlFormatter()))


def with_rank_colors(text: str) -> str:
    return RANK.sub(lambda rank: f'<b class="rank-{int(rank[1]) % len(RANK_COLORS)}">{rank[0]}</b>', html.escape(text))


def lay_reveal(folder: Path) -> None:
    """Copy the reveal.js of sphinx-revealjs."""
    spec = find_spec("sphinx_revealjs")
    if spec is None or spec.origin is None:
        sys.exit("The slides need the package sphinx-revealjs, for its copy of reveal.js. Type: make slides")
    brought = Path(spec.origin).parent / "_static" / "revealjs"
    for part in PARTS_OF_REVEAL:
        goal = folder / "reveal" / part
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(brought / part, goal)
    shutil.copy(HERE / "slides.js", folder)
    (folder / "slides.css").write_text(style_sheet(), encoding="utf-8")


def style_sheet() -> str:
    """Our styles, and the colors of code and ranks, for light and dark."""
    light, dark = (
        HtmlFormatter(style=style).get_style_defs(".highlight") for style in ("a11y-high-contrast-light", "a11y-dark")
    )
    ranks = "\n".join(
        f".rank-{rank} {{ border-left: 8px solid {rank_color(rank)}; }}" for rank in range(len(RANK_COLORS))
    )
    ours = (HERE / "slides.css").read_text(encoding="utf-8")
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n{ranks}\n{ours}"


def list_of(pages: list[Path]) -> str:
    rows = [(page.name, title_of(lesson)) for page, lesson in zip(pages, lessons(), strict=True)]
    return Environment(loader=FileSystemLoader(HERE), autoescape=True).get_template("index.html").render(rows=rows)


def main() -> None:
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lay_reveal(folder)
    pages = [make_slides(lesson, folder) for lesson in lessons()]
    (folder / "index.html").write_text(list_of(pages), encoding="utf-8")
    print(f"{folder}/index.html: {len(pages)} lessons as slides")


if __name__ == "__main__":
    main()
