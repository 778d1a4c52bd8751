"""What makes the site: each trouble is made once, on purpose, and has to be seen."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from figure_catalog import svg_in
from nights import nightly

from ddp_lessons.quiz.question import questions_of
from ddp_lessons.quiz.question_text import as_interactive_page
from ddp_lessons.show.figures.figure import living_svg_in
from ddp_lessons.workshop.stored_outputs import FIGURE
from tools.site.first_page import first_page
from tools.site.lesson_pages import HAS_CONTROLS, LESSONS, lesson_page, title_of

ROOT = Path(__file__).parent.parent

GOOD = '<html><img src="a.png" alt=""><a href="b.html#there">b</a><a href="https://pytorch.org">out</a></html>'
TROUBLES = {
    '<a href="nowhere.html">x</a>': "nowhere.html is a dead link",
    '<a href="b.html#here">x</a>': "b.html#here leads to a page without the anchor here",
    '<a href="#here">x</a>': "#here leads to a page without the anchor here",
    '<script src="https://cdn.example/x.js"></script>': "loads https://cdn.example/x.js, which is external",
    '<link rel="stylesheet" href="//cdn.example/x.css">': "loads //cdn.example/x.css, which is external",
    '<iframe src="https://cdn.example"></iframe>': "loads https://cdn.example, which is external",
    "<style>p { background: url(https://cdn.example/x.png) }</style>": "loads https://cdn.example/x.png",
    '<img src="a.png">': "an image without alt text: a.png",
    '<img src="c.png" alt="c">': "c.png is a dead link",
}


def walk(folder: Path, page: str) -> tuple[int, str]:
    (folder / "a.png").write_bytes(b"")
    (folder / "b.html").write_text('<h1 id="there">b</h1>', encoding="utf-8")
    (folder / "a.html").write_text(page, encoding="utf-8")
    command = [sys.executable, "-m", "tools.site.walk", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout


def test_pages_with_live_links_pass(tmp_path: Path) -> None:
    assert walk(tmp_path, GOOD) == (0, f"{tmp_path}: 2 pages, faults: 0\n")


@pytest.mark.parametrize("trouble", TROUBLES)
def test_whatever_is_dead_or_outside_is_named(trouble: str, tmp_path: Path) -> None:
    code, said = walk(tmp_path, GOOD + trouble)
    assert code == 1
    assert f"a.html: {TROUBLES[trouble]}" in said


def test_a_style_sheet_that_asks_outside_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.css").write_text("@import url(https://fonts.example/f);", encoding="utf-8")
    assert "x.css: loads https://fonts.example/f" in walk(tmp_path, GOOD)[1]


def test_nothing_built_is_a_complaint(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.site.walk", tmp_path], cwd=ROOT, capture_output=True, timeout=60
    )
    assert done.returncode == 1
    assert b"0 pages" in done.stdout


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "gone.md").write_text("# A page whose source is gone\n", encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "tools.site.staging", folder], cwd=ROOT, check=True, capture_output=True, timeout=240
    )
    return folder


@nightly
def test_every_lesson_and_text_is_on_the_list_of_pages(laid: Path) -> None:
    listed = re.split(r"[\n<>]", (laid / "contents.md").read_text(encoding="utf-8"))
    texts = [source.relative_to(ROOT).as_posix() for source in (ROOT / "docs").rglob("*.md")]
    assert len(texts) > 14
    assert {*LESSONS, *texts, "notebooks/glossary.md"} <= set(listed)
    assert all((laid / page).is_file() for page in [*LESSONS, *texts])
    assert not (laid / "gone.md").exists()


@nightly
def test_a_link_to_a_file_leads_to_a_page_that_shows_it(laid: Path) -> None:
    assert "](../scripts/by_hand.py.md)" in (laid / "docs" / "where.md").read_text(encoding="utf-8")
    assert (ROOT / "scripts" / "by_hand.py").read_text() in (laid / "scripts" / "by_hand.py.md").read_text()


@nightly
def test_the_reference_has_every_exercise_with_its_task_and_the_names_of_the_front_door(laid: Path) -> None:
    exercises, names = ((laid / "api" / f"{part}.md").read_text(encoding="utf-8") for part in ("check", "run"))
    assert ".. py:function:: ddp_lessons.check.swap(answer, *, on=None)\n\n   Check `" in exercises
    assert ".. autofunction:: ddp_lessons.launch\n" in names
    assert ".. autoexception:: ddp_lessons.WorkersStuck\n" in names


def read(lesson: Path) -> Any:
    return nbformat.read(lesson, as_version=4).cells  # type: ignore[no-untyped-call]


@nightly
@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_keeps_its_cells_and_outputs(lesson: str, laid: Path) -> None:
    for cell, other in zip(read(ROOT / lesson), read(laid / lesson), strict=True):
        if cell.cell_type != "code" or "quiz.questions(" in cell.source:
            continue
        assert cell.source == other.source
        shown_outputs = other.outputs[: -1 if HAS_CONTROLS.search(cell.source) else None]
        for output, shown in zip(cell.outputs, shown_outputs, strict=True):
            if still := output.get("data", {}).get(FIGURE):
                assert list(shown.data) == ["text/html"]
                assert svg_in(shown.data["text/html"]) == living_svg_in(still)
            else:
                assert output == shown


def new_lesson(*cells: tuple[str, str]) -> Any:
    make: Any = nbformat.v4
    shown = [make.new_output("stream", text="shown\n")]
    return make.new_notebook(
        cells=[
            make.new_code_cell(source, outputs=list(shown)) if kind == "code" else make.new_markdown_cell(source)
            for kind, source in cells
        ]
    )


def test_outputs_are_folded_only_where_a_prediction_is_asked() -> None:
    lesson = new_lesson(
        ("text", "# One"),
        ("code", "shown"),
        ("text", "**Predict.** What comes?"),
        ("code", "folded, since the text before asks"),
        ("code", "folded, since no text has answered it"),
        ("text", "**Predict.** And now?\n\n**Why.** It is over."),
        ("code", "shown, since this text has answered it"),
        ("text", "**Predict.** And here?\n\n## The next section"),
        ("code", "shown, since another section has begun"),
        ("code", "folded  # Predict: what does this print?"),
    )
    for cell in lesson_page(lesson, "01_one.ipynb").cells:
        if cell.cell_type == "code":
            assert cell.source.startswith("folded") == ("hide-output" in cell.metadata.get("tags", []))


def test_a_page_asks_its_quiz_and_for_no_cell_to_be_run_and_says_where_controls_are_missing() -> None:
    lesson = new_lesson(
        ("text", "## Quiz\n\nRun the next cell and choose."),
        ("code", "show.explore_scaling(formulas)"),
        ("code", "show.ring(ring_all_reduce)"),
        ("code", "show.timeline(results)  # as show.explore_scaling( would"),
        ("code", "from ddp_lessons import quiz\n\nquiz.questions(3)"),
    )
    text, *cells, quiz = lesson_page(lesson, "01_one.ipynb").cells
    assert "Choose an answer to each question." in text.source
    assert "Run the next cell" not in text.source
    assert ["has controls" in str(cell.outputs[-1]) for cell in cells] == [True, False, False]
    assert [output.data for output in quiz.outputs] == [{"text/html": as_interactive_page(3, questions_of(3))}]


@nightly
def test_the_first_page_has_what_readme_says_and_a_figure_that_plays_a_run_that_adds_up() -> None:
    page: Any = first_page()
    assert page["commands"].splitlines() == ["git clone <this repository> && cd ddp-lessons", "make lab"]
    cards = [card for part in page["parts"] for card in part["cards"]]
    assert [f"{card['page']}.ipynb" for card in cards] == LESSONS
    for number, card in enumerate(cards):
        opening = read(ROOT / f"{card['page']}.ipynb")[0].source
        assert f"**Time:** {card['minutes']} minutes" in opening
        assert title_of(LESSONS[number]).startswith(card["title"])
        assert card["number"] == str(number)
        assert card["aim"]
    figure = svg_in(page["figure"])
    assert 'data-plays="True"' in figure
    assert "Step 6 of 6" in figure
    assert all(f">{total}</text>" in figure for total in (1111, 2222, 3333, 4444))
