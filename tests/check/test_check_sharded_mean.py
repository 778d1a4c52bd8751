"""check.sharded_mean against its bank."""

from __future__ import annotations

from typing import Any

import pytest
from banks import assert_accepts, assert_refuses, assert_refuses_as_stuck, hanging, name_of, right, wrong
from sharded_mean_answers import HANGING, RIGHT, STUBS, WRONG, split_in_parts

from ddp_lessons import check
from ddp_lessons.train.sharding import sharded_mean


@pytest.mark.parametrize("answer", right(sharded_mean, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.sharded_mean, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.sharded_mean, answer, sentence)


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.sharded_mean, answer, sentence)


def test_the_rank_is_named_whose_length_is_wrong() -> None:
    report = check.sharded_mean(split_in_parts)
    (line,) = [line for line in report.text.split("\n") if "length on rank" in line]
    assert line.split() == ["length", "on", "rank", "1", "60", "61"]


@pytest.mark.parametrize("stub", STUBS, ids=name_of)
def test_a_stub_is_not_started_yet(stub: Any) -> None:
    assert check.sharded_mean(stub).text == "check.sharded_mean: not started yet"


@pytest.mark.parametrize("thing", [None, 3, "sharded_mean"])
def test_what_is_no_function_is_refused(thing: Any) -> None:
    assert "function" in check.sharded_mean(thing).mistake
