"""The exercises of means over ranks that hold different numbers of elements, or none at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, named, number, said_nothing
from ddp_lessons.check.judging.exercise_trials import LossesTrial, Trial, with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.trial_traffic import Standstill

_LONGEST_SUMMARY_BYTES = 4096  # some numbers per rank, also if they travel as pickled objects


def global_mean(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)`: every rank returns the mean over all elements of all ranks.

    The tensors have one dimension, float32 or float64, and a different number of elements on each rank, at least one.
    The answer is a float or a tensor with one element; the given tensor stays as it is. Collectives and messages are
    both allowed, but the data itself stays where it is: a sum and a count per rank suffice. One rank alone returns the
    mean of its tensor.
    """
    return examine(_GlobalMean(), function)


def mean_loss(function: Callable[[list[float]], object]) -> Report:
    """Check `function(losses)`: every rank returns the mean over the losses of all ranks.

    The losses are a list of floats, of different length on each rank; some are empty, but never all. The answer is a
    float or a tensor with one element; the given list stays as it is. Collectives and messages are both allowed. One
    rank alone returns the mean of its list.
    """
    return examine(_MeanLoss(), function)


class _GlobalMean(Exercise):
    name = "global_mean"
    counted = "elements"
    cure_of_sizes = "bring what has the same size on every rank, a sum and a count."
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
        largest = float(torch.cat(case.inputs).abs().max())
        if abs(answer - right) <= 1e-4 * largest:  # not so for nan
            return None
        mistake = _likely_mistake(case, rank, float(answer)).replace("elements", self.counted)
        return Difference("mean", number(float(answer)), number(right), mistake)

    def too_little(self, case: Case) -> str:
        return said_nothing(case, range(case.world_size))

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


class _MeanLoss(_GlobalMean):
    name = "mean_loss"
    parameters = ("losses",)
    counted = "losses"
    thing, copy = "list", "list(losses)"
    trials = with_lateness(
        [
            LossesTrial(()),
            LossesTrial((), trait="other lengths", lengths=(1, 2, 7)),
            LossesTrial((), trait="lists of which some are empty", lengths=(2, 0, 5)),
            LossesTrial((), trait="lists of which some are empty", lengths=(0, 3, 2), smallest_world=2),
            LossesTrial((), trait="lists of which all but one are empty", lengths=(0, 4, 0, 0), smallest_world=2),
        ]
    )

    def why_stuck(self, standstill: Standstill) -> str:
        without = [rank for rank in standstill.returned if not len(standstill.trial.tensor(rank))]
        if without != list(standstill.returned) or not without:
            return ""
        waiting = standstill.calls[0]
        return (
            f"Rank {without[0]} has no losses and never calls {waiting.call}, where rank {waiting.rank} waits for it: "
            "a rank with nothing to give has to come too, with a sum and a count of 0."
        )

    def why_failed(self, message: str) -> str:
        if "ZeroDivisionError" not in message and "StatisticsError" not in message:
            return ""
        return "A rank without losses divides by its count, which is 0: divide only what all ranks have added up."


def _likely_mistake(case: Case, rank: int, answer: float) -> str:
    inputs = [tensor.double() for tensor in case.inputs]
    sums, means = [float(one.sum()) for one in inputs], [float(one.sum()) / max(1, len(one)) for one in inputs]
    own_count, not_empty = max(1, inputs[rank].numel()), sum(one.numel() > 0 for one in inputs)
    count, world_size = sum(one.numel() for one in inputs), case.world_size
    total = sum(sums)
    mean_of_means = "That is the mean of the ranks' means: a rank with more elements has to count for more."
    known: Sequence[tuple[float, str]] = [
        (sum(means) / world_size, mean_of_means),
        (sum(means) / not_empty, mean_of_means),
        (means[rank], f"Rank {rank} returns the mean of its own elements: nothing of the other ranks is in it."),
        (total, "That is the sum over all ranks: divide it by the number of elements of all ranks."),
        (total / world_size, "The sum was divided by the number of ranks, not by the number of elements of all ranks."),
        (
            total / own_count,
            "The sum was divided by the count of this rank alone: the counts have to be added up as well.",
        ),
        (
            sums[rank] / count,
            f"Rank {rank} divides its own sum by the count of all: the sums have to be added up as well.",
        ),
        (total / count / world_size, "The mean was divided by the number of ranks once more."),
        (
            total / own_count / world_size,
            "The sum was divided by this rank's count times the ranks, but counts differ.",
        ),
        (sum(means), "That is the sum of the ranks' means: add up sums and counts instead, and divide once."),
        (float(round(total / count)), "The mean was rounded to a whole number."),
        (float(int(total / count)), "The mean was cut down to a whole number."),
        *_of_wrong_parts(inputs),
    ]
    if answer != answer:
        return f"Rank {rank} returns nan, which is not a number: somewhere nothing is divided by nothing."
    if not inputs[rank].numel() and answer == 0:
        return (
            f"Rank {rank} has no elements and returns 0: every rank has to return the mean over all ranks, one without "
            "elements too."
        )
    close = 1e-4 * max(1.0, abs(answer))
    return next(
        (sentence for value, sentence in known if abs(value - answer) <= close),
        f"Rank {rank} has another mean than that of all elements.",
    )


def _of_wrong_parts(inputs: Sequence[Tensor]) -> list[tuple[float, str]]:
    """Means that come of it if ranks bring something else than their sum and their count."""
    sums, counts = [float(one.sum()) for one in inputs], [one.numel() for one in inputs]
    empty = [rank for rank, count in enumerate(counts) if not count]
    given = [one for one in inputs if one.numel()]
    one_of_each = "Only one of each rank's elements is in that mean: bring the sum and the count of all of them."
    counted = f"Rank {empty[0]} has no elements, but is counted as if it had one of 0." if empty else ""
    whole = "Each rank's sum was cut down to a whole number: keep it a float."
    largest = "The sum was divided by the largest count times the ranks: add up the counts (ReduceOp.SUM, not MAX)."
    return [
        *([(sum(sums) / (sum(counts) + len(empty)), counted)] if empty else []),
        (sum(sums) / (max(counts) * len(inputs)), largest),
        (sum(map(int, sums)) / sum(counts), whole),
        *((float(sum(one[place] for one in given)) / len(given), one_of_each) for place in (0, -1)),
    ]
