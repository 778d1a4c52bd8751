"""What is on a slide, and what is for the speaker. That nothing leaves the page is looked at in the browser."""

from __future__ import annotations

import html
import re
from typing import Any

import nbformat
import pytest

from ddp_lessons import show
from ddp_lessons.quiz.question import questions_of
from tools.site.lesson_pages import LESSONS, read_lesson
from tools.site.slides import Slide, slides_of

make: Any = nbformat.v4
TITLE = ("text", "# Title\n\nText.")


def deck(*cells: tuple[str, str], outputs: Any = None) -> list[Slide]:
    shown = [make.new_output("stream", text="shown\n")] if outputs is None else outputs
    code = {"code": lambda source: make.new_code_cell(source, outputs=shown), "text": make.new_markdown_cell}
    return slides_of(make.new_notebook(cells=[code[kind](source) for kind, source in cells]))


def words(block: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", block)).strip()


def kinds(slide: Slide) -> list[str]:
    return [block.split('"')[1].split()[0] for block in slide.blocks]


def test_a_program_is_shown_with_its_question_and_the_prose_is_for_the_speaker() -> None:
    first, second = deck(
        ("text", "# Title\n\n**You will:** see.\n\n## Next\n\nA story. It is long."),
        ("text", "More of it.\n\n**Predict.** What comes?"),
        ("code", "import torch\nfrom ddp_lessons import launch\n\nprint(launch)"),
        ("text", "**Why.** Because."),
    )
    assert (first.title, list(map(words, first.blocks))) == ("Title", ["You will: see."])
    assert (second.title, list(map(words, second.blocks))) == (
        "Next",
        ["Predict. What comes?", "print(launch)", "shown"],
    )
    assert ["fragment" in block for block in second.blocks] == [False, False, True]
    assert second.notes == "A story. It is long.\n\nMore of it.\n\n**Predict.** What comes?\n\n**Why.** Because."


@pytest.mark.parametrize(
    ("source", "printed", "shown"),
    [
        ("import torch\n\nfrom ddp_lessons import show", "", []),
        ("import os\n\nos.chdir('/tmp')", "", []),
        ("%%writefile hello.py\nprint('hello')", "Writing hello.py\n", ["highlight"]),
        ("check.swap(swap)", "right\n", ["highlight"]),
        ("import os\n\nprint(1)", "1\n", ["highlight", "output"]),
    ],
)
def test_a_cell_that_only_prepares_and_what_a_room_need_not_see_is_left_out(
    source: str, printed: str, shown: list[str]
) -> None:
    outputs = [make.new_output("stream", text=printed)] if printed else []
    slides = deck(TITLE, ("code", source), outputs=outputs)
    assert [kind for slide in slides for kind in kinds(slide) if kind != "lead"] == shown


def test_lists_and_tables_are_shown_and_other_prose_is_not() -> None:
    slides = deck(
        TITLE, ("text", "## Summary\n\nProse.\n\n- one\n- two\n\n| a |\n|---|\n| b |\n\n```\n# no heading\n```")
    )
    assert [kinds(slide) for slide in slides] == [["lead"], ["points"], ["table"]]
    assert [slide.title for slide in slides] == ["Title", "Summary", "Summary"]
    assert slides[1].notes == "Prose.\n\n- one\n- two"
    assert "# no heading" in slides[2].notes


def test_each_question_of_a_quiz_has_a_slide_and_the_answer_is_in_its_notes() -> None:
    questions = questions_of(2)
    for number, (slide, question) in enumerate(
        zip(deck(TITLE, ("code", "quiz.questions(2)"))[1:], questions, strict=True)
    ):
        assert slide.title == f"Question {number + 1} of {len(questions)}"
        assert slide.blocks[-1].count("<li>") == len(question.choices)
        assert question.choices[question.right].why in slide.notes


def test_each_figure_has_a_slide_and_what_was_printed_is_not_the_words_that_stand_for_it() -> None:
    bundles = [shown._repr_mimebundle_() for shown in (show.terminal("a < b\nnext", "In a terminal"),)]
    bundles += [show.distance({"a <b>": [1e-9]})._repr_mimebundle_()] * 2
    outputs = [make.new_output("display_data", data, metadata=about) for data, about in bundles]
    _, first, second = deck(TITLE, ("code", "show"), outputs=outputs)
    assert (kinds(first), kinds(second)) == (["highlight", "output", "picture"], ["picture"])
    assert words(first.blocks[-2]).endswith("a < b\nnext")
    assert all("data:image/svg+xml;base64," in slide.blocks[-1] for slide in (first, second))


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_has_slides_with_titles_and_every_line_of_code_but_imports(lesson: str) -> None:
    slides = slides_of(read_lesson(lesson))
    assert len(slides) > 15
    assert all(slide.title and slide.blocks for slide in slides)
    shown = "\n".join(words(block) for slide in slides for block in slide.blocks)
    for cell in read_lesson(lesson).cells:
        if cell.cell_type == "code" and cell.outputs and "quiz.questions(" not in cell.source:
            assert cell.source.strip().splitlines()[-1].strip() in shown
