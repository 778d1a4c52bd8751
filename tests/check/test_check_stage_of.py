"""check.stage_of against its bank."""

from __future__ import annotations

from typing import Any

import pytest
from banks import assert_accepts, assert_refuses, name_of, right, wrong
from stage_answers import RIGHT, STUBS, WRONG

from ddp_lessons import check
from ddp_lessons.train.pipeline import stage_of


@pytest.mark.parametrize("answer", right(stage_of, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.stage_of, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.stage_of, answer, sentence)


@pytest.mark.parametrize("stub", STUBS, ids=name_of)
def test_a_stub_is_not_started_yet(stub: Any) -> None:
    assert check.stage_of(stub).text == "check.stage_of: not started yet"


@pytest.mark.parametrize("thing", [None, 3, "stage_of"])
def test_what_is_no_function_is_refused(thing: Any) -> None:
    assert "function" in check.stage_of(thing).mistake
