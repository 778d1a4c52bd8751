"""check.sum_of_half against its bank."""

from __future__ import annotations

import pytest
from banks import assert_accepts, assert_refuses, assert_refuses_as_stuck, hanging, name_of, right, wrong
from half_answers import HANGING, RIGHT, WRONG

from ddp_lessons import check
from ddp_lessons.train.groups import sum_of_half


@pytest.mark.parametrize("answer", right(sum_of_half, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.sum_of_half, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.sum_of_half, answer, sentence)


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.sum_of_half, answer, sentence)
