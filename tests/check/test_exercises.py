"""Every exercise: each of its mistakes gets its sentence, right answers in other styles pass, wrong ones do not."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from nights import nightly

from ddp_lessons import check
from ddp_lessons.check.exercise import Exercise, Mistake
from ddp_lessons.check.exercises import every

pytestmark = pytest.mark.no_second_try

ANSWERS = [
    importlib.import_module(f"answers.{file.stem}")
    for file in sorted((Path(__file__).parent / "answers").glob("[a-z]*.py"))
]
RIGHT: dict[str, list[Any]] = {name: answers for module in ANSWERS for name, answers in module.RIGHT.items()}
WRONG: dict[str, list[Any]] = {name: answers for module in ANSWERS for name, answers in module.WRONG.items()}


def cases(bank: dict[str, list[Any]], by_day: int) -> list[Any]:
    """With so many of each exercise by day, and all at night."""
    return [
        pytest.param(exercise, answer, id=f"{exercise}-{place}", marks=[nightly] if place >= by_day else [])
        for exercise, answers in bank.items()
        for place, answer in enumerate(answers)
    ]


MISTAKES = [
    pytest.param(exercise, mistake, id=f"{name}-{place}", marks=[nightly] if place >= 3 else [])
    for name, exercise in every().items()
    for place, mistake in enumerate(exercise.mistakes)
]


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES)
def test_a_mistake_deserves_its_sentence(exercise: Exercise, mistake: Mistake) -> None:
    report = exercise(exercise.as_answer(mistake.program))
    assert not report.passed
    # after "It works for ... but fails for ...:" it begins with a small letter
    words = re.escape(mistake.sentence[1:]).replace(r"\{rank\}", r"\d+")
    assert re.search(words, report.mistake), report.text


@pytest.mark.parametrize("exercise", every().values(), ids=every())
def test_the_solution_passes(exercise: Exercise) -> None:
    report = exercise(exercise.as_answer(exercise.solution))
    assert report.passed, report.text


@pytest.mark.parametrize(("exercise", "answer"), cases(RIGHT, 1))
def test_right_answers_pass(exercise: str, answer: Any) -> None:
    report = getattr(check, exercise)(answer)
    assert report.passed, report.text


@pytest.mark.parametrize(("exercise", "wrong"), cases(WRONG, 2))
def test_wrong_answers_are_refused_with_their_reason(exercise: str, wrong: tuple[Any, str]) -> None:
    answer, words = wrong
    report = getattr(check, exercise)(answer)
    assert report.verdict == "not right yet", report.text
    assert re.search(words, report.mistake, re.IGNORECASE), report.text


@pytest.mark.parametrize("exercise", every().values(), ids=every())
def test_an_exercise_has_a_task_answers_and_few_mistakes(exercise: Exercise) -> None:
    assert exercise.task.startswith("Check ")
    assert len(exercise.mistakes) <= 8
    assert len(RIGHT[exercise.name]) >= 2
    assert WRONG[exercise.name]
