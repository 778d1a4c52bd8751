"""What an exercise is to its check: trials, the right answer to each, and how much may travel for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ddp_lessons.check.judging.exercise_trials import Trial
from ddp_lessons.check.judging.trial_ranks import Outcome, Thing
from ddp_lessons.check.judging.trial_traffic import Standstill, Traffic

SMALL_CHANGE_BYTES = 64  # a count or a size may travel beside the data


@dataclass(frozen=True)
class Case:
    """One trial on one world: what the ranks were given, what they had afterwards, and what they said."""

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
        """The tensor that this rank was given, as it was afterwards."""
        tensor = self.outcomes[rank].given
        assert isinstance(tensor, Tensor)
        return tensor

    def is_unchanged(self, rank: int) -> bool:
        return self.trial.is_unchanged(rank, self.outcomes[rank].given)

    def has_only_none(self, rank: int) -> bool:
        """This rank returned nothing, and what it was given is what it was."""
        return self.outcomes[rank].answer is None and self.is_unchanged(rank)


@dataclass(frozen=True)
class Difference:
    """The first place where an answer is not the expected one."""

    place: str
    yours: str
    expected: str
    mistake: str = ""  # if the kind of the answer says it already: its shape, its dtype


class Exercise:
    """What all have in common: f(tensor) returns one tensor, or has it in place and returns None."""

    name = ""
    parameters: tuple[str, ...] = ("tensor",)
    thing, copy = "tensor", "tensor.clone()"  # what is given, and how it is copied
    result = "the answer"  # what is to be returned, in words
    cure_of_itself = "leave its own rank out, and copy what is its own."  # if a rank sends to itself
    cure_of_roots = ""  # how the ranks can come to name the same one
    cure_of_sizes = "every rank has to bring as many elements."  # if they call a collective with different ones
    world_sizes: tuple[int, ...] = (2, 3, 4, 5, 8, 1)  # most mistakes show with two; alone, what works with several
    messages_only = True
    keeps_input = False
    returns_answer = True  # or has it in place; False: only what it does to what it was given counts
    is_silent_when_wrong = False  # a program to repair that does nothing at all; else that is taken for a stub
    trials: Sequence[Trial] = ()
    measured = "bytes sent by the busiest rank"
    yardstick = "textbook"  # what `textbook` is, in a word

    def expected(self, case: Case, rank: int) -> object:
        raise NotImplementedError

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        """What the wrong numbers in an answer of the right kind remind of."""
        return ""

    def too_little(self, case: Case) -> str:
        """A sentence if the answer cannot have come by what travelled."""
        return ""

    def too_much(self, case: Case) -> str:
        """A sentence if more travelled than the textbook needs."""
        return ""

    def why_stuck(self, standstill: Standstill) -> str:
        """A sentence if the exercise knows this standstill."""
        return ""

    def why_failed(self, message: str) -> str:
        """A sentence if the exercise knows what a rank raised."""
        return ""

    def carried(self, case: Case) -> int:
        return max(case.traffic.sent)

    def textbook(self, case: Case) -> int:
        """Of what `carried` counts."""
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
            mistake = f"It returns {named(answer)}, not a tensor{of_a_recv(case, rank, answer)}."
            return Difference("", named(answer), "a tensor", mistake)
        found = tensor_difference(answer, expected)
        if found is None or found.mistake:
            return found
        mistake = self.likely_mistake(case, rank, answer)
        return Difference(found.place, found.yours, found.expected, mistake)


def said_nothing(case: Case, ranks: Iterable[int]) -> str:
    """A sentence if one of these ranks, each of which has something to say, gave nothing to any other."""
    silent = [rank for rank in ranks if not case.traffic.brought[rank] and case.world_size > 1]
    if not silent:
        return ""
    return f"It moves too little: rank {silent[0]} said nothing to anybody, so the answer came by another way."


def of_a_recv(case: Case, rank: int, answer: object) -> str:
    """The end of a sentence if this is what recv returns."""
    sources = {event.peer for event in case.traffic.by_rank[rank] if event.call == "recv"}
    if isinstance(answer, bool) or not isinstance(answer, int) or answer not in sources:
        return ""
    return ": recv returns the rank of the sender, and what it sent is in the buffer"


def tensor_difference(answer: Tensor, expected: Tensor) -> Difference | None:
    """Shape, dtype, then the numbers, exactly."""
    if answer.shape != expected.shape:
        yours, right = f"shape {list(answer.shape)}", f"shape {list(expected.shape)}"
        return Difference("", yours, right, f"It returns a tensor of another shape: {list(answer.shape)}.")
    if answer.dtype != expected.dtype:
        yours, right = dtype_name(answer), dtype_name(expected)
        return Difference("", yours, right, f"It returns a tensor of another dtype: {yours} instead of {right}.")
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
        return f"a list of {len(answer)}"
    if isinstance(answer, Thing):
        return f"an object of type {answer.kind}"
    return f"the number {answer}"


def number(value: float) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
