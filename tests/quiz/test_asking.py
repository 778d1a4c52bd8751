"""What a learner sees of the questions: as text, as a page, and what its script asks; and what is said to an answer."""

from __future__ import annotations

import html.parser
import json
import re
import subprocess
import sys
from typing import Any

import pytest
from notebook_session import NotebookSession

from ddp_lessons import quiz
from ddp_lessons.quiz.question import FILES, questions_of
from ddp_lessons.quiz.question_text import as_document, as_interactive_page, as_page, marked_up

ASKED = questions_of(0)
RIGHT, WRONG = "cbadc", "abbaa"  # of lesson 0

LAST = len(FILES) - 1


def test_the_right_choice_is_said_to_be_right_with_its_reason() -> None:
    for number, letter in enumerate(RIGHT, 1):
        said = quiz.answer(0, question=number, choice=letter)
        assert said.right
        assert repr(said) == f"{letter}) is right. {ASKED[number - 1].choices[letter].why}"


def test_a_wrong_choice_is_told_its_misconception_and_where_to_look_and_may_be_tried_again() -> None:
    first = quiz.answer(0, question=1, choice="a")
    assert not first.right
    assert "Ranks are processes" in first.text
    assert first.text.endswith('Look again at "Change a variable in every process", and try another choice.')
    assert quiz.answer(0, question=1, choice="c").right


@pytest.mark.parametrize("choice", ["C", "c)", " c ", "c."])
def test_a_letter_may_be_written_as_one_likes(choice: str) -> None:
    assert quiz.answer(0, question=1, choice=choice).right


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((99, 1, "a"), f"there is no lesson 99: give its number, 0 to {LAST}"),
        (("3", 1, "a"), f"there is no lesson '3': give its number, 0 to {LAST}"),
        ((-1, 1, "a"), f"there is no lesson -1: give its number, 0 to {LAST}"),
        ((True, 1, "a"), f"there is no lesson True: give its number, 0 to {LAST}"),
        ((0, 0, "a"), "lesson 0 has no question 0: give its number, 1 to 5"),
        ((0, 6, "a"), "lesson 0 has no question 6: give its number, 1 to 5"),
        ((0, "1", "a"), "lesson 0 has no question '1': give its number, 1 to 5"),
        ((0, 2, "e"), "question 2 has no choice 'e': give one of a, b, c, d"),
        ((0, 2, ""), "question 2 has no choice '': give one of a, b, c, d"),
        ((0, 2, 1), "question 2 has no choice 1: give one of a, b, c, d"),
        ((0, 2, "45.0"), "question 2 has no choice '45.0': give one of a, b, c, d"),
    ],
)
def test_what_there_is_not_is_named(arguments: tuple[Any, Any, Any], said: str) -> None:
    with pytest.raises(ValueError, match=r"there is no|has no") as raised:
        quiz.answer(*arguments)
    assert str(raised.value) == said


def test_without_widgets_the_questions_stand_there_with_letters() -> None:
    text = repr(quiz.questions(0))
    assert text.startswith("Lesson 0: 5 questions.\n")
    assert all(f"\n{number}. " in text for number in range(1, 6))
    assert text.count("\n   c) ") == 5
    assert "\n   c) `[]`\n" in text
    assert "\n       def f(rank, world_size):\n           box.append(rank)\n" in text
    assert text.endswith('quiz.answer(0, question=1, choice="b")')
    assert max(map(len, text.splitlines())) <= 100


def test_the_page_is_well_formed_and_folds_what_is_said_to_each_choice() -> None:
    class Reader(html.parser.HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []
            self.folded: list[str] = []

        def handle_starttag(self, tag: str, attrs: Any) -> None:
            self.open.append(tag)
            if tag == "details":
                self.folded.append("")

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

        def handle_data(self, data: str) -> None:
            if "details" in self.open:
                self.folded[-1] += data

    for lesson in range(len(FILES)):
        reader = Reader()
        reader.feed(as_page(lesson, questions_of(lesson)))
        assert reader.open == []
        choices = [(one, letter) for one in questions_of(lesson) for letter in one.choices]
        told = [f"{letter}) {one.choices[letter].choice}{one.verdict(letter)}" for one, letter in choices]
        assert reader.folded == [text.replace("`", "") for text in told]


def test_signs_of_html_in_a_question_are_text() -> None:
    assert marked_up("a < b & `c > d`") == "a &lt; b &amp; <code>c &gt; d</code>"


def test_every_answer_travels_with_the_questions_as_plain_data() -> None:
    for lesson in range(len(FILES)):
        asked = questions_of(lesson)
        for shown, one in zip(as_document(lesson, asked)["questions"], asked, strict=True):
            assert [choice["letter"] for choice in shown["choices"] if choice["is_right"]] == [one.right]
            for choice in shown["choices"]:
                told = one.choices[choice["letter"]]
                end = f"{told.why}" if choice["is_right"] else f'{told.why} Look again at "{one.section}".'
                assert choice["text"] == told.choice
                assert choice["said"].endswith(end)


OF_THE_SCRIPT = re.compile(r"<(style|script) data-ddp[^>]*>(.*?)</\1>", re.DOTALL)


def test_a_notebook_shows_choices_to_press_and_stores_a_page_and_its_text() -> None:
    with NotebookSession() as session:
        (shown,) = session.run("from ddp_lessons import quiz; quiz.questions(0)").displays
    assert shown == {"text/html": as_interactive_page(0, ASKED), "text/plain": repr(quiz.questions(0))}
    for lesson in range(len(FILES)):
        page = as_interactive_page(lesson, questions_of(lesson))
        (_, data), *_ = OF_THE_SCRIPT.findall(page)
        assert json.loads(data) == as_document(lesson, questions_of(lesson))
        assert OF_THE_SCRIPT.sub("", page) == as_page(lesson, questions_of(lesson))


@pytest.mark.parametrize("heavy", ["torch", "matplotlib", "ipywidgets", "IPython", "numpy"])
def test_to_ask_needs_nothing_heavy(heavy: str) -> None:
    code = f"import sys; from ddp_lessons import quiz; repr(quiz.questions(9)); sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
