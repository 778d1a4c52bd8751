"""check.shard against its bank."""

from __future__ import annotations

from typing import Any

import pytest
from banks import assert_accepts, assert_refuses, name_of, right, wrong
from shard_answers import RIGHT, STUBS, WRONG, not_filled_up

from ddp_lessons import check
from ddp_lessons.train.sharding import shard


@pytest.mark.parametrize("answer", right(shard, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.shard, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.shard, answer, sentence)


def test_the_rank_is_named_whose_length_is_wrong() -> None:
    report = check.shard(not_filled_up)
    (line,) = [line for line in report.text.split("\n") if "length on rank" in line]
    assert line.split() == ["length", "on", "rank", "1", "60", "61"]


@pytest.mark.parametrize("stub", STUBS, ids=name_of)
def test_a_stub_is_not_started_yet(stub: Any) -> None:
    assert check.shard(stub).text == "check.shard: not started yet"


@pytest.mark.parametrize("thing", [None, 3, "shard"])
def test_what_is_no_function_is_refused(thing: Any) -> None:
    assert "function" in check.shard(thing).mistake
