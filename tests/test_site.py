"""What makes the site and the slides: each trouble is made once, on purpose, and has to be seen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from figure_catalog import svg_in
from nights import nightly

from ddp_lessons import show
from ddp_lessons.quiz.question import questions_of
from ddp_lessons.quiz.question_text import as_interactive_page
from ddp_lessons.show.figures.figure import living_svg_in

ROOT = Path(__file__).parent.parent
SITE = ROOT / "site"
sys.path.append(str(SITE))
from committed import source_of  # noqa: E402
from lesson_pages import HAS_CONTROLS, page_of  # noqa: E402
from living import bring_to_life  # noqa: E402
from slide_deck import blocks_of  # noqa: E402

LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
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
    subprocess.run([sys.executable, SITE / "staging.py", folder], check=True, capture_output=True, timeout=240)
    return folder


@nightly
@nightly
def test_every_lesson_and_text_is_on_the_list_of_pages(laid: Path) -> None:
    listed = (laid / "contents.md").read_text(encoding="utf-8")
    sources = [*(ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"), *(ROOT / "docs").rglob("*.md")]
    assert len(sources) > 14
    for source in sources:
        assert f"<{source.relative_to(ROOT).as_posix()}>" in listed
    assert not (laid / "gone.md").exists()


@nightly
def test_a_link_to_a_file_leads_to_a_page_that_shows_it(laid: Path) -> None:
    assert "](../scripts/by_hand.py.md)" in (laid / "docs" / "where.md").read_text(encoding="utf-8")
    assert (ROOT / "scripts" / "by_hand.py").read_text() in (laid / "scripts" / "by_hand.py.md").read_text()


def committed(lesson: Path) -> Any:
    asked = ["git", "show", f"HEAD:./notebooks/{lesson.name}"]
    text = subprocess.run(asked, cwd=ROOT, capture_output=True, encoding="utf-8", check=True).stdout
    return nbformat.reads(text, as_version=4).cells  # type: ignore[no-untyped-call]


@nightly
def test_lessons_keep_their_cells_and_outputs(laid: Path) -> None:
    for lesson in LESSONS:
        theirs = nbformat.read(laid / "notebooks" / lesson.name, 4).cells  # type: ignore[no-untyped-call]
        ours = committed(lesson)
        for cell, other in zip(ours, theirs, strict=True):
            if "quiz.questions(" in cell.source:
                continue
            shown_outputs = other.get("outputs", [])[: -1 if HAS_CONTROLS.search(cell.source) else None]
            pairs = list(zip(cell.get("outputs", []), shown_outputs, strict=True))
            assert all(output == shown for output, shown in pairs if STILL not in output.get("data", {}))
            stills = [(output.data[STILL], shown.data) for output, shown in pairs if STILL in output.get("data", {})]
            for still, shown in stills:
                assert list(shown) == ["text/html"]
                assert svg_in(shown["text/html"]) == living_svg_in(still)
        assert [cell.source for cell in ours if cell.cell_type == "code"] == [
            cell.source for cell in theirs if cell.cell_type == "code"
        ]


def cell_of(shown: show.Chart | show.Printed | show.Figure) -> Any:
    data, about = shown._repr_mimebundle_()
    make: Any = nbformat.v4
    return make.new_code_cell("show", outputs=[make.new_output("display_data", data, metadata=about)])


def test_a_chart_is_in_a_page_and_on_a_slide() -> None:
    chart = show.distance({"a <b>": [1e-9]})
    page, slide = cell_of(chart), cell_of(chart)
    bring_to_life(page)
    (block,) = blocks_of(slide.outputs)
    assert block.kind == "picture"
    for shown in (page.outputs[0].data["text/html"], block.text):
        assert svg_in(shown) == chart.svg


def test_a_slide_shows_what_was_printed_and_not_the_words_that_stand_for_it() -> None:
    (block,) = blocks_of(cell_of(show.terminal("a < b\nnext", "In a terminal")).outputs)
    assert (block.kind, block.text.split("\n")[-2:]) == ("output", ["a < b", "next"])


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
    for cell in page_of(lesson, "01_one.ipynb").cells:
        if cell.cell_type == "code":
            assert cell.source.startswith("folded") == ("hide-output" in cell.metadata.get("tags", []))


def test_a_quiz_is_asked_in_the_page() -> None:
    lesson = new_lesson(("text", "# One"), ("code", "from ddp_lessons import quiz\n\nquiz.questions(3)"))
    (output,) = page_of(lesson, "03_three.ipynb").cells[1].outputs
    assert output.data == {"text/html": as_interactive_page(3, questions_of(3))}


def test_a_page_asks_for_no_cell_to_be_run_and_says_where_controls_are_missing() -> None:
    lesson = new_lesson(
        ("text", "## Do you know it?\n\nRun the next cell and choose."),
        ("code", "show.explore_scaling(formulas)"),
        ("code", "show.ring(ring_all_reduce)"),
        ("code", "show.timeline(results)  # as show.explore_scaling( would"),
    )
    text, *cells = page_of(lesson, "01_one.ipynb").cells
    assert "Choose an answer to each question." in text.source
    assert "Run the next cell" not in text.source
    assert ["has controls" in str(cell.outputs[-1]) for cell in cells] == [True, False, False]


def test_what_was_run_after_the_last_commit_is_not_shown_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lesson.ipynb").write_text("as committed", encoding="utf-8")
    for command in ("init -q", "add lesson.ipynb", "-c user.name=a -c user.email=a@b.c commit -q -m one"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    (tmp_path / "lesson.ipynb").write_text("as somebody ran it", encoding="utf-8")
    (tmp_path / "new.ipynb").write_text("not committed yet", encoding="utf-8")
    assert source_of("lesson.ipynb", tmp_path) == "as committed"
    assert "lesson.ipynb was changed since the last commit" in capsys.readouterr().err
    assert source_of("new.ipynb", tmp_path) == "not committed yet"
    assert "git has no committed version" in capsys.readouterr().err


@nightly
def test_the_first_page_has_what_readme_and_the_lessons_say(laid: Path) -> None:
    page = json.loads((laid / "first_page.json").read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert page["commands"].splitlines() == ["git clone <this repository> && cd ddp-lessons", "make lab"]
    assert all(f"    {command}\n" in readme for command in page["commands"].splitlines())
    cards = [card for part in page["parts"] for card in part["cards"]]
    assert [card["number"] for card in cards] == list(range(len(LESSONS)))
    for card, lesson in zip(cards, LESSONS, strict=True):
        opening = committed(lesson)[0].source
        assert f"**Time:** {card['minutes']} minutes" in opening
        assert opening.removeprefix("# ").lower().startswith(card["title"].lower())
        assert card["aim"]


@nightly
def test_a_lesson_with_a_stored_figure_has_it_as_its_thumbnail(laid: Path) -> None:
    page = json.loads((laid / "first_page.json").read_text(encoding="utf-8"))
    cards = [card for part in page["parts"] for card in part["cards"]]
    for card, lesson in zip(cards, LESSONS, strict=True):
        has_still = any(
            STILL in output.get("data", {}) for cell in committed(lesson) for output in cell.get("outputs", [])
        )
        assert card["thumbnail"].startswith("<img" if has_still else "<svg")
    assert any(card["thumbnail"].startswith("<img") for card in cards)


@nightly
def test_the_figure_of_the_first_page_plays_a_run_that_adds_up(laid: Path) -> None:
    page = json.loads((laid / "first_page.json").read_text(encoding="utf-8"))
    figure = svg_in(page["figure"])
    assert 'data-plays="True"' in figure
    assert "Step 6 of 6" in figure
    assert all(f">{total}</text>" in figure for total in (1111, 2222, 3333, 4444))
