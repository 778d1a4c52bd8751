"""check.shard_stream against its bank."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from banks import assert_accepts, assert_refuses, assert_refuses_as_stuck, hanging, name_of, right, wrong
from nights import nightly
from stream_answers import HANGING, RIGHT, STUBS, WRONG, BySlice, EverythingEverywhere

from ddp_lessons import check


@pytest.mark.parametrize("answer", right(*RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.shard_stream, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert " Next: " in assert_refuses(check.shard_stream, answer, sentence).mistake


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.shard_stream, answer, sentence)


@pytest.mark.parametrize("stub", STUBS, ids=name_of)
def test_a_stub_is_not_started_yet(stub: Any) -> None:
    assert check.shard_stream(stub).text == "check.shard_stream: not started yet"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "It got None instead of a class. Next: call check.shard_stream(ShardedStream)."),
        (BySlice([1, 2]), "It needs the class, not an instance. Next: call check.shard_stream(BySlice)."),
        (lambda: None, "The check calls <lambda>(source) with one argument"),
    ],
)
def test_what_cannot_be_tried_is_refused_in_one_sentence(given: Any, sentence: str) -> None:
    assert sentence in check.shard_stream(given).mistake


def test_a_report_shows_how_many_samples_come_in_how_many_places() -> None:
    lines = check.shard_stream(EverythingEverywhere).text.split("\n")
    assert lines[2] == "    2 ranks; rank 0 was given 24 samples and num_workers=3"
    assert lines[4].split() == ["samples", "24,", "in", "144", "places", "24,", "once", "each"]


@nightly
def test_the_random_numbers_of_the_notebook_stay_where_they_are() -> None:
    before = random.getstate(), torch.get_rng_state()
    assert check.shard_stream(BySlice).passed
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
