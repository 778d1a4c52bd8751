"""The exercise of testing a model on all ranks, so that every sample counts exactly once."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from ddp_lessons.check.examination import examine
from ddp_lessons.check.exercise import Case, Difference, Exercise, named, number
from ddp_lessons.check.recognition import Tested, TestTrial
from ddp_lessons.check.report import Report
from ddp_lessons.check.traffic import Standstill
from ddp_lessons.check.trials import with_lateness

_FEWER = "fewer samples than ranks"
_OTHER_BATCHES = "samples of which one rank has a batch more"
_LEFT_IN_EVAL = "the model is left in eval mode: without model.train(), the next epoch would train without dropout"
_LEFT_IN_TRAINING = (
    "a model that came in eval mode is left in training mode: keep model.training before, and give it to model.train()"
)
_IS_TENSOR = "it returns a tensor: item() makes it the float that was asked for"


def evaluate(function: Callable[[nn.Module, Any], object]) -> Report:
    """Check `function(model, data)`: every rank returns the accuracy over all samples, each of them counted once.

    `data` has a length, `data[i]` is an image and its label, and `data.images` and `data.labels` are all of them as
    tensors; every rank holds all of it. `model` takes batches of images, is the same on all ranks, and has a dropout.
    It is in training mode, once in eval mode; whether it is again afterwards does not matter, but is said.
    The answer is a float between 0 and 1; a tensor with one element will do, and is said as well. Collectives and
    messages are both allowed; that each rank tests everything is not. One rank alone returns its accuracy.
    """
    exercise = _Evaluate()
    report = examine(exercise, function)
    if not report.passed:
        return report
    return replace(report, details=(*report.details, *(f"    {remark}" for remark in exercise.remarks)))


class _Evaluate(Exercise):
    name = "evaluate"
    parameters = ("model", "data")
    thing = "data set"
    world_sizes = (2, 3, 4, 1)
    messages_only = False
    keeps_input = True
    trials = with_lateness(
        [
            TestTrial((37,)),  # in none of the worlds do all ranks get equally many
            TestTrial((41,), trait="a model in eval mode", largest_world=3, begins_in_training_mode=False),
            TestTrial((1,), trait=_FEWER, smallest_world=2),
            TestTrial((2,), trait=_FEWER, smallest_world=3),
            TestTrial((3,), trait=_FEWER, smallest_world=4),
            TestTrial((257,), trait=_OTHER_BATCHES, smallest_world=2, largest_world=2),
            TestTrial((2001,), trait=_OTHER_BATCHES, smallest_world=2, largest_world=2),
        ]
    )
    measured = "samples tested by the busiest rank"
    yardstick = "enough"

    def __init__(self) -> None:
        self.remarks: dict[str, None] = {}  # each once

    def difference(self, case: Case, rank: int) -> Difference | None:
        answer, right = self.answer(case, rank), _trial(case).accuracy
        is_tensor = isinstance(answer, Tensor)
        if isinstance(answer, Tensor) and answer.numel() == 1:
            answer = answer.item()
        if _tested(case, rank).in_training_mode:
            mistake = (
                "It tests in training mode, where dropout blanks out a part of what the model sees: call model.eval() "
                "before."
            )
            return Difference("mode while it tests", "training", "eval", mistake)
        if isinstance(answer, bool) or not isinstance(answer, int | float):
            return Difference("", named(answer), number(right), f"It returns {named(answer)}, not one number.")
        if is_tensor:
            self.remarks[_IS_TENSOR] = None
        if _tested(case, rank).is_in_training_mode_afterwards != _trial(case).begins_in_training_mode:
            self.remarks[_LEFT_IN_EVAL if _trial(case).begins_in_training_mode else _LEFT_IN_TRAINING] = None
        if abs(answer - right) <= 1e-5:  # not so for nan
            return None
        return Difference("accuracy", number(float(answer)), number(right), _likely_mistake(case, rank, float(answer)))

    def too_little(self, case: Case) -> str:
        samples = _trial(case).samples
        if samples == 1:  # a sampler gives it to everybody, and one of the answers is left out
            return ""
        everything = [rank for rank in range(case.world_size) if len(set(_tested(case, rank).all)) == samples]
        if len(everything) < case.world_size or case.world_size == 1:
            return ""
        return (
            "Every rank tests all samples, which takes as long as with one rank: give each rank a share, and add up "
            "the counts."
        )

    def why_stuck(self, standstill: Standstill) -> str:
        waiting, trial = standstill.calls[0], standstill.trial
        if not standstill.returned:
            return ""
        if trial.trait == _OTHER_BATCHES:
            return (
                f"Rank {standstill.returned[0]} has fewer batches than rank {waiting.rank}, which waits for it in "
                f"{waiting.call}: add up on each rank first, and call {waiting.call} once, behind the loop."
            )
        if trial.trait == _FEWER and isinstance(trial, TestTrial) and min(standstill.returned) >= trial.samples:
            return (
                f"Rank {standstill.returned[0]} has no samples and never calls {waiting.call}, where rank "
                f"{waiting.rank} waits for it: a rank with nothing to test has to come too, with counts of 0."
            )
        return ""

    def why_failed(self, message: str) -> str:
        known = [
            ("batch_size", "A batch size has to be a whole number: divide with //, not with /."),
            (
                "ZeroDivisionError",
                "A rank without samples divides by its count, which is 0: divide only what all ranks have added up.",
            ),
            ("num_samples should be", "A rank without samples cannot shuffle them: leave out shuffle=True."),
            ("non-empty", "A rank without samples has no outputs to put together: count, and begin with 0."),
        ]
        return next((sentence for sign, sentence in known if sign in message), "")

    def carried(self, case: Case) -> int:
        return max(len(_tested(case, rank).all) for rank in range(case.world_size))

    def textbook(self, case: Case) -> int:
        return -(-_trial(case).samples // case.world_size)


def _trial(case: Case) -> TestTrial:
    assert isinstance(case.trial, TestTrial)
    return case.trial


def _tested(case: Case, rank: int) -> Tested:
    tested = case.outcomes[rank].given
    assert isinstance(tested, Tested)
    return tested


class _Counts:
    """What each rank tested, and how many of these the model recognised."""

    def __init__(self, case: Case) -> None:
        self._right = _trial(case).recognised.tolist()
        self.samples = len(self._right)
        self.batches = [_tested(case, rank).batches for rank in range(case.world_size)]
        self.shares = [_tested(case, rank).all for rank in range(case.world_size)]
        self.sizes = [len(share) for share in self.shares]
        self.rights = [self.recognised(share) for share in self.shares]
        times = Counter(sample for share in self.shares for sample in share)
        self.missing = self.samples - len(times)
        self.repeated = sum(count - 1 for count in times.values())

    def recognised(self, samples: Sequence[int]) -> int:
        return sum(self._right[sample] for sample in samples)

    def mean(self, samples: Sequence[int]) -> float:
        return self.recognised(samples) / max(1, len(samples))

    @property
    def means(self) -> list[float]:
        return [self.mean(share) for share in self.shares]

    @property
    def means_of_batches(self) -> list[float]:
        """By rank, the mean of what its batches have."""
        return [sum(map(self.mean, batches)) / max(1, len(batches)) for batches in self.batches]


def _likely_mistake(case: Case, rank: int, answer: float) -> str:
    counts, world_size, right = _Counts(case), case.world_size, _trial(case).accuracy
    everyone_tests_all = all(len(set(share)) == counts.samples for share in counts.shares) and world_size > 1
    if answer != answer:
        return f"Rank {rank} returns nan, which is not a number: somewhere nothing is divided by nothing."
    if _is(answer, 100 * right) and right:
        return "That is a percentage: return a fraction between 0 and 1."
    if everyone_tests_all and _is(answer, world_size * right):
        return "Every rank tests all samples, and then they are added up: give each rank a share."
    others = [other for other in range(world_size) if _has(case, other, right)]
    if others:
        return f"Rank {others[0]} has the accuracy, and rank {rank} does not: every rank needs it."
    for value, sentence in _means(counts, rank, world_size) + _quotients(counts, rank, world_size):
        if sentence and _is(answer, value):
            return sentence
    recognised = sum(counts.rights)
    with contextlib.suppress(ZeroDivisionError):
        divisor = recognised / answer
        if abs(divisor - round(divisor)) < 1e-3 and divisor >= 1:
            return f"The {recognised} recognised samples are divided by {divisor:.0f}, and there are {counts.samples}."
    return _about_the_shares(counts) or f"Rank {rank} has another accuracy than that over all samples."


def _means(counts: _Counts, rank: int, world_size: int) -> list[tuple[float, str]]:
    """Accuracies of parts, and means of them."""
    equal = len(set(counts.sizes)) == 1
    not_empty = max(1, sum(size > 0 for size in counts.sizes))
    mean_of_means = (
        "That is the mean of the ranks' accuracies: a rank with more samples has to count for more. Add up what is "
        "recognised and what is tested, and divide once."
    )
    of_batches = (
        "That is the mean of the batches' accuracies, and a short last batch counts like a full one: add up counts."
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
            f"Rank {rank} returns the accuracy of its own share: nothing of the other ranks is in it.",
        ),
        (sum(counts.means) / world_size, "" if equal else mean_of_means),
        (sum(counts.means) / not_empty, "" if equal else mean_of_means),
        (counts.means_of_batches[rank], of_batches),
        (sum(counts.means_of_batches) / world_size, of_batches),
        (sum(counts.mean(batch) for one in counts.batches for batch in one) / max(1, batches), of_batches),
    ]


def _quotients(counts: _Counts, rank: int, world_size: int) -> list[tuple[float, str]]:
    """Counts that are divided, or not, by what they should not be divided by."""
    recognised = sum(counts.rights)
    own = max(1, counts.sizes[rank])
    return [
        (sum(counts.means), "That is the sum of the ranks' accuracies: add up counts instead, and divide once."),
        (recognised, "That is how many samples are recognised: divide by how many there are."),
        (counts.rights[rank], f"That is how many samples rank {rank} recognises: add up, and divide."),
        (
            counts.rights[rank] / counts.samples,
            f"Rank {rank} divides what it recognises itself by the number of all samples: add up over the ranks first.",
        ),
        (recognised / own, "The sum was divided by the samples of this rank alone: these have to be added up as well."),
        (recognised / counts.samples / world_size, "The accuracy was divided by the number of ranks once more."),
        (
            recognised / own / world_size,
            "The sum was divided by this rank's samples times the ranks, but not all ranks have equally many.",
        ),
        (recognised / world_size, "The sum was divided by the number of ranks, not by the number of samples."),
        (
            world_size * recognised / counts.samples,
            "The counts of recognised samples were added up over the ranks twice.",
        ),
        (1 - recognised / counts.samples, "That is the share of the samples that are not recognised."),
        (
            float(recognised // counts.samples),
            "The accuracy was cut down to a whole number: divide with /, not with //.",
        ),
    ]


def _about_the_shares(counts: _Counts) -> str:
    if counts.repeated:
        what = "sample is" if counts.repeated == 1 else "samples are"
        return (
            f"{counts.repeated} {what} counted twice: a DistributedSampler repeats samples until all ranks have "
            "equally many."
        )
    if counts.missing:
        is_or_are = "is" if counts.missing == 1 else "are"
        return (
            f"{counts.missing} of {counts.samples} samples {is_or_are} never tested: drop_last, or a division with //, "
            "leaves out the remainder."
        )
    return ""


def _has(case: Case, rank: int, accuracy: float) -> bool:
    answer = case.outcomes[rank].answer
    if isinstance(answer, Tensor) and answer.numel() == 1:
        answer = answer.item()
    return isinstance(answer, int | float) and _is(answer, accuracy)


def _is(answer: float, value: float) -> bool:
    return abs(answer - value) <= 1e-5 * max(1.0, abs(value))
