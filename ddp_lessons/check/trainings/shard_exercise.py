"""The exercise of sharding a long tensor: one shard per rank, equally long, in its own memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, tensor_difference
from ddp_lessons.check.judging.exercise_trials import Trial, with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.trials.sample_shares import InTurns, examine_in_turns


def shard(function: Callable[[Tensor], object]) -> Report:
    """Check `function(flat)`: every rank returns its shard of a long tensor that all of them have.

    The shards are in rank order and equally long, as short as possible; zeros pad the last ones. A shard has its own
    memory, so that the whole tensor can be freed. No communication is needed.
    """
    return examine_in_turns(_Shard(), function, _Weighed) if callable(function) else examine(_Shard(), function)


@dataclass(frozen=True)
class FlatTrial(Trial):
    """All ranks are given the same tensor, like the parameters at the start of training."""

    def tensor(self, rank: int) -> Tensor:
        return super().tensor(0)


class _Weighed(InTurns):
    """Record also how much memory the answer keeps alive, which a copy of it would not show."""

    def __call__(self, flat: Any) -> object:  # type: ignore[override]
        answer = self.written(flat)
        return [answer, answer.untyped_storage().nbytes()] if isinstance(answer, Tensor) else answer


class _Shard(Exercise):
    name = "shard"
    parameters = ("flat",)
    thing, copy = "tensor", "flat.clone()"
    messages_only = False
    keeps_input = True
    trials = with_lateness(
        [
            FlatTrial((120,)),
            FlatTrial((120,), trait="the next tensor"),
            FlatTrial((121,), trait="a length not divisible by world_size"),
            FlatTrial((119,), trait="a length not divisible by world_size"),
            FlatTrial((120,), "int64", trait="integers (int64)"),
            FlatTrial((7,), "float64", trait="another dtype (float64)"),
            FlatTrial((3,), trait="a tensor with fewer elements than ranks"),
            FlatTrial((1,), trait="a tensor with one element"),
        ]
    )
    measured = "bytes sent by the busiest rank"
    yardstick = "needed"

    def expected(self, case: Case, rank: int) -> Tensor:
        return part_of(case.inputs[rank], case, rank)

    def answer(self, case: Case, rank: int) -> object:
        answer = case.outcomes[rank].answer
        return answer[0] if _is_weighed(answer) else answer  # type: ignore[index]

    def difference(self, case: Case, rank: int) -> Difference | None:
        answers = [self.answer(case, other) for other in range(case.world_size)]
        answer, expected = answers[rank], self.expected(case, rank)
        if not isinstance(answer, Tensor) or answer.dim() != 1 or answer.dtype != expected.dtype:
            return super().difference(case, rank)
        if wrong_length := length_difference(answers, case, rank):
            return wrong_length
        found = tensor_difference(answer, expected)
        if found is None or found.mistake:
            return found
        return Difference(found.place, found.yours, found.expected, _why_other_numbers(answer, case, rank))

    def too_much(self, case: Case) -> str:
        if self.carried(case):
            return "Every rank already has the whole tensor, so no communication is needed. Only slice it."
        for rank in range(case.world_size):
            answer = case.outcomes[rank].answer
            if _is_weighed(answer) and answer[1] > _most_bytes(case):  # type: ignore[index]
                return (
                    "The answer is right, but it is a view that keeps a longer tensor in memory. Return a copy of the "
                    "shard, with clone()."
                )
        return ""

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return 0


def part_of(flat: Tensor, case: Case, rank: int) -> Tensor:
    """The shard of a rank, including its padding."""
    length = _length(case)
    padded = torch.cat([flat, flat.new_zeros(length * case.world_size - len(flat))])
    return padded[rank * length : (rank + 1) * length]


def _length(case: Case) -> int:
    """Computed here and not by `train`, so that the package's own answer is compared with something independent."""
    return -(-len(case.inputs[0]) // case.world_size)


def _most_bytes(case: Case) -> int:
    return max(_length(case) * case.inputs[0].element_size(), 64)  # memory is allocated in blocks


def _is_weighed(answer: object) -> bool:
    return (
        isinstance(answer, list) and len(answer) == 2 and isinstance(answer[0], Tensor) and isinstance(answer[1], int)
    )


def length_difference(answers: Sequence[object], case: Case, rank: int) -> Difference | None:
    """A difference if all answers are shards by their kind and this rank's has the wrong length."""
    lengths = [len(one) if isinstance(one, Tensor) and one.dim() == 1 else -1 for one in answers]
    if -1 in lengths or lengths[rank] == _length(case):
        return None
    mistake = _why_not_of_one_length(lengths, case)
    return Difference(f"length on rank {rank}", str(lengths[rank]), str(_length(case)), mistake)


def _why_not_of_one_length(lengths: list[int], case: Case) -> str:
    whole, length = len(case.inputs[0]), _length(case)
    if set(lengths) == {whole}:
        return "Every rank returns as many elements as the whole tensor has. Return only this rank's shard."
    if set(lengths) == {whole // case.world_size} and length > whole // case.world_size:
        lost = whole - case.world_size * (whole // case.world_size)
        elements = "1 element is" if lost == 1 else f"{lost} elements are"
        return f"The remainder is lost: {elements} not assigned to any rank. Round the length up, and pad with zeros."
    if len(set(lengths)) > 1:
        told = " and ".join(map(str, sorted(set(lengths), reverse=True)))
        return (
            f"The shards have different lengths, {told}, but all_gather needs equal ones. Pad the shorter ones with "
            "zeros."
        )
    if lengths[0] < length:
        return (
            f"The shards are too short: {case.world_size} times {lengths[0]} elements are only "
            f"{case.world_size * lengths[0]} of {whole}. Round the length up."
        )
    return f"The shards are longer than needed. For {whole} elements, use {length} per rank."


def _why_other_numbers(answer: Tensor, case: Case, rank: int) -> str:
    found = why_other_part(answer, case.inputs[rank], case.world_size, rank)
    return found or f"Rank {rank} does not have its own shard. Start the slice at rank * length."


def why_other_part(answer: Tensor, flat: Tensor, ranks: int, rank: int) -> str:
    """A sentence if this answer, of the right length, is another part of `flat`, up to rounding."""
    length, zeros = len(answer), -len(flat) % ranks

    def is_close(one: Tensor, other: Tensor) -> bool:
        return one.shape == other.shape and torch.allclose(one.double(), other.double(), rtol=1e-5)

    def filled_up(part: Tensor) -> Tensor:
        return torch.cat([part, part.new_zeros(max(0, length - len(part)))])

    if ranks > 1 and length > 1 and is_close(answer, filled_up(flat[rank::ranks])):
        return (
            f"It takes every {_ordinal(ranks)} element, so all_gather would mix up their order. Take one contiguous "
            "slice."
        )
    for other in range(ranks):
        start = flat[other * length : (other + 1) * length]
        if other != rank and len(start) == length and is_close(answer, start):
            return f"Rank {rank} has the shard of rank {other}. Order the shards by rank."
    if zeros and is_close(answer, torch.cat([flat.new_zeros(zeros), flat])[rank * length : (rank + 1) * length]):
        return "The padding comes before the elements. Pad at the end of the tensor."
    if zeros and is_close(answer, filled_up(flat.tensor_split(ranks)[rank])):
        return (
            "It pads each shard after splitting, so zeros end up in the middle. Pad the whole tensor at its end "
            "first, and then split it."
        )
    mine = flat[rank * length : (rank + 1) * length]
    if len(mine) < length and is_close(answer[: len(mine)], mine):
        return (
            "The padding of the last shards is not zero. Pad with zeros, because the optimizer updates the padding too."
        )
    if len(mine) < length and is_close(answer[length - len(mine) :], mine):
        return "The padding comes before the elements. Pad at the end of the tensor."
    return ""


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
