"""Assignments for courses that grade: `must_pass` is the one line of each test, and the modules write the notebooks."""

from __future__ import annotations

import contextlib
import inspect
import io

__all__ = ["must_pass"]


def must_pass(exercise: str, *answer: object, **arguments: object) -> None:
    """Raise an AssertionError with the report of `check.<exercise>` unless this answer passes and is the learner's own.

    Nothing is printed: nbgrader gives no points for a cell that wrote to stderr, and Otter none for a test that printed
    something. The learner's progress file is left alone, because on the instructor's machine it is the instructor's.
    """
    from ddp_lessons import check
    from ddp_lessons.check.dashboard import is_the_learners
    from ddp_lessons.check.exercise import Exercise

    checked = getattr(check, exercise)
    judge = checked.judged if isinstance(checked, Exercise) else inspect.unwrap(checked)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        report = judge(*answer, **arguments)
    if not report.passed:
        raise AssertionError(report.text)
    if not is_the_learners(answer[0]):
        raise AssertionError(f"check.{exercise}: this is the course's own solution. Write your own.")
