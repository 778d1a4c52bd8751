"""check.evaluate against its bank."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from banks import assert_accepts, assert_refuses, assert_refuses_as_stuck, hanging, name_of, right, wrong
from evaluation_answers import HANGING, RIGHT, WRONG, counts_added_up, in_training_mode, straight_from_memory
from nights import nightly
from torch import nn

from ddp_lessons import check
from ddp_lessons.train.evaluation import evaluate


@pytest.mark.parametrize("answer", right(evaluate, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.evaluate, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.evaluate, answer, sentence)


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.evaluate, answer, sentence)


@nightly
def test_a_tensor_is_mentioned_where_a_float_was_asked_for() -> None:
    assert (
        "it returns a tensor; item() turns it into the float that the exercise asks for"
        in check.evaluate(straight_from_memory).text
    )
    assert "it returns a tensor" not in check.evaluate(counts_added_up).text


def test_who_tests_in_training_mode_is_shown_the_mode_and_no_accuracies_that_happen_to_be_equal() -> None:
    lines = check.evaluate(in_training_mode).text.split("\n")
    assert [line.split() for line in lines if "mode during" in line] == [
        ["mode", "during", "evaluation", "training", "eval"]
    ]


def test_dropout_gives_the_same_report_in_every_run() -> None:
    reports = [check.evaluate(in_training_mode).text.split("\n  Stuck?")[0] for _ in range(3)]  # the third adds a hint
    assert len(set(reports)) == 1


def test_the_random_state_of_the_notebook_stays() -> None:
    before = torch.get_rng_state()
    check.evaluate(counts_added_up)
    assert torch.equal(torch.get_rng_state(), before)


def only_dots(model: nn.Module, data: Any) -> None: ...


def prepared(model: nn.Module, data: Any) -> None:
    model.eval()
    right = 0  # noqa: F841
    # your code


def test_a_stub_is_not_started_yet() -> None:
    for stub in (only_dots, prepared):
        assert check.evaluate(stub).text == "check.evaluate: not started yet"
