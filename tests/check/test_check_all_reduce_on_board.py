"""check.all_reduce_on_board against its bank."""

from __future__ import annotations

from typing import Any

import pytest
from banks import assert_accepts, assert_refuses, assert_refuses_as_stuck, hanging, name_of, right, wrong
from board_answers import HANGING, RIGHT, WRONG

from ddp_lessons import check
from ddp_lessons.train.board_group import all_reduce_on_board


@pytest.mark.parametrize("answer", right(all_reduce_on_board, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.all_reduce_on_board, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.all_reduce_on_board, answer, sentence)


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.all_reduce_on_board, answer, sentence)


def test_a_stub_is_not_started_yet() -> None:
    def stub(board: Any, tensor: Any, rank: int, world_size: int) -> Any: ...

    assert check.all_reduce_on_board(stub).text == "check.all_reduce_on_board: not started yet"
