"""What is on a slide, and what is said beside it. That nothing leaves the page is looked at in the browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nights import nightly

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "site"))
from committed import lessons, read_lesson  # noqa: E402
from slide_blocks import ROOM, SIZES, TITLE, Block, Slide, lay_out  # noqa: E402
from slide_deck import Deck  # noqa: E402

from ddp_lessons.quiz.question import questions_of  # noqa: E402

pytestmark = nightly


def test_the_commands_in_the_folder_find_what_is_not_installed() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "import committed, slide_deck"], cwd=ROOT / "site", capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr


FUNCTION = "def f(x):\n    y = x\n    z = y\n    return z\n\n\n"


def slides_of(*cells: tuple[str, str]) -> list[Slide]:
    make: Any = nbformat.v4
    shown = [make.new_output("stream", text="shown\n")]
    code = {"code": lambda source: make.new_code_cell(source, outputs=shown), "text": make.new_markdown_cell}
    return Deck(make.new_notebook(cells=[code[kind](source) for kind, source in cells])).slides


def kinds(slide: Slide) -> list[str]:
    return [block.kind for block in slide.blocks]


def test_a_program_is_shown_with_its_question_and_the_prose_is_for_the_speaker() -> None:
    first, second = slides_of(
        ("text", "# Title\n\n**You will:** see.\n\n## Next\n\nA story. It is long."),
        ("text", "More of it.\n\n**Predict.** What comes?"),
        ("code", "import torch\nfrom ddp_lessons import launch\n\nprint(launch)"),
        ("text", "**Why.** Because."),
    )
    assert (first.title, [block.text for block in first.blocks]) == ("Title", ["**You will:** see."])
    assert second.title == "Next"
    assert [block.text for block in second.blocks] == ["**Predict.** What comes?", "print(launch)", "shown"]
    assert [block.is_shown_later for block in second.blocks] == [False, False, True]
    assert second.notes == ["A story. It is long.", "More of it.", "**Predict.** What comes?", "**Why.** Because."]


def test_cells_that_only_import_are_left_out() -> None:
    slides = slides_of(("text", "# Title\n\nText."), ("code", "import torch\n\nfrom ddp_lessons import show"))
    assert [kinds(slide) for slide in slides] == [["lead"]]
    for lesson in lessons():
        blocks = [block for slide in Deck(read_lesson(lesson)).slides for block in slide.blocks]
        assert not [block.text for block in blocks if block.kind == "code" and block.text.startswith("import ")]


def test_a_cell_that_only_prepares_and_what_writefile_says_are_left_out() -> None:
    make: Any = nbformat.v4
    said = [make.new_output("stream", text="Writing hello.py\n")]
    cells = [make.new_markdown_cell("# Title\n\nText."), make.new_code_cell("import os\n\nos.chdir('/tmp')")]
    cells.append(make.new_code_cell("%%writefile hello.py\nprint('hello')", outputs=said))
    assert [kinds(slide) for slide in Deck(make.new_notebook(cells=cells)).slides] == [["lead"], ["code"]]


def test_lines_that_would_break_are_set_smaller() -> None:
    (slide,) = lay_out("Title", [Block("code", "x" * 70), Block("code", "x" * 85), Block("code", "x" * 200)], [])
    assert [block.size for block in slide.blocks] == [24, 20, 24]


def test_a_list_is_shown_and_other_prose_is_not() -> None:
    first, second = slides_of(("text", "# Title\n\nText."), ("text", "## What you have now\n\nProse.\n\n- one\n- two"))
    assert kinds(first) == ["lead"]
    assert [block.text for block in second.blocks] == ["- one", "- two"]
    assert second.notes == ["Prose.", "- one\n- two"]


def test_each_question_of_a_quiz_has_a_slide_and_the_answer_is_in_its_notes() -> None:
    slides = slides_of(("text", "# Title\n\nText."), ("code", "quiz.questions(2)"))[1:]
    questions = questions_of(2)
    for number, question in enumerate(questions, 1):
        here = [slide for slide in slides if slide.title == f"Question {number} of {len(questions)}"]
        assert sum(kinds(slide).count("choice") for slide in here) == len(question.choices)
        assert question.choices[question.right].why in here[0].notes[0]


def test_code_that_does_not_fit_is_cut_between_functions_and_never_smaller_than_20_pixels() -> None:
    code = (FUNCTION * 12).rstrip()
    slides = lay_out("Title", [Block("code", code)], ["notes"])
    assert len(slides) > 1
    assert "\n\n\n".join(block.text for slide in slides for block in slide.blocks) == code
    assert all(block.text.startswith("def f") for slide in slides for block in slide.blocks)
    assert [slide.notes for slide in slides] == [["notes"], *[[]] * (len(slides) - 1)]
    assert {block.size for slide in slides for block in slide.blocks} <= set(SIZES) == {24, 20}


@pytest.mark.parametrize("lines", [1, 8, 14, 18, 19, 40])
def test_no_slide_is_planned_fuller_than_it_is(lines: int) -> None:
    blocks = [Block("lead", "word " * 40), Block("code", "x = 1\n" * lines), Block("output", "y\n" * lines)]
    slides = lay_out("A title", blocks, [])
    assert all(slide.room >= 0 for slide in slides)
    assert sum(block.text.count("x = 1") for slide in slides for block in slide.blocks) == lines


def test_a_picture_shares_its_slide_only_with_what_stands_above_it() -> None:
    picture = Block("picture", "<img>")
    slides = lay_out("Title", [Block("lead", "Look."), picture, picture, Block("lead", "So.")], [])
    assert [kinds(slide) for slide in slides] == [["lead", "picture"], ["picture"], ["lead"]]
    assert picture.height < ROOM - TITLE
