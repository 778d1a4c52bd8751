"""Hold a check to a bank of right and wrong answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from nights import by_day

from ddp_lessons.check import Report
from ddp_lessons.check.judging import examination

Check = Callable[[Any], Report]


def right(*answers: object) -> list[Any]:
    return by_day(answers, 1)


def wrong(answers: list[Any]) -> list[Any]:
    return by_day(answers, 3)


def hanging(answers: list[Any]) -> list[Any]:
    return by_day(answers, 1)


def name_of(answer: object) -> str:
    return getattr(answer, "__name__", None) or (answer if isinstance(answer, str) else type(answer).__name__)


def assert_accepts(check: Check, answer: object) -> None:
    report = check(answer)
    assert report.passed, report.text
    assert report.verdict == "passed"
    assert "right for" in report.text
    assert not report.mistake


def assert_reports_the_same(check: Check, answer: object, runs: int = 3) -> None:
    """But for the next step, which mentions the hints from the third try on."""
    reports = [check(answer) for _ in range(runs)]
    assert len({(report.verdict, report.mistake, report.details) for report in reports}) == 1


def assert_refuses(check: Check, answer: object, sentence: str) -> Report:
    report = check(answer)
    assert not report.passed
    # in the middle of a longer sentence it begins with a small letter
    assert sentence.lower() in report.mistake.lower(), report.text
    assert report.mistake in report.text
    assert report.mistake.endswith(".")
    assert all(len(line) < 250 for line in report.text.split("\n"))
    return report


def assert_refuses_as_stuck(check: Check, answer: object, sentence: str) -> None:
    """With less patience: a right answer needs milliseconds, and nobody wants to wait for so many hangs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examination, "PATIENCE_SECONDS", 3.0)
        assert_refuses(check, answer, sentence)
