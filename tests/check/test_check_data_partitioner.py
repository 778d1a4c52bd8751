"""check.data_partitioner against its bank."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from banks import (
    assert_accepts,
    assert_refuses,
    assert_refuses_as_stuck,
    assert_reports_the_same,
    hanging,
    name_of,
    right,
    wrong,
)
from nights import nightly
from partition_answers import HALF, HANGING, RIGHT, STUBS, WRONG, ByCumulativeEnds, TheNotesOwn

from ddp_lessons import check
from ddp_lessons.train.partition import DataPartitioner


@pytest.mark.parametrize("answer", right(DataPartitioner, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.data_partitioner, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.data_partitioner, answer, sentence)


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.data_partitioner, answer, sentence)


@pytest.mark.parametrize("stub", STUBS, ids=name_of)
def test_a_stub_is_not_started_yet(stub: Any) -> None:
    assert check.data_partitioner(stub).text == "check.data_partitioner: not started yet"


@pytest.mark.parametrize(("half", "missing"), HALF, ids=name_of)
def test_what_is_half_written_is_told_what_is_missing(half: Any, missing: str) -> None:
    assert check.data_partitioner(half).mistake == f"{missing} is not written yet."


@nightly
def test_the_random_numbers_of_the_notebook_stay_where_they_are() -> None:
    before = random.getstate(), torch.get_rng_state()
    check.data_partitioner(ByCumulativeEnds)
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


@nightly
def test_chance_does_not_come_into_the_report() -> None:
    assert_reports_the_same(check.data_partitioner, TheNotesOwn)
