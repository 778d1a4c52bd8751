"""Hold a check to a bank of right and wrong answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from effort import EVERYTHING

from ddp_lessons.check import Report
from ddp_lessons.check.judging import examination
from ddp_lessons.check.judging.exercise import Exercise

Check = Callable[[Any], Report]


def name_of(answer: object) -> str:
    return getattr(answer, "__name__", None) or (answer if isinstance(answer, str) else type(answer).__name__)


def assert_accepts(check: Check, answer: object) -> None:
    """Usually on few ranks: the answers of the package itself, tried with the lessons, meet all numbers of them."""
    with pytest.MonkeyPatch.context() as patch:
        if not EVERYTHING:
            on_few_ranks(patch)
        report = check(answer)
    assert report.passed, report.text
    assert report.verdict == "passed"
    assert "right for" in report.text
    assert not report.mistake


def assert_reports_the_same(check: Check, answer: object, runs: int = 3) -> None:
    """But for the next step, which mentions the hints from the third try on."""
    reports = [check(answer) for _ in range(runs)]
    assert len({(report.verdict, report.mistake, report.details) for report in reports}) == 1


def on_few_ranks(patch: pytest.MonkeyPatch) -> None:
    kinds = [Exercise]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if "world_sizes" in vars(kind):
            first, *others = kind.world_sizes
            patch.setattr(kind, "world_sizes", (first, *(size for size in others if size < 4)))


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
