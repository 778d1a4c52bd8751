"""The exercise of evaluating a model on all ranks, with every sample counted exactly once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, named, number
from ddp_lessons.check.judging.exercise_trials import with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.trial_traffic import Standstill
from ddp_lessons.check.trials.accuracy_mistakes import tested_by, trial_of, why_wrong_accuracy
from ddp_lessons.check.trials.recognition_trials import TestTrial

_ENOUGH_FOR_ALL, _LEAST_SHARE = 1000, 4  # with so many samples, every rank has at least a quarter of an equal partition
_FEWER = "fewer samples than ranks"
_OTHER_BATCHES = "samples that give one rank an extra batch"
_LEFT_IN_EVAL = (
    "It leaves the model in eval mode, so the next epoch would train without dropout. Save model.training "
    "first, and pass it to model.train() at the end."
)
_LEFT_IN_TRAINING = (
    "The model was in eval mode, but is left in training mode. Save model.training first, and pass it to "
    "model.train() at the end."
)
_LEFT_FROZEN = (
    "It leaves parameters with requires_grad=False, so they would no longer train. Evaluate under "
    "torch.no_grad() instead."
)
_WITH_GRADIENTS = "It builds an autograd graph for every batch. Evaluate under torch.no_grad()."
_IS_TENSOR = "it returns a tensor; item() turns it into the float that the exercise asks for"


def evaluate(function: Callable[[nn.Module, Any], object]) -> Report:
    """Check `function(model, data)`: every rank returns the accuracy over all samples, each of them counted once.

    `data` has a length, `data[i]` is an image and its label, and `data.images` and `data.labels` are all of them as
    tensors; every rank holds all of it. `model` takes batches of images, is the same on all ranks, and contains
    dropout. It is in training mode, once in eval mode, and must be in the same mode afterwards. Evaluate without
    autograd.

    Return a float between 0 and 1; the report mentions a tensor with one element, but accepts it. Collectives and
    messages are both allowed. The ranks share the work: no rank evaluates everything. One rank alone returns its
    accuracy.
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
            TestTrial((37,)),  # no world size divides it
            TestTrial((41,), trait="a model in eval mode", largest_world=3, begins_in_training_mode=False),
            TestTrial((1,), trait=_FEWER, smallest_world=2),
            TestTrial((2,), trait=_FEWER, smallest_world=3),
            TestTrial((3,), trait=_FEWER, smallest_world=4),
            TestTrial((257,), trait=_OTHER_BATCHES, smallest_world=2, largest_world=2),
            TestTrial((2001,), trait=_OTHER_BATCHES, smallest_world=2, largest_world=2),
        ]
    )
    measured = "samples evaluated by the busiest rank"
    yardstick = "needed"

    def __init__(self) -> None:
        self.remarks: dict[str, None] = {}  # each only once

    def difference(self, case: Case, rank: int) -> Difference | None:
        answer, right = self.answer(case, rank), trial_of(case).accuracy
        is_tensor = isinstance(answer, Tensor)
        if isinstance(answer, Tensor) and answer.numel() == 1:
            answer = answer.item()
        if tested_by(case, rank).in_training_mode:
            mistake = (
                "It evaluates in training mode, where dropout sets random inputs to zero. Call model.eval() first."
            )
            return Difference("mode during evaluation", "training", "eval", mistake)
        if isinstance(answer, bool) or not isinstance(answer, int | float):
            return Difference("", named(answer), number(right), f"It returns {named(answer)}. Return one number.")
        if is_tensor:
            self.remarks[_IS_TENSOR] = None
        if abs(answer - right) <= 1e-5:  # false for nan
            return _left_changed(case, rank)
        return Difference(
            "accuracy", number(float(answer)), number(right), why_wrong_accuracy(case, rank, float(answer))
        )

    def too_little(self, case: Case) -> str:
        samples, world_size = trial_of(case).samples, case.world_size
        tested = [len(set(tested_by(case, rank).all)) for rank in range(world_size)]
        if samples == 1 or world_size == 1:  # a sampler gives it to every rank, and all but one answer are left out
            return ""
        if min(tested) == samples:
            return (
                "Every rank evaluates all samples, which takes as long as on one rank. Give each rank its own "
                "partition, and sum the counts."
            )
        if samples < _ENOUGH_FOR_ALL or _LEAST_SHARE * min(tested) * world_size >= samples:
            return ""
        busy, idle = tested.index(max(tested)), tested.index(min(tested))
        return (
            f"Straggler: rank {busy} evaluates {tested[busy]} of {samples} samples, rank {idle} "
            f"{tested[idle] or 'none'}. Give each rank an equal partition, and sum the counts."
        )

    def why_stuck(self, standstill: Standstill) -> str:
        waiting, trial = standstill.calls[0], standstill.trial
        if not standstill.returned:
            return ""
        if trial.trait == _OTHER_BATCHES:
            return (
                f"Rank {standstill.returned[0]} has fewer batches than rank {waiting.rank}, which hangs in "
                f"{waiting.call}. Sum on each rank first, and call {waiting.call} once, after the loop."
            )
        if trial.trait == _FEWER and isinstance(trial, TestTrial) and min(standstill.returned) >= trial.samples:
            return (
                f"Rank {standstill.returned[0]} has no samples and never calls {waiting.call}, so rank "
                f"{waiting.rank} hangs. Call {waiting.call} on every rank, even with counts of 0."
            )
        return ""

    def why_failed(self, message: str) -> str:
        known = [
            ("batch_size", "A batch size must be an integer. Divide with //, not with /."),
            (
                "ZeroDivisionError",
                "A rank without samples divides by its own count, which is 0. Divide only by the sum of all counts.",
            ),
            ("num_samples should be", "A rank without samples cannot shuffle them. Leave out shuffle=True."),
            ("non-empty", "A rank without samples has no outputs to concatenate. Count instead, starting at 0."),
        ]
        return next((sentence for sign, sentence in known if sign in message), "")

    def carried(self, case: Case) -> int:
        return max(len(tested_by(case, rank).all) for rank in range(case.world_size))

    def textbook(self, case: Case) -> int:
        return -(-trial_of(case).samples // case.world_size)


def _left_changed(case: Case, rank: int) -> Difference | None:
    """The accuracy is right. Is the model unchanged, and was autograd off?"""
    tested, came_in_training_mode = tested_by(case, rank), trial_of(case).begins_in_training_mode
    if tested.with_gradients:
        return Difference("gradients", "kept for", "off", _WITH_GRADIENTS)
    if tested.is_frozen_afterwards:
        return Difference("requires_grad", "False", "True", _LEFT_FROZEN)
    if tested.is_in_training_mode_afterwards == came_in_training_mode:
        return None
    if came_in_training_mode:
        return Difference("mode afterwards", "eval", "training", _LEFT_IN_EVAL)
    return Difference("mode afterwards", "training", "eval", _LEFT_IN_TRAINING)
