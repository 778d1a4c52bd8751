"""check.epoch_order against its bank."""

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
from order_answers import HANGING, RIGHT, STUBS, WRONG, every_second, seeded_by_the_machine

from ddp_lessons import check
from ddp_lessons.train.sampling import epoch_order


@pytest.mark.parametrize("answer", right(epoch_order, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.epoch_order, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.epoch_order, answer, sentence)


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.epoch_order, answer, sentence)


@pytest.mark.parametrize("stub", STUBS, ids=name_of)
def test_a_stub_is_not_started_yet(stub: Any) -> None:
    assert check.epoch_order(stub).text == "check.epoch_order: not started yet"


@nightly
def test_the_random_numbers_of_the_notebook_stay_where_they_are() -> None:
    before = random.getstate(), torch.get_rng_state()
    check.epoch_order(every_second)
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


@nightly
def test_chance_does_not_come_into_the_report() -> None:
    assert_reports_the_same(check.epoch_order, seeded_by_the_machine)
