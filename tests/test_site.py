"""What makes the site and the slides: each trouble is made once, on purpose, and has to be seen."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
SITE = ROOT / "site"
STILL = "image/svg+xml"

GOOD = '<html><img src="a.png" alt=""><a href="b.html#there">b</a><a href="https://pytorch.org">out</a></html>'
TROUBLES = {
    '<a href="nowhere.html">x</a>': "nowhere.html leads to nothing",
    '<a href="b.html#here">x</a>': "b.html#here leads to a page that has no here",
    '<a href="#here">x</a>': "#here leads to a page that has no here",
    '<script src="https://cdn.example/x.js"></script>': "asks for https://cdn.example/x.js, which is outside",
    '<link rel="stylesheet" href="//cdn.example/x.css">': "asks for //cdn.example/x.css, which is outside",
    '<iframe src="https://cdn.example"></iframe>': "asks for https://cdn.example, which is outside",
    "<style>p { background: url(https://cdn.example/x.png) }</style>": "asks for https://cdn.example/x.png",
    '<img src="a.png">': "a picture without words: a.png",
    '<img src="c.png" alt="c">': "c.png leads to nothing",
}


def walk(folder: Path, page: str) -> tuple[int, str]:
    (folder / "a.png").write_bytes(b"")
    (folder / "b.html").write_text('<h1 id="there">b</h1>', encoding="utf-8")
    (folder / "a.html").write_text(page, encoding="utf-8")
    done = subprocess.run([sys.executable, SITE / "walk.py", folder], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def test_pages_with_live_links_pass(tmp_path: Path) -> None:
    assert walk(tmp_path, GOOD) == (0, f"{tmp_path}: 2 pages, 0 complaints\n")


@pytest.mark.parametrize("trouble", TROUBLES)
def test_whatever_is_dead_or_outside_is_named(trouble: str, tmp_path: Path) -> None:
    code, said = walk(tmp_path, GOOD + trouble)
    assert code == 1
    assert f"a.html: {TROUBLES[trouble]}" in said


def test_a_style_sheet_that_asks_outside_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text("@import url(https://fonts.example/f);", encoding="utf-8")
    assert "x.css: asks for https://fonts.example/f" in walk(tmp_path, GOOD)[1]


def test_nothing_built_is_a_complaint(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SITE / "walk.py", tmp_path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "gone.md").write_text("# A page whose source is gone\n", encoding="utf-8")
    subprocess.run([sys.executable, SITE / "staging.py", folder], check=True, capture_output=True, timeout=60)
    return folder


def test_every_lesson_and_text_is_on_the_list_of_pages(laid: Path) -> None:
    front = (laid / "index.md").read_text(encoding="utf-8")
    sources = [*(ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"), *(ROOT / "docs").rglob("*.md")]
    assert len(sources) > 14
    for source in sources:
        assert f"<{source.relative_to(ROOT).as_posix()}>" in front
    assert not (laid / "gone.md").exists()


def test_a_link_to_a_file_leads_to_a_page_that_shows_it(laid: Path) -> None:
    assert "](../scripts/started.py.md)" in (laid / "docs" / "where.md").read_text(encoding="utf-8")
    assert (ROOT / "scripts" / "started.py").read_text() in (laid / "scripts" / "started.py.md").read_text()


def data_of_still(still: str) -> Any:
    data = ET.fromstring(still).findtext("{http://www.w3.org/2000/svg}metadata")
    return json.loads(data) if data else None


def data_of_page(page: str) -> Any:
    """What its script makes a living figure of."""
    found = re.search(r'<script type="application/json">(.*)</script>', page)
    return json.loads(found[1]) if found else None


def test_lessons_keep_their_cells_and_outputs(laid: Path) -> None:
    for lesson in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        ours, theirs = (nbformat.read(path, 4).cells for path in (lesson, laid / "notebooks" / lesson.name))  # type: ignore[no-untyped-call]
        for cell, other in zip(ours, theirs, strict=True):
            pairs = list(zip(cell.get("outputs", []), other.get("outputs", []), strict=True))
            assert all(output == shown for output, shown in pairs if STILL not in output.get("data", {}))
            stills = [(output.data[STILL], shown.data) for output, shown in pairs if STILL in output.get("data", {})]
            for still, shown in stills:
                assert list(shown) == ["text/html"]
                assert data_of_page(shown["text/html"]) == data_of_still(still)
                assert ('class="ddp-page' in shown["text/html"]) == ('class="ddp-chart"' in still)
        assert [cell.source for cell in ours if cell.cell_type == "code"] == [
            cell.source for cell in theirs if cell.cell_type == "code"
        ]


A_CHART = """
import sys, nbformat
sys.path.insert(0, sys.argv[1])
from living import bring_to_life, keep_still
from make_slides import height_of_output
from ddp_lessons import show

def cell_of(shown):
    data, about = shown._repr_mimebundle_()
    return nbformat.v4.new_code_cell("show", outputs=[nbformat.v4.new_output("display_data", data, metadata=about)])

chart, page = show.distance({"a <b>": [1e-9]}), cell_of(show.distance({"a <b>": [1e-9]}))
slide = cell_of(chart)
bring_to_life(page)
keep_still(slide)
print(page.outputs[0].data["text/html"] == chart._repr_html_())
print(slide.outputs[0].data["text/html"].startswith("<img "))
print([height_of_output(cell_of(show.terminal(["a line"] * lines)).outputs[0]) for lines in (1, 11)])
"""


def test_a_chart_takes_the_colors_of_the_site_and_a_slide_has_room_for_what_was_printed() -> None:
    done = subprocess.run([sys.executable, "-c", A_CHART, SITE], capture_output=True, text=True, timeout=60)
    in_page, on_slide, heights = done.stdout.splitlines()
    assert (in_page, on_slide) == ("True", "True"), done.stderr
    one, eleven = json.loads(heights)
    assert eleven - one == 10 * 23


SPLIT = """
import sys, nbformat
sys.path.insert(0, sys.argv[1])
from make_slides import lay_out
texts = "# T\\n\\nFirst.", "Why.\\n\\n## Next\\n\\n```\\n## code\\n```", "So."
cells = [nbformat.v4.new_markdown_cell(text) for text in texts]
long = nbformat.v4.new_code_cell("\\n".join("x = 1" for _ in range(29)))
notebook = nbformat.v4.new_notebook(cells=[*cells, long])
lay_out(notebook)
print(*(cell.metadata["slideshow"]["slide_type"] for cell in notebook.cells))
"""


def test_slides_begin_at_headings_and_where_no_room_is_left() -> None:
    done = subprocess.run([sys.executable, "-c", SPLIT, SITE], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["slide", "fragment", "slide", "fragment", "subslide"], done.stderr
