"""check.weighted_average against its bank."""

from __future__ import annotations

from typing import Any

import pytest
from banks import assert_accepts, assert_refuses, assert_refuses_as_stuck, hanging, name_of, right, wrong
from weighted_answers import HANGING, RIGHT, STUBS, WRONG, all_count_alike

from ddp_lessons import check
from ddp_lessons.train.gradients import weighted_average


@pytest.mark.parametrize("answer", right(weighted_average, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.weighted_average, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.weighted_average, answer, sentence)


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.weighted_average, answer, sentence)


@pytest.mark.parametrize("stub", STUBS, ids=name_of)
def test_a_stub_is_not_started_yet(stub: Any) -> None:
    assert check.weighted_average(stub).text == "check.weighted_average: not started yet"


def test_a_report_shows_the_first_difference_and_the_number_of_samples() -> None:
    lines = check.weighted_average(all_count_alike).text.split("\n")
    assert lines[2] == "    2 ranks; rank 0 was given a model of 1 layer, float32, and 3 samples"
    assert lines[4].split()[0] == "layers.0.weight.grad[0,"
