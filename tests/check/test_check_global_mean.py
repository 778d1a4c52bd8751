"""check.global_mean against its bank."""

from __future__ import annotations

import pytest
from banks import assert_accepts, assert_refuses, assert_refuses_as_stuck, hanging, name_of, right, wrong
from mean_answers import HANGING, RIGHT, WRONG

from ddp_lessons import check
from ddp_lessons.train.averages import global_mean


@pytest.mark.parametrize("answer", right(global_mean, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.global_mean, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.global_mean, answer, sentence)


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.global_mean, answer, sentence)
