"""check.all_gather_by_hand against its bank."""

from __future__ import annotations

import pytest
from all_gather_answers import HANGING, RIGHT, WRONG
from banks import assert_accepts, assert_refuses, assert_refuses_as_stuck, hanging, name_of, right, wrong

from ddp_lessons import check
from ddp_lessons.train.collectives_by_hand import all_gather_by_hand


@pytest.mark.parametrize("answer", right(all_gather_by_hand, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.all_gather_by_hand, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.all_gather_by_hand, answer, sentence)


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.all_gather_by_hand, answer, sentence)
