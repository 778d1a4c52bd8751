"""Make slides of the lessons, with their stored outputs: `python site/make_slides.py FOLDER`.

Which cell begins a slide is derived from its heading and from the room that is left; no cell says it by itself.
reveal.js (MIT) comes from the package sphinx-revealjs, which brings a copy, and is laid beside the slides: they need no
network.
"""

from __future__ import annotations

import html
import re
import shutil
import struct
import sys
from base64 import b64decode
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
from living import STILL, keep_still
from nbconvert import SlidesExporter
from staging import FENCED, ROOT, lessons, title_of

SITE = Path(__file__).resolve().parent
# as slides.css lays them out, in pixels; what is higher than a slide scrolls
ROOM, WIDTH, TALLEST_PICTURE = 700, 1076, 440
LINE, LINE_OF_CODE, BETWEEN = 31, 23, 24
LETTERS_IN_A_LINE, LETTERS_IN_A_LINE_OF_CODE = 84, 100
OF_REVEAL = ("LICENSE", "dist/reset.css", "dist/reveal.css", "dist/reveal.js", "dist/theme/white.css")
FONTS = re.compile(r"@import[^;]*;")  # a theme fetches its fonts; the system's are as good
LINK_INSIDE = re.compile(r"\[([^\]\[]*)\]\((?![a-z][a-z0-9+.-]*:)[^)]*\)")
BEGINS_A_LINE = re.compile(r"\n(?=\s*(?:[-*|]|\d+\.))")  # a point of a list, a row of a table
SIZE_OF_STILL = re.compile(r'width="([\d.]+)" height="([\d.]+)"')
STYLE, TAG = re.compile(r"<style>.*?</style>", re.DOTALL), re.compile(r"<[^>]*>")
HEADING = re.compile(r"^#{1,2} ", re.M)


def lay_out(notebook: Any) -> None:
    """Say of each cell where it stands: a heading begins a slide, and so does what finds no room on the last."""
    notebook.cells = [part for cell in notebook.cells for part in split_at_headings(cell)]
    used = 0
    for cell in notebook.cells:
        needed = height_of(cell)
        if cell.cell_type == "markdown" and HEADING.match(cell.source):
            kind, used = "slide", needed
        elif used + needed > ROOM:
            kind, used = "subslide", needed
        else:
            kind, used = "-" if cell.cell_type == "code" else "fragment", used + needed
        cell.metadata["slideshow"] = {"slide_type": kind}
        if cell.cell_type == "markdown":
            cell.source = LINK_INSIDE.sub(r"\1", cell.source)  # slides stand alone


def split_at_headings(cell: Any) -> list[Any]:
    """A heading in the middle of a cell begins a slide, too; and a cell keeps no output that shows nothing."""
    if cell.cell_type == "code":
        cell.outputs = [output for output in cell.outputs if output.get("data", True)]
        return [cell]
    begins = [match.start() for match in HEADING.finditer(FENCED.sub(lambda code: "~" * len(code[0]), cell.source))]
    marks = [0, *(begin for begin in begins if begin), len(cell.source)]
    texts = [cell.source[begin:end].strip() for begin, end in pairwise(marks)]
    return [nbformat.v4.new_markdown_cell(text) for text in texts if text]  # type: ignore[no-untyped-call]


def height_of(cell: Any) -> int:
    if cell.cell_type == "code":
        outputs = sum(height_of_output(output) for output in cell.outputs)
        return BETWEEN + LINE_OF_CODE * height_in_lines(cell.source) + outputs
    blocks = [block for block in FENCED.sub("", LINK_INSIDE.sub(r"\1", cell.source)).split("\n\n") if block.strip()]
    lines = [-(-len(line) // LETTERS_IN_A_LINE) for block in blocks for line in BEGINS_A_LINE.split(block.strip())]
    code = sum(height_in_lines(fence[0]) - 2 for fence in FENCED.finditer(cell.source))
    return BETWEEN * len(blocks) + LINE * sum(lines) + LINE_OF_CODE * code


def height_of_output(output: Any) -> int:
    data = output.get("data", {})
    if STILL in data:
        width, height = (float(number) for number in SIZE_OF_STILL.findall(data[STILL])[0])
        return BETWEEN + min(TALLEST_PICTURE, int(height * WIDTH // max(width, WIDTH)))
    if "image/png" in data:
        width, height = struct.unpack(">II", b64decode(data["image/png"])[16:24])
        return BETWEEN + min(TALLEST_PICTURE, int(height * WIDTH // max(width, WIDTH)))
    folded = str(data.get("text/html", "")).count("<summary>")
    if folded:
        return BETWEEN + LINE * folded
    printed = TAG.sub("", STYLE.sub("", data.get("text/html", "")))
    return BETWEEN + LINE_OF_CODE * height_in_lines(str(output.get("text") or printed or data.get("text/plain", "")))


def height_in_lines(text: str) -> int:
    """A line that is too long goes on below."""
    return sum(max(1, -(-len(line) // LETTERS_IN_A_LINE_OF_CODE)) for line in text.rstrip().splitlines())


def make_slides(lesson: Path, folder: Path) -> Path:
    notebook = nbformat.read(lesson, as_version=4)  # type: ignore[no-untyped-call]
    lay_out(notebook)
    for cell in notebook.cells:
        keep_still(cell)
    notebook.metadata["title"] = title_of(lesson.relative_to(ROOT).as_posix())
    look = {"template_name": "slides", "extra_template_basedirs": [str(SITE)], "reveal_theme": "white"}
    exporter = SlidesExporter(**look, reveal_url_prefix="reveal")  # type: ignore[no-untyped-call]
    page, _ = exporter.from_notebook_node(notebook)
    goal = folder / f"{lesson.stem}.slides.html"
    goal.write_text(page, encoding="utf-8")
    return goal


def lay_reveal(folder: Path) -> None:
    """The copy of reveal.js that comes with sphinx-revealjs."""
    spec = find_spec("sphinx_revealjs")
    if spec is None or spec.origin is None:
        sys.exit("The slides need the package sphinx-revealjs, for its copy of reveal.js. Type: make slides")
    brought = Path(spec.origin).parent / "_static" / "revealjs"
    for part in OF_REVEAL:
        source, goal = brought / part, folder / "reveal" / part
        goal.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        goal.write_text(FONTS.sub("", text) if part.endswith(".css") else text, encoding="utf-8")
    for ours in ("slides.css", "slides.js"):
        shutil.copy(SITE / "slides" / ours, folder)


def list_of(pages: list[Path]) -> str:
    titles = [html.escape(title_of(lesson)) for lesson in lessons()]
    rows = "".join(f'<li><a href="{page.name}">{title}</a></li>' for page, title in zip(pages, titles, strict=True))
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Slides</title>'
    keys = "Space or arrow keys turn the page, Esc shows all of them, F fills the screen."
    style = (
        "body{font:1.1rem/1.6 sans-serif;max-width:40rem;margin:2rem auto;padding:0 1rem}ul{list-style:none;padding:0}"
    )
    body = f"<main><h1>Slides of the lessons</h1><p>{keys}</p><ul>{rows}</ul></main>"
    return f'<!DOCTYPE html><html lang="en"><head>{head}<style>{style}</style></head><body>{body}</body></html>\n'


def main() -> None:
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lay_reveal(folder)
    pages = [make_slides(ROOT / lesson, folder) for lesson in lessons()]
    (folder / "index.html").write_text(list_of(pages), encoding="utf-8")
    print(f"{folder}/index.html: {len(pages)} lessons as slides")


if __name__ == "__main__":
    main()
