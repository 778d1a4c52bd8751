"""The likely mistake behind a wrong accuracy, from the samples that each rank's model was shown."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence

from torch import Tensor

from ddp_lessons.check.judging.exercise import Case
from ddp_lessons.check.trials.recognition_trials import Tested, TestTrial

_SUM_BOTH = "Sum the correct predictions and the number of samples over all ranks, then divide once."


def trial_of(case: Case) -> TestTrial:
    assert isinstance(case.trial, TestTrial)
    return case.trial


def tested_by(case: Case, rank: int) -> Tested:
    tested = case.outcomes[rank].given
    assert isinstance(tested, Tested)
    return tested


class _Counts:
    """What each rank evaluated, and its numbers of correct predictions."""

    def __init__(self, case: Case) -> None:
        self._right = trial_of(case).recognized.tolist()
        self.samples = len(self._right)
        self.batches = [tested_by(case, rank).batches for rank in range(case.world_size)]
        self.shares = [tested_by(case, rank).all for rank in range(case.world_size)]
        self.sizes = [len(share) for share in self.shares]
        self.rights = [self.recognized(share) for share in self.shares]
        times = Counter(sample for share in self.shares for sample in share)
        self.missing = self.samples - len(times)
        self.repeated = sum(count - 1 for count in times.values())

    def recognized(self, samples: Sequence[int]) -> int:
        return sum(self._right[sample] for sample in samples)

    def mean(self, samples: Sequence[int]) -> float:
        return self.recognized(samples) / max(1, len(samples))

    @property
    def means(self) -> list[float]:
        return [self.mean(share) for share in self.shares]

    @property
    def means_of_batches(self) -> list[float]:
        """The mean of the batches' accuracies, by rank."""
        return [sum(map(self.mean, batches)) / max(1, len(batches)) for batches in self.batches]


def why_wrong_accuracy(case: Case, rank: int, answer: float) -> str:
    counts, world_size, right = _Counts(case), case.world_size, trial_of(case).accuracy
    everyone_tests_all = all(len(set(share)) == counts.samples for share in counts.shares) and world_size > 1
    if answer != answer:
        return f"Rank {rank} returns nan. Look for a division of 0 by 0."
    if is_equal(answer, 100 * right) and right:
        return "That is a percentage. Return a fraction between 0 and 1."
    if everyone_tests_all and is_equal(answer, world_size * right):
        return "Every rank evaluates all samples, and the results are summed. Give each rank its own partition."
    if answer == 0 and right and (why_zero := _why_zero(case, counts)):
        return why_zero
    others = [other for other in range(world_size) if _has(case, other, right)]
    if others:
        return f"Rank {others[0]} has the accuracy, but rank {rank} does not. Return the accuracy on every rank."
    for value, sentence in _means(counts, rank, world_size) + _quotients(counts, rank, world_size):
        if sentence and is_equal(answer, value):
            return sentence
    recognized = sum(counts.rights)
    with contextlib.suppress(ZeroDivisionError):
        divisor = recognized / answer
        if abs(divisor - round(divisor)) < 1e-3 and divisor >= 1:
            return (
                f"The {recognized} correct predictions are divided by {divisor:.0f}, but there are {counts.samples} "
                "samples. Divide by the number of samples on all ranks."
            )
    return _about_the_shares(counts) or (f"Rank {rank} does not return the accuracy over all samples. {_SUM_BOTH}")


def _means(counts: _Counts, rank: int, world_size: int) -> list[tuple[float, str]]:
    """Accuracies of parts, and means of them."""
    equal = len(set(counts.sizes)) == 1
    not_empty = max(1, sum(size > 0 for size in counts.sizes))
    mean_of_means = (
        f"That is the mean of the ranks' accuracies, but a rank with more samples must count more. {_SUM_BOTH}"
    )
    of_batches = (
        "That is the mean of the batches' accuracies, where a short last batch counts as much as a full one. Sum "
        "the counts instead."
        if any(len(batches) > 1 for batches in counts.batches)
        else ""
    )
    batches = sum(map(len, counts.batches))
    whole = sum(counts.rights) / max(1, sum(counts.sizes))
    return [
        (whole, _about_the_shares(counts)),
        (sum(counts.rights) / counts.samples, _about_the_shares(counts) if counts.repeated else ""),
        (
            counts.means[rank],
            f"Rank {rank} returns the accuracy of its own partition only. {_SUM_BOTH}",
        ),
        (sum(counts.means) / world_size, "" if equal else mean_of_means),
        (sum(counts.means) / not_empty, "" if equal else mean_of_means),
        (counts.means_of_batches[rank], of_batches),
        (sum(counts.means_of_batches) / world_size, of_batches),
        (sum(counts.mean(batch) for one in counts.batches for batch in one) / max(1, batches), of_batches),
    ]


def _quotients(counts: _Counts, rank: int, world_size: int) -> list[tuple[float, str]]:
    """Counts that are divided by the wrong number, or not at all."""
    recognized = sum(counts.rights)
    own = max(1, counts.sizes[rank])
    return [
        (sum(counts.means), f"That is the sum of the ranks' accuracies. {_SUM_BOTH}"),
        (
            _in_a_byte(recognized) / max(1, _in_a_byte(counts.samples)),
            f"The counts overflow their dtype with {counts.samples} samples. Count in int64."
            if counts.samples > _in_a_byte(counts.samples)
            else "",
        ),
        (recognized, "That is the number of correct predictions. Divide it by the number of samples on all ranks."),
        (
            counts.rights[rank],
            f"That is rank {rank}'s number of correct predictions. {_SUM_BOTH}",
        ),
        (
            counts.rights[rank] / counts.samples,
            f"Rank {rank} divides its own correct predictions by the total number of samples. Sum the correct "
            "predictions over all ranks first.",
        ),
        (
            recognized / own,
            "The sum was divided by the number of samples of this rank only. Sum the sample counts too.",
        ),
        (
            recognized / counts.samples / world_size,
            "The accuracy was divided by the number of ranks as well. Divide only by the number of samples.",
        ),
        (
            recognized / own / world_size,
            "The sum was divided by this rank's sample count times the number of ranks. Sum the sample counts over "
            "the ranks instead.",
        ),
        (recognized / world_size, "The sum was divided by the number of ranks. Divide it by the number of samples."),
        (
            world_size * recognized / counts.samples,
            "The counts of correct predictions were summed over the ranks twice. Sum them once.",
        ),
        (1 - recognized / counts.samples, "That is the error rate. Return the fraction of correct predictions."),
        (
            float(recognized // counts.samples),
            "The accuracy was truncated to an integer. Divide with /, not with //.",
        ),
    ]


def _in_a_byte(count: int) -> int:
    return count % 256


def _why_zero(case: Case, counts: _Counts) -> str:
    """A sentence, unless some rank communicates its number of correct predictions."""
    brought = [(event.rank, event.values or ()) for event in case.traffic.events]
    if any(counts.rights[rank] in values for rank, values in brought):
        return ""
    if any(counts.sizes[rank] in values for rank, values in brought):
        return "No prediction counts as correct. Check that argmax goes over the classes, with dim=1."
    return "The accuracy is 0. Take argmax over the classes, with dim=1, and divide with / instead of //."


def _about_the_shares(counts: _Counts) -> str:
    if counts.repeated:
        what = "sample is" if counts.repeated == 1 else "samples are"
        return (
            f"{counts.repeated} {what} counted twice: DistributedSampler repeats samples until all ranks have the "
            "same number. Take the indices range(rank, len(data), world_size) instead."
        )
    if counts.missing:
        is_or_are = "is" if counts.missing == 1 else "are"
        return (
            f"{counts.missing} of {counts.samples} samples {is_or_are} never evaluated: drop_last or a division with "
            "// leaves out the remainder. Include the remaining samples."
        )
    return ""


def _has(case: Case, rank: int, accuracy: float) -> bool:
    answer = case.outcomes[rank].answer
    if isinstance(answer, Tensor) and answer.numel() == 1:
        answer = answer.item()
    return isinstance(answer, int | float) and is_equal(answer, accuracy)


def is_equal(answer: float, value: float) -> bool:
    return abs(answer - value) <= 1e-5 * max(1.0, abs(value))
