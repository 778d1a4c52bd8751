"""The exercise of averaging gradients over ranks with different numbers of samples, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, said_nothing
from ddp_lessons.check.judging.exercise_trials import with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.trial_traffic import Standstill
from ddp_lessons.check.judging.unwritten_functions import mentions
from ddp_lessons.check.trainings.gradient_exercise import (
    AverageGradients,
    after_of,
    before_of,
    counts_of,
    gradients_of,
    mean_of,
    only_some,
    wrong_kind,
)
from ddp_lessons.check.trials.model_trials import ModelTrial, is_close


def weighted_average(function: Callable[[nn.Module, int], object]) -> Report:
    """Check `function(model, samples)`, called on every rank after backward() of the mean loss over its samples.

    Afterwards every gradient is the mean over the samples of all ranks: a rank with more samples counts more. The
    counts differ, and some are 0 (never all): the gradients of such a rank have no weight. Weights must not change, and
    parameters without a gradient must not get one. The returned value is ignored. Collectives and messages are both
    allowed. One rank alone keeps its gradients.
    """
    exercise = _WeightedAverage()
    exercise.is_silent_when_wrong = mentions(function, {"grad"})
    return examine(exercise, function)


@dataclass(frozen=True)
class CountedTrial(ModelTrial):
    """`counts[rank]` is the number of samples of a rank; further ranks begin again."""

    counts: tuple[int, ...] = (3, 5, 1, 2)

    def samples(self, rank: int) -> int:
        return self.counts[rank % len(self.counts)]

    def model(self, rank: int) -> nn.Module:
        model = super().model(rank)
        model.zero_grad()
        generator = torch.Generator().manual_seed(1000 * self.seed + 100 + rank)
        # every rank's data is different, so that none is typical
        inputs = torch.randn(self.samples(rank), self.shape[0], generator=generator) + rank / 2
        # over no samples the mean is nan, and its gradients are zeros
        model(inputs.to(getattr(torch, self.dtype))).square().sum(1).mean().backward()
        return model

    def arguments(self, rank: int) -> tuple[Any, ...]:
        return self.model(rank), self.samples(rank)

    def named(self, rank: int) -> str:
        samples = self.samples(rank)
        return f"{super().named(rank)}, and {samples} {'sample' if samples == 1 else 'samples'}"


class _WeightedAverage(AverageGradients):
    name = "weighted_average"
    parameters = ("model", "samples")
    world_sizes = (2, 3, 4, 1)
    trials = with_lateness(
        [
            CountedTrial((4, 3)),
            CountedTrial((4, 3), trait="the next model", counts=(1, 5, 2)),
            CountedTrial((5, 4, 3, 2), trait="a model with three layers", counts=(2, 3)),
            CountedTrial((4, 3, 2), "float64", trait="another dtype (float64)", largest_world=4),
            CountedTrial((4, 3, 2), trait="a model in which some parameters have no gradient", has_more=True),
            CountedTrial((4, 3), trait="very different numbers of samples", counts=(1, 700, 20), largest_world=4),
            CountedTrial((4, 3, 2), trait="ranks without samples", counts=(2, 0, 5), smallest_world=2),
            CountedTrial((4, 3), trait="ranks without samples", counts=(0, 4, 3), smallest_world=2),
        ]
    )

    def wrong_gradient(self, case: Case, rank: int, name: str) -> str:
        return wrong_kind(case, rank, name) or _wrong_numbers(case, rank, name)

    def why_stuck(self, standstill: Standstill) -> str:
        assert isinstance(standstill.trial, CountedTrial)
        without = [rank for rank in standstill.returned if not standstill.trial.samples(rank)]
        if without != list(standstill.returned) or not without:
            return ""
        waiting = standstill.calls[0]
        if standstill.made.get(without[0]):
            return (
                f"Rank {without[0]} has no samples and does not call {waiting.call} often enough, so rank "
                f"{waiting.rank} hangs. Make the same calls on every rank, even with gradients of 0."
            )
        return (
            f"Rank {without[0]} has no samples and never calls {waiting.call}, so rank {waiting.rank} hangs. Call "
            f"{waiting.call} on every rank, even with a count of 0."
        )

    def why_failed(self, message: str) -> str:
        if "ZeroDivisionError" in message:
            return "A rank without samples divides by its own count, which is 0. Divide only by the sum of all counts."
        return super().why_failed(message)

    def too_little(self, case: Case) -> str:
        return said_nothing(case, [rank for rank, count in enumerate(counts_of(case)) if count])

    def textbook(self, case: Case) -> int:
        return case.tensor_bytes + 8  # the gradients, and a count


def _wrong_numbers(case: Case, rank: int, name: str) -> str:
    yours, right = after_of(case, rank).gradients[name], mean_of(case, name)
    assert yours is not None
    assert right is not None
    if not yours.isfinite().all():
        return f"The gradient of {name} holds nan or inf. Divide only by the sum of all counts, which is never 0."
    if sentence := _grows(case, rank, name, yours, right):
        return sentence
    for value, sentence in _known(case, rank, name, yours):
        if is_close(yours, value):
            return sentence
    if sentence := only_some(case, rank, name):
        return sentence
    total, world_size = sum(counts_of(case)), case.world_size
    divisor = total * float((right * right).sum() / (right * yours).sum())
    if is_close(yours * divisor, right * total):
        return (
            f"The sum was divided by {divisor:.4g}, but {world_size} ranks have {total} samples together. Divide by "
            f"{total}."
        )
    return (
        f"The gradient of {name} on rank {rank} is not the mean over the samples of all ranks. Multiply it by this "
        "rank's count, sum the products over all ranks, then divide by the sum of the counts."
    )


def _known(case: Case, rank: int, name: str, yours: Tensor) -> Sequence[tuple[Tensor, str]]:
    """What the values may be instead, with the sentence for it."""
    gradients, counts, ranks = gradients_of(case, name), counts_of(case), case.world_size
    total, mine, own = sum(counts), counts[rank], gradients[rank]
    means = reduce(torch.add, gradients)
    samples = reduce(torch.add, [count * one for count, one in zip(counts, gradients, strict=True)])
    turned = reduce(torch.add, [one / max(1, count) for count, one in zip(counts, gradients, strict=True)])
    mean_of_means = (
        "That is the mean of the ranks' means, but a rank with more samples must count more. Multiply "
        "each gradient by its rank's count before the sum, and divide by the sum of all counts."
    )
    unweighted = (
        "The sum is over the ranks' means, not over the samples. Multiply each gradient by its rank's count first."
    )
    nothing_added = (
        f"Rank {rank} scales its own gradient, but adds no gradient of another rank. Sum the scaled gradients."
    )
    by_its_own = "The sum was divided by the count of this rank only. Divide it by the sum of all counts."
    by_as_many = (
        f"The sum was divided by {max(1, mine) * ranks}, which is the count of rank {rank} times the number of ranks. "
        f"Divide it by the sum of all counts, {' + '.join(map(str, counts))}."
    )
    upside_down = "Each gradient was divided by the count of its rank. Multiply it by the count instead."
    afterwards = (
        f"Rank {rank} multiplies the sum by its own count. Multiply each gradient by its rank's count before the sum."
    )
    return [
        (
            torch.zeros_like(own),
            f"The gradient of {name} is zero. This happens when a weight such as 1 / 4 is truncated to 0. Keep the "
            "weights as floats.",
        ),
        (means / ranks, mean_of_means),
        (means / max(1, sum(count > 0 for count in counts)), mean_of_means),
        (means, unweighted),
        (means / total, unweighted),
        (means / max(1, mine), unweighted),
        (samples, "That is the sum over all samples. Divide it by the number of samples on all ranks."),
        (
            samples / ranks,
            ("The sum was divided by the number of ranks. Divide it by the number of samples on all ranks."),
        ),
        (samples / max(1, mine), by_its_own),
        (samples / max(1, mine) / ranks, by_as_many),
        (
            samples / total / ranks,
            "The mean was divided by the number of ranks as well. Divide only by the number of samples.",
        ),
        (
            samples / total * ranks,
            f"That is {ranks} times the mean. This happens when the count is averaged over the ranks. Sum it instead.",
        ),
        (
            samples / max(counts),
            ("The sum was divided by the largest count. Divide it by the number of samples on all ranks."),
        ),
        (turned * ((yours * turned).sum() / (turned * turned).sum()).clamp(min=0), upside_down),
        (means * mine, afterwards),
        (means * mine / total, afterwards),
        (means * mine / ranks, afterwards),
        (means * mine / total / ranks, afterwards),
        *((own * factor, nothing_added) for factor in (mine, mine / total, 1 / max(1, mine), 1 / total, 1 / ranks)),
        (own * mine / total * ranks, nothing_added),
        (
            samples - own * mine,
            (f"That is the sum of the other ranks' gradients. Add the gradient of rank {rank}, then divide."),
        ),
        (
            (samples - own * mine) / total,
            f"The gradient of rank {rank} is missing from the sum. Add that gradient too.",
        ),
        (
            before_of(case, rank).weights[name],
            f"The gradient of {name} holds the weight itself. Average param.grad, not param.",
        ),
        *(
            (one, f"Rank {rank} has the gradient of rank {other} only. Average over all ranks.")
            for other, one in enumerate(gradients)
        ),
    ]


def _grows(case: Case, rank: int, name: str, yours: Tensor, right: Tensor) -> str:
    """A sentence if this gradient was divided by the number of ranks once more than the one before."""
    earlier = [other for other in gradients_before(case, rank, name) if other != name]
    powers = (case.world_size**power for power in range(1, len(earlier) + 1))
    if not earlier or not any(is_close(yours * factor, right) for factor in powers):
        return ""
    return (
        f"The count is summed again for every parameter, so {name} is divided by too much. Sum the count once, "
        f"before the loop."
    )


def gradients_before(case: Case, rank: int, name: str) -> list[str]:
    """The parameters with a gradient that come before this one in the model."""
    gradients = after_of(case, rank).gradients
    names = list(gradients)
    return [other for other in names[: names.index(name)] if gradients[other] is not None]
