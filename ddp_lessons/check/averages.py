"""The exercise of the mean over ranks that hold different numbers of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ddp_lessons.check.examination import examine
from ddp_lessons.check.exercise import Case, Difference, Exercise, named, number
from ddp_lessons.check.report import Report
from ddp_lessons.check.trials import Trial, with_lateness

_LONGEST_SUMMARY_BYTES = 4096  # some numbers per rank, also if they travel as pickled objects


def global_mean(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)`: every rank returns the mean over all elements of all ranks.

    The tensors have one dimension, float32 or float64, and a different number of elements on each rank, at least one.
    The answer is a float or a tensor with one element; the given tensor stays as it is. Collectives and messages are
    both allowed, but the data itself stays where it is: a sum and a count per rank suffice. One rank alone returns the
    mean of its tensor.
    """
    return examine(_GlobalMean(), function)


class _GlobalMean(Exercise):
    name = "global_mean"
    messages_only = False
    keeps_input = True
    trials = with_lateness(
        [
            Trial((3,), lengths_differ=True),
            Trial((1,), trait="other lengths", lengths_differ=True),
            Trial((7,), trait="other lengths", lengths_differ=True),
            Trial((3,), "float64", trait="numbers of another dtype (float64)", lengths_differ=True),
            Trial((5000,), trait="long tensors", lengths_differ=True),
        ]
    )
    measured = "bytes given by the busiest rank"
    yardstick = "enough"

    def expected(self, case: Case, rank: int) -> float:
        return float(torch.cat(case.inputs).double().mean())

    def difference(self, case: Case, rank: int) -> Difference | None:
        answer, right = self.answer(case, rank), self.expected(case, rank)
        if isinstance(answer, Tensor) and answer.numel() == 1:
            answer = answer.item()
        if isinstance(answer, bool) or not isinstance(answer, int | float):
            return Difference("", named(answer), number(right), f"It returns {named(answer)}, not one number.")
        largest = max(float(tensor.abs().max()) for tensor in case.inputs)
        if abs(answer - right) <= 1e-4 * largest:  # not so for nan
            return None
        return Difference("mean", number(float(answer)), number(right), _likely_mistake(case, rank, float(answer)))

    def too_little(self, case: Case) -> str:
        for rank in range(case.world_size if case.world_size > 1 else 0):
            if not any(
                event.bytes for event in [*case.traffic.collectives, *case.traffic.by_rank[rank]] if event.rank == rank
            ):
                return f"It moves too little: rank {rank} said nothing to anybody, so the answer came by another way."
        return ""

    def too_much(self, case: Case) -> str:
        shortest = min(tensor.nbytes for tensor in case.inputs)
        if shortest <= _LONGEST_SUMMARY_BYTES or max(case.traffic.brought) <= _LONGEST_SUMMARY_BYTES:
            return ""
        rank = case.traffic.brought.index(max(case.traffic.brought))
        return f"It moves too much: rank {rank} gives its data away, and a sum and a count per rank suffice."

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return 16  # two numbers of float64


def _likely_mistake(case: Case, rank: int, answer: float) -> str:
    inputs = [tensor.double() for tensor in case.inputs]
    sums, means = [float(one.sum()) for one in inputs], [float(one.mean()) for one in inputs]
    count, world_size = sum(one.numel() for one in inputs), case.world_size
    own, total = inputs[rank], sum(sums)
    known: Sequence[tuple[float, str]] = [
        (
            sum(means) / world_size,
            "That is the mean of the ranks' means: a rank with more elements has to count for more.",
        ),
        (means[rank], f"Rank {rank} returns the mean of its own elements: nothing of the other ranks is in it."),
        (total, "That is the sum over all ranks: divide it by the number of elements of all ranks."),
        (total / world_size, "The sum was divided by the number of ranks, not by the number of elements of all ranks."),
        (
            total / own.numel(),
            "The sum was divided by the count of this rank alone: the counts have to be added up as well.",
        ),
        (
            sums[rank] / count,
            f"Rank {rank} divides its own sum by the count of all: the sums have to be added up as well.",
        ),
        (total / count / world_size, "The mean was divided by the number of ranks once more."),
        (
            total / own.numel() / world_size,
            "The sum was divided by this rank's count times the ranks, but counts differ.",
        ),
        (sum(means), "That is the sum of the ranks' means: add up sums and counts instead, and divide once."),
        (float(round(total / count)), "The mean was rounded to a whole number."),
        (float(int(total / count)), "The mean was cut down to a whole number."),
    ]
    if answer != answer:
        return f"Rank {rank} returns nan, which is not a number: somewhere nothing is divided by nothing."
    close = 1e-4 * max(1.0, abs(answer))
    return next(
        (sentence for value, sentence in known if abs(value - answer) <= close),
        f"Rank {rank} has another mean than that of all elements.",
    )
