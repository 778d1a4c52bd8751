"""The exercises of means over ranks with different numbers of elements, or none at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, named, number, said_nothing
from ddp_lessons.check.judging.exercise_trials import LossesTrial, Trial, with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.trial_traffic import Standstill

_SUM_BOTH = "Sum the elements and their number over all ranks, then divide once."
_LONGEST_SUMMARY_BYTES = 4096  # a few numbers per rank, even as pickled objects


def global_mean(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)`: every rank returns the mean over all elements of all ranks.

    The tensors have one dimension, float32 or float64, and a different number of elements on each rank, at least one.
    Return a float or a tensor with one element; leave the given tensor unchanged. Collectives and messages are both
    allowed, but not for the data itself: a sum and a count per rank are enough. One rank alone returns the mean of its
    tensor.
    """
    return examine(_GlobalMean(), function)


def mean_loss(function: Callable[[list[float]], object]) -> Report:
    """Check `function(losses)`: every rank returns the mean over the losses of all ranks.

    The losses are a list of floats, of different length on each rank; some are empty, but never all. Return a float or
    a tensor with one element; leave the given list unchanged. Collectives and messages are both allowed. One rank alone
    returns the mean of its list.
    """
    return examine(_MeanLoss(), function)


class _GlobalMean(Exercise):
    name = "global_mean"
    counted = "elements"
    cure_of_sizes = "Pass something of the same size on every rank: a sum and a count."
    messages_only = False
    keeps_input = True
    trials = with_lateness(
        [
            Trial((3,), lengths_differ=True),
            Trial((1,), trait="other lengths", lengths_differ=True),
            Trial((7,), trait="other lengths", lengths_differ=True),
            Trial((3,), "float64", trait="another dtype (float64)", lengths_differ=True),
            Trial((5000,), trait="long tensors", lengths_differ=True),
        ]
    )
    measured = "bytes sent by the busiest rank"
    yardstick = "enough"

    def expected(self, case: Case, rank: int) -> float:
        return float(torch.cat(case.inputs).double().mean())

    def difference(self, case: Case, rank: int) -> Difference | None:
        answer, right = self.answer(case, rank), self.expected(case, rank)
        if isinstance(answer, Tensor) and answer.numel() == 1:
            answer = answer.item()
        if isinstance(answer, bool) or not isinstance(answer, int | float):
            return Difference("", named(answer), number(right), f"It returns {named(answer)}. Return one number.")
        largest = float(torch.cat(case.inputs).abs().max())
        if abs(answer - right) <= 1e-4 * largest:  # false for nan
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
        return f"Too much is communicated: rank {rank} sends its data. A sum and a count per rank are enough."

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
            f"Rank {without[0]} has no losses and never calls {waiting.call}, so rank {waiting.rank} hangs in it. A "
            f"rank without losses must call it too, with a sum and a count of 0."
        )

    def why_failed(self, message: str) -> str:
        if "ZeroDivisionError" not in message and "StatisticsError" not in message:
            return ""
        return "A rank without losses divides by its own count, which is 0. Divide only by the sum of all counts."


def _likely_mistake(case: Case, rank: int, answer: float) -> str:
    inputs = [tensor.double() for tensor in case.inputs]
    sums, means = [float(one.sum()) for one in inputs], [float(one.sum()) / max(1, len(one)) for one in inputs]
    own_count, not_empty = max(1, inputs[rank].numel()), sum(one.numel() > 0 for one in inputs)
    count, world_size = sum(one.numel() for one in inputs), case.world_size
    total = sum(sums)
    mean_of_means = f"That is the mean of the ranks' means, but a rank with more elements must count more. {_SUM_BOTH}"
    known: Sequence[tuple[float, str]] = [
        (sum(means) / world_size, mean_of_means),
        (sum(means) / not_empty, mean_of_means),
        (means[rank], f"Rank {rank} returns the mean of its own elements only. {_SUM_BOTH}"),
        (total, "That is the sum over all ranks. Divide it by the number of elements on all ranks."),
        (
            total / world_size,
            "The sum was divided by the number of ranks. Divide it by the number of elements on all ranks.",
        ),
        (
            total / own_count,
            "The sum was divided by the count of this rank only. Sum the counts over the ranks too.",
        ),
        (
            sums[rank] / count,
            f"Rank {rank} divides its own sum by the total count. Sum the ranks' sums first.",
        ),
        (
            total / count / world_size,
            "The sum was divided by the number of ranks as well as by the count. Divide it by the count only.",
        ),
        (
            total / own_count / world_size,
            "The sum was divided by this rank's count times the number of ranks. Divide it by the sum of "
            "all ranks' counts.",
        ),
        (sum(means), f"That is the sum of the ranks' means. {_SUM_BOTH}"),
        (float(round(total / count)), "The mean was rounded to an integer. Return a float."),
        (float(int(total / count)), "The mean was truncated to an integer. Return a float."),
        *_of_wrong_parts(inputs),
    ]
    if answer != answer:
        return f"Rank {rank} returns nan. Look for a division of 0 by 0."
    if not inputs[rank].numel() and answer == 0:
        return f"Rank {rank} has no elements and returns 0. Return the mean over all ranks on every rank."
    close = 1e-4 * max(1.0, abs(answer))
    return next(
        (sentence for value, sentence in known if abs(value - answer) <= close),
        f"Rank {rank} does not return the mean of all elements. {_SUM_BOTH}",
    )


def _of_wrong_parts(inputs: Sequence[Tensor]) -> list[tuple[float, str]]:
    """The means that result if ranks pass something else than their sum and their count."""
    sums, counts = [float(one.sum()) for one in inputs], [one.numel() for one in inputs]
    empty = [rank for rank, count in enumerate(counts) if not count]
    given = [one for one in inputs if one.numel()]
    one_of_each = "That mean contains only one of each rank's elements. Sum and count all elements."
    counted = f"Rank {empty[0]} has no elements, but is counted as if it had one. Pass a count of 0." if empty else ""
    whole = "Each rank's sum was truncated to an integer. Keep the sum a float."
    largest = (
        "The sum was divided by the largest count times the number of ranks. Sum the counts (ReduceOp.SUM, not MAX)."
    )
    return [
        *([(sum(sums) / (sum(counts) + len(empty)), counted)] if empty else []),
        (sum(sums) / (max(counts) * len(inputs)), largest),
        (sum(map(int, sums)) / sum(counts), whole),
        *((float(sum(one[place] for one in given)) / len(given), one_of_each) for place in (0, -1)),
    ]
