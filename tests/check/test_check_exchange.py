"""check.exchange against its bank."""

from __future__ import annotations

import pytest
from banks import assert_accepts, assert_refuses, assert_refuses_as_stuck, hanging, name_of, right, wrong
from exchange_answers import HANGING, RIGHT, WRONG

from ddp_lessons import check
from ddp_lessons.train.point_to_point import exchange


@pytest.mark.parametrize("answer", right(exchange, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.exchange, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.exchange, answer, sentence)


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.exchange, answer, sentence)
