"""An exercise as its check sees it: trials, the right answer to each, and how much may be communicated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ddp_lessons.check.judging.exercise_trials import Trial
from ddp_lessons.check.judging.trial_ranks import Outcome, Thing
from ddp_lessons.check.judging.trial_traffic import Standstill, Traffic

SMALL_CHANGE_BYTES = 64  # a count or a size may travel in addition to the data


@dataclass(frozen=True)
class Case:
    """One trial with one world size: what the ranks were given, what they had afterwards, and their traffic."""

    trial: Trial
    world_size: int
    outcomes: Sequence[Outcome]
    traffic: Traffic

    @cached_property
    def inputs(self) -> list[Tensor]:
        return self.trial.tensors(self.world_size)

    @property
    def tensor_bytes(self) -> int:
        return self.inputs[0].nbytes

    def given(self, rank: int) -> Tensor:
        """The tensor that this rank was given, as it is after the call."""
        tensor = self.outcomes[rank].given
        assert isinstance(tensor, Tensor)
        return tensor

    def is_unchanged(self, rank: int) -> bool:
        return self.trial.is_unchanged(rank, self.outcomes[rank].given)

    def has_only_none(self, rank: int) -> bool:
        """This rank returned None and left its input unchanged."""
        return self.outcomes[rank].answer is None and self.is_unchanged(rank)


@dataclass(frozen=True)
class Difference:
    """The first place where an answer differs from the expected one."""

    place: str
    yours: str
    expected: str
    mistake: str = ""  # if the kind of the answer is enough to tell: its shape, its dtype


class Exercise:
    """What all exercises have in common: f(tensor) returns one tensor, or changes it in place and returns None."""

    name = ""
    parameters: tuple[str, ...] = ("tensor",)
    thing, copy = "tensor", "tensor.clone()"  # what is given, and how to copy it
    result = "the answer"  # what to return, in words
    cure_of_itself = "Skip the rank itself, and copy its own tensor."  # if a rank sends to itself
    cure_of_roots = ""  # how the ranks can agree on the same root
    cure_of_sizes = "Pass the same number of elements on every rank."  # if a collective gets different sizes
    world_sizes: tuple[int, ...] = (2, 3, 4, 5, 8, 1)  # most mistakes show with two; one rank comes last
    messages_only = True
    keeps_input = False
    returns_answer = True  # or changes its input; False: only the change to the input counts
    is_silent_when_wrong = False  # a program to fix that does nothing at all; otherwise doing nothing means a stub
    trials: Sequence[Trial] = ()
    measured = "bytes sent by the busiest rank"
    yardstick = "textbook"  # what `textbook` means, in one word

    def expected(self, case: Case, rank: int) -> object:
        raise NotImplementedError

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        """The likely mistake behind wrong values in an answer of the right kind."""
        return ""

    def too_little(self, case: Case) -> str:
        """A sentence if too little was communicated for this answer."""
        return ""

    def too_much(self, case: Case) -> str:
        """A sentence if more was communicated than needed."""
        return ""

    def why_stuck(self, standstill: Standstill) -> str:
        """A sentence if the exercise knows this hang."""
        return ""

    def why_failed(self, message: str) -> str:
        """A sentence if the exercise knows this exception."""
        return ""

    def carried(self, case: Case) -> int:
        return max(case.traffic.sent)

    def textbook(self, case: Case) -> int:
        """The needed amount of what `carried` counts."""
        raise NotImplementedError

    def answer(self, case: Case, rank: int) -> object:
        answer = case.outcomes[rank].answer
        return case.given(rank) if answer is None and not self.keeps_input else answer

    def answer_is_right(self, case: Case, rank: int) -> bool:
        answer, expected = self.answer(case, rank), self.expected(case, rank)
        return isinstance(answer, Tensor) and isinstance(expected, Tensor) and torch.equal(answer, expected)

    def difference(self, case: Case, rank: int) -> Difference | None:
        expected = self.expected(case, rank)
        assert isinstance(expected, Tensor)
        answer = self.answer(case, rank)
        if not isinstance(answer, Tensor):
            mistake = f"It returns {named(answer)}{of_a_recv(case, rank, answer) or '. Return a tensor'}."
            return Difference("", named(answer), "a tensor", mistake)
        found = tensor_difference(answer, expected)
        if found is None or found.mistake:
            return found
        mistake = self.likely_mistake(case, rank, answer)
        return Difference(found.place, found.yours, found.expected, mistake)


def said_nothing(case: Case, ranks: Iterable[int]) -> str:
    """A sentence if one of these ranks, which all have to contribute, sends nothing."""
    silent = [rank for rank in ranks if not case.traffic.brought[rank] and case.world_size > 1]
    if not silent:
        return ""
    return (
        f"Too little is communicated: rank {silent[0]} sends nothing, so its data cannot be in the answer. Send "
        "it with torch.distributed."
    )


def of_a_recv(case: Case, rank: int, answer: object) -> str:
    """The end of a sentence if this is the return value of recv."""
    sources = {event.peer for event in case.traffic.by_rank[rank] if event.call == "recv"}
    if isinstance(answer, bool) or not isinstance(answer, int) or answer not in sources:
        return ""
    return ", because recv returns the rank of the sender. Return the buffer"


def tensor_difference(answer: Tensor, expected: Tensor) -> Difference | None:
    """Compare shape, dtype and then the values, exactly."""
    if answer.shape != expected.shape:
        yours, right = f"shape {list(answer.shape)}", f"shape {list(expected.shape)}"
        return Difference(
            "",
            yours,
            right,
            (f"It returns a tensor of shape {list(answer.shape)}. Return one of shape {list(expected.shape)}."),
        )
    if answer.dtype != expected.dtype:
        yours, right = dtype_name(answer), dtype_name(expected)
        return Difference("", yours, right, f"It returns a tensor of dtype {yours}. Return one of dtype {right}.")
    if torch.equal(answer, expected):
        return None
    index = tuple((answer != expected).nonzero()[0].tolist())
    return Difference(str(list(index)), number(answer[index].item()), number(expected[index].item()))


def named(answer: object) -> str:
    """An answer of the wrong kind, in words."""
    if answer is None:
        return "None"
    if isinstance(answer, Tensor):
        return f"a tensor of shape {list(answer.shape)}"
    if isinstance(answer, list):
        return f"a list of length {len(answer)}"
    if isinstance(answer, Thing):
        return f"an object of type {answer.kind}"
    return f"the number {answer}"


def number(value: float) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
