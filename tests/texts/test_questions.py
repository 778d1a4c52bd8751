"""Every question holds what it promises: a reason behind each wrong choice, a place to look, a program that does so."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path

from every import every

from ddp_lessons.quiz.question import FILES, Question, questions_of

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9][0-9]_*.ipynb"))
LESSONS = range(len(FILES))
ALL = [(lesson, number, one) for lesson in LESSONS for number, one in enumerate(questions_of(lesson), 1)]
every_lesson = every(LESSONS)
every_question = every([one for _, _, one in ALL], lambda one: one.text)


def cells_of(lesson: int, kind: str) -> list[str]:
    cells = json.loads(NOTEBOOKS[lesson].read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


@every_lesson
def test_a_lesson_asks_five_to_seven_different_questions_just_before_its_end(lesson: int) -> None:
    asked = questions_of(lesson)
    assert 5 <= len(asked) <= 7
    assert [text for text, count in Counter(one.text for one in asked).items() if count > 1] == []
    cells = json.loads(NOTEBOOKS[lesson].read_text(encoding="utf-8"))["cells"][-3:]
    heading, shown, closing = ["".join(cell["source"]) for cell in cells]
    assert heading.startswith("## Quiz\n")
    assert shown.endswith(f"quiz.questions({lesson})")
    assert closing.startswith("## Summary\n")


@every_question
def test_each_wrong_choice_has_a_misconception_of_its_own(question: Question) -> None:
    assert "".join(question.choices) in ("abc", "abcd")
    assert question.right in question.choices
    assert len({one.choice for one in question.choices.values()}) == len(question.choices)
    assert len({one.why for one in question.choices.values()}) == len(question.choices)
    for letter, one in question.choices.items():  # who explains needs some words
        assert len(one.why.split()) >= (8 if letter == question.right else 12)


@every_question
def test_the_right_choice_is_not_known_by_its_length(question: Question) -> None:
    wrong = [len(one.choice) for letter, one in question.choices.items() if letter != question.right]
    shortest, longest = min(wrong), max(wrong)
    least, most = math.ceil(0.5 * shortest), max(int(1.5 * longest), longest + 8)
    letters = len(question.choices[question.right].choice)
    assert least <= letters <= most, f"the right choice has {letters} letters: beside these others, {least} to {most}"
    assert [one.choice for one in question.choices.values() if len(one.choice) > 75] == []


@every_question
def test_code_is_marked_on_both_sides_and_fits_a_narrow_window(question: Question) -> None:
    said = [question.text, *(text for one in question.choices.values() for text in (one.choice, one.why))]
    assert all(text.count("`") % 2 == 0 and text.replace("\u00d7", "").isascii() for text in said)
    assert all(len(line) <= 72 for line in question.program.splitlines())


def test_every_lesson_has_questions_and_the_right_letters_are_spread() -> None:
    assert len(FILES) == len(NOTEBOOKS)
    count = Counter(one.right for _, _, one in ALL)
    assert all(0.2 * len(ALL) <= count[letter] <= 0.3 * len(ALL) for letter in "abcd")
    for lesson in LESSONS:
        letters = [one.right for one in questions_of(lesson)]
        assert len(set(letters)) >= 3
        assert not re.search(r"(.)\1\1", "".join(letters))

    def is_longest(question: Question) -> bool:
        right = question.choices[question.right]
        return all(len(right.choice) > len(one.choice) for one in question.choices.values() if one is not right)

    assert sum(is_longest(one) for _, _, one in ALL) <= 0.3 * len(ALL)  # one of four is what chance would give


@every_lesson
def test_where_to_look_is_a_section_of_the_lesson(lesson: int) -> None:
    text = "\n".join(cells_of(lesson, "markdown"))
    headings = set(re.findall(r"^#+ (.*)$", text, re.M))
    assert {one.section for one in questions_of(lesson)} <= headings
