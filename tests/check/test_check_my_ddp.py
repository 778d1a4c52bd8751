"""check.my_ddp against its bank."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from banks import assert_accepts, assert_refuses, assert_refuses_as_stuck, hanging, name_of, right, wrong
from ddp_answers import HANGING, RIGHT, WRONG, OneByOne, Sums, UnderWay
from nights import by_day, nightly
from torch import nn

from ddp_lessons import check


@pytest.mark.parametrize("answer", right(*RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.my_ddp, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.my_ddp, answer, sentence)


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.my_ddp, answer, sentence)


@nightly
def test_the_report_tells_how_many_calls_begin_while_backward_is_at_work() -> None:
    text = check.my_ddp(UnderWay).text
    assert (
        "8 calls in one backward() of a model with 8 parameters, 7 started before the last gradient was ready" in text
    )


def test_the_random_state_of_the_notebook_stays() -> None:
    before = torch.get_rng_state()
    check.my_ddp(Sums)
    assert torch.equal(torch.get_rng_state(), before)


class OnlyPass(nn.Module):
    pass


class OnlyDots:
    def __init__(self, module: nn.Module) -> None: ...

    def __call__(self, inputs: Any) -> None: ...


class Prepared(nn.Module):
    """Say what it shall do."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        # your code

    def forward(self, inputs: Any) -> None: ...


class Wrapping(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        # your code

    def forward(self, *inputs: Any) -> Any:
        return self.module(*inputs)


class WithoutItsModule(nn.Module):
    module: Any

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        # your code

    def forward(self, *inputs: Any) -> Any:
        return self.module(*inputs)


class NotImplementedYet(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        raise NotImplementedError


def only_dots(module: nn.Module) -> None: ...


class AsInTheLesson(OneByOne):
    def gradient_is_ready(self, parameter: Any) -> None: ...


STUBS: list[Any] = [
    AsInTheLesson,
    OnlyPass,
    OnlyDots,
    Prepared,
    Wrapping,
    WithoutItsModule,
    NotImplementedYet,
    only_dots,
]


@pytest.mark.parametrize("stub", by_day(STUBS, 2), ids=name_of)
def test_a_stub_is_not_started_yet(stub: Any) -> None:
    assert check.my_ddp(stub).text == "check.my_ddp: not started yet"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "It got None instead of a function"),
        (Wrapping(nn.Linear(1, 1)), "It got a model that is already wrapped. Pass the class: check.my_ddp(Wrapping)"),
        (lambda: None, "The check calls <lambda>(module) with one argument"),
    ],
)
def test_what_cannot_be_called_is_refused_in_one_sentence(given: Any, sentence: str) -> None:
    assert sentence in check.my_ddp(given).mistake
