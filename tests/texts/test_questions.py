"""Every question holds what it promises: a reason behind each wrong choice, a place to look, a program that does so."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path

import pytest
from every import every

from ddp_lessons.quiz.bank import MODULES, questions_of
from ddp_lessons.quiz.question import LETTERS, Question

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9][0-9]_*.ipynb"))
LESSONS = range(len(MODULES))
ALL = [(lesson, number, one) for lesson in LESSONS for number, one in enumerate(questions_of(lesson), 1)]
every_lesson = every(LESSONS)
every_question = every([one for _, _, one in ALL], lambda one: one.text)


def cells_of(lesson: int, kind: str) -> list[str]:
    cells = json.loads(NOTEBOOKS[lesson].read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def test_every_lesson_has_questions() -> None:
    assert len(MODULES) == len(NOTEBOOKS)


@every_lesson
def test_a_lesson_asks_five_to_seven_different_questions_just_before_its_end(lesson: int) -> None:
    asked = questions_of(lesson)
    assert 5 <= len(asked) <= 7
    assert [text for text, count in Counter(one.text for one in asked).items() if count > 1] == []
    cells = json.loads(NOTEBOOKS[lesson].read_text(encoding="utf-8"))["cells"][-3:]
    heading, shown, closing = ["".join(cell["source"]) for cell in cells]
    assert heading.startswith("## Do you know it?\n")
    assert shown.endswith(f"quiz.questions({lesson})")
    assert closing.startswith("## What you have now\n")


@every_question
def test_each_wrong_choice_has_a_misconception_of_its_own(question: Question) -> None:
    assert 2 <= len(question.wrong) <= 3
    assert question.right not in question.wrong
    assert len(set(question.wrong.values())) == len(question.wrong)
    assert all(len(why.split()) >= 12 for why in question.wrong.values())  # who explains needs some words
    assert len(question.why.split()) >= 8


@every_question
def test_the_right_choice_is_not_known_by_its_length(question: Question) -> None:
    shortest, longest = min(map(len, question.wrong)), max(map(len, question.wrong))
    least, most = math.ceil(0.5 * shortest), max(int(1.5 * longest), longest + 8)
    letters = len(question.right)
    assert least <= letters <= most, f"the right choice has {letters} letters: beside these others, {least} to {most}"
    assert [choice for choice in question.choices.values() if len(choice) > 75] == []


@every_question
def test_code_is_marked_on_both_sides_and_fits_a_narrow_window(question: Question) -> None:
    said = [question.text, question.why, *question.choices.values(), *question.wrong.values()]
    assert all(text.count("`") % 2 == 0 and text.isascii() for text in said)
    assert all(len(line) <= 72 for line in (question.program.text.splitlines() if question.program else []))


def test_the_right_letters_are_spread() -> None:
    count = Counter(one.letter for _, _, one in ALL)
    assert all(0.2 * len(ALL) <= count[letter] <= 0.3 * len(ALL) for letter in LETTERS)
    for lesson in LESSONS:
        letters = [one.letter for one in questions_of(lesson)]
        assert len(set(letters)) >= 3
        assert not re.search(r"(.)\1\1", "".join(letters))
    longest = sum(len(one.right) > max(map(len, one.wrong)) for _, _, one in ALL)
    assert longest <= 0.3 * len(ALL)  # one of four is what chance would give


def test_a_letter_without_a_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="with 2 wrong choices the right one cannot be d: 'Which'"):
        Question("Which", "this", "d", "so", {"that": "no", "those": "no"}, "here")


@every_lesson
def test_where_to_look_is_a_section_of_the_lesson(lesson: int) -> None:
    text = "\n".join(cells_of(lesson, "markdown"))
    headings = set(re.findall(r"^#+ (.*)$", text, re.M))
    assert {one.look_at for one in questions_of(lesson)} <= headings
