"""check.token_mean_loss against its bank."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from banks import assert_accepts, assert_refuses, assert_refuses_as_stuck, hanging, name_of, right, wrong
from nights import nightly
from token_loss_answers import HANGING, RIGHT, STUBS, WRONG, by_the_book, mean_of_means

from ddp_lessons import check


@pytest.mark.parametrize("answer", right(*RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.token_mean_loss, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert " Next: " in assert_refuses(check.token_mean_loss, answer, sentence).mistake


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.token_mean_loss, answer, sentence)


@pytest.mark.parametrize("stub", STUBS, ids=name_of)
def test_a_stub_is_not_started_yet(stub: Any) -> None:
    assert check.token_mean_loss(stub).text == "check.token_mean_loss: not started yet"


@pytest.mark.parametrize("thing", [None, 3, "token_mean_loss"])
def test_what_is_no_function_is_refused(thing: Any) -> None:
    assert "function" in check.token_mean_loss(thing).mistake


def test_a_report_shows_the_tokens_and_the_first_wrong_element_of_the_gradient() -> None:
    lines = check.token_mean_loss(mean_of_means).text.split("\n")
    assert lines[2] == "    2 ranks; rank 0 was given 3 micro-batches of 15, 2 and 4 tokens"
    assert lines[4].split()[:3] == ["embedding.weight.grad[0,", "0]", "0.03047"]


@nightly
def test_the_random_state_of_the_notebook_stays() -> None:
    before = torch.get_rng_state()
    assert check.token_mean_loss(by_the_book).passed
    assert torch.equal(torch.get_rng_state(), before)
