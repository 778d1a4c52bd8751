"""The templates for the files of a new exercise; `__NAME__` is replaced by its name."""

SOLUTION = '''\
"""WRITE: what it is for, in one sentence."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor


def __NAME__(tensor: Tensor) -> Tensor:
    """WRITE: what every rank gets back."""
    raise NotImplementedError(dist.get_rank())
'''

CHECK = '''\
"""The exercise `__NAME__`: WRITE."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Exercise, said_nothing
from ddp_lessons.check.judging.exercise_trials import of_every_kind
from ddp_lessons.check.judging.report import Report


def __NAME__(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)`: WRITE what every rank returns, and what is allowed."""
    return examine(___CLASS__(), function)


class ___CLASS__(Exercise):
    name = "__NAME__"
    messages_only = False  # collectives are allowed
    keeps_input = True
    trials = of_every_kind()
    measured = "bytes sent by the busiest rank"
    yardstick = "needed"

    def expected(self, case: Case, rank: int) -> Tensor:
        """Computed in this process, from the tensors of all ranks (`case.inputs`)."""
        raise NotImplementedError("WRITE")

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        """The sentence for a wrong answer whose cause can be recognized."""
        raise NotImplementedError("WRITE")

    def too_little(self, case: Case) -> str:
        return said_nothing(case, range(case.world_size))

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return case.tensor_bytes
'''

BANK = '''\
"""Answers to the exercise `__NAME__`: right ones, and wrong ones with the sentence that each must get."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed
from torch import Tensor

dist: Any = torch.distributed
Answer = Callable[[Tensor], object]

RIGHT: list[Answer] = []
WRONG: list[tuple[Answer, str]] = []
'''

TEST = '''\
"""check.__NAME__ against its bank."""

from __future__ import annotations

import pytest
__IMPORTS__

from ddp_lessons import check
from ddp_lessons.train.__NAME__ import __NAME__


@pytest.mark.parametrize("answer", [__NAME__, *RIGHT], ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.__NAME__, answer)


@pytest.mark.parametrize(("answer", "sentence"), WRONG, ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    assert_refuses(check.__NAME__, answer, sentence)


def test_a_stub_is_not_started_yet() -> None:
    def stub(tensor: object) -> None: ...

    assert check.__NAME__(stub).text == "check.__NAME__: not started yet"
'''
