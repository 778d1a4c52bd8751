"""Answers written by a reader who knew only the lessons, none of the checks: right ones pass, wrong ones do not."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from banks import name_of
from nights import nightly

from ddp_lessons import check

pytestmark = [pytest.mark.no_second_try, nightly]

EXERCISES = sorted(file.stem for file in (Path(__file__).parent / "fresh_answers").glob("*.py"))


def answers(exercise: str, bank: str) -> list[Any]:
    """With what its writer says of it."""
    return list(getattr(importlib.import_module(f"fresh_answers.{exercise}"), bank))


def cases(bank: str) -> list[Any]:
    return [
        pytest.param(exercise, answer, id=f"{exercise}-{name_of(answer)[:60]}")
        for exercise in EXERCISES
        for answer, *_ in answers(exercise, bank)
    ]


@pytest.mark.parametrize(("exercise", "answer"), cases("RIGHT"))
def test_right_answers_pass(exercise: str, answer: Any) -> None:
    report = getattr(check, exercise)(answer)
    assert report.passed, report.text


@pytest.mark.parametrize(("exercise", "answer"), cases("WRONG"))
def test_wrong_answers_are_refused_with_a_reason(exercise: str, answer: Any) -> None:
    report = getattr(check, exercise)(answer)
    assert not report.passed
    assert report.mistake.endswith(".") or "not started yet" in report.text
