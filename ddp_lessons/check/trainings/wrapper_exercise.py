"""The exercise of writing your own DistributedDataParallel."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import torch
from torch import nn

from ddp_lessons.check.judging.check_launches import CheckFailed
from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise
from ddp_lessons.check.judging.exercise_trials import with_lateness
from ddp_lessons.check.judging.report import Report, not_right, not_started
from ddp_lessons.check.judging.trial_traffic import Standstill
from ddp_lessons.check.judging.unwritten_functions import binds_late, is_untouched, mentions
from ddp_lessons.check.judging.wrapped_functions import refusal
from ddp_lessons.check.trainings.gradient_exercise import AverageGradients, first_difference
from ddp_lessons.check.trials.gradient_mistakes import averages_again, training_of, trial_of, why_wrong_gradient
from ddp_lessons.check.trials.model_trials import is_close
from ddp_lessons.check.trials.replicated_training import (
    BEFORE_BACKWARD,
    TORCHS_OWN,
    TrainingTrial,
    mean_training,
    train,
)
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.diagnosis.wording import DDP
from ddp_lessons.run.launch import launch

_HOOK = "gradient_is_ready"  # the method that the lesson leaves empty
_TALKS = {
    *("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "all_gather_single"),
    *("all_gather_object", "broadcast_object_list", "reduce_scatter", "reduce_scatter_tensor", "gather", "scatter"),
    *("reduce_scatter_single", "all_to_all", "all_to_all_single", "all_reduce_coalesced"),
    *("send", "recv", "isend", "irecv"),
}


def my_ddp(cls: Callable[[nn.Module], Any]) -> Report:
    """Check `cls(module)`, created on every rank: called like the module, and after backward() all gradients are means.

    The ranks start with different weights and buffers, and must train with those of rank 0. The check compares the
    gradients of the given module's parameters right after backward(), also after a second one before a step. Some
    parameters are frozen, others belong to two layers; each that is not frozen gets a gradient on every rank. A
    function that wraps the module is accepted too.

    Communication overlaps with computation: at least one call is under way while another gradient is computed. Buckets
    are not needed: the report says how many calls a backward() makes, and how many start early.
    """
    exercise = _MyDDP()
    if report := _not_begun(exercise.name, cls):
        return report
    exercise.binds_late = any(map(binds_late, _functions_of(cls)))
    exercise.is_silent_when_wrong = any(mentions(function, _TALKS) for function in _functions_of(cls))
    report = examine(exercise, functools.partial(train, cls))
    if exercise.lacks_its_module and not exercise.is_silent_when_wrong:
        return not_started(exercise.name)
    if not report.passed:
        return report
    mistake, detail = _overlap(cls)
    return not_right(exercise.name, mistake) if mistake else replace(report, details=(*report.details, detail))


def _not_begun(name: str, cls: Any) -> Report | None:
    if isinstance(cls, nn.Module):
        kind = type(cls).__name__
        return not_right(name, f"It got a model that is already wrapped. Pass the class: check.my_ddp({kind}).")
    if isinstance(cls, type) and issubclass(cls, nn.parallel.DistributedDataParallel):
        return not_right(name, TORCHS_OWN)
    if isinstance(cls, type) and (not _functions_of(cls) or is_untouched(cls.__init__)):  # type: ignore[misc]
        return not_started(name)
    if isinstance(cls, type) and is_untouched(getattr(cls, _HOOK, id)):
        return not_started(name)
    return refusal(name, cls, ("module",))


def _functions_of(cls: Any) -> list[Any]:
    if not isinstance(cls, type):
        return [cls]
    kinds = [kind for kind in cls.__mro__ if kind not in (object, nn.Module)]
    return [function for kind in kinds for function in vars(kind).values() if inspect.isfunction(function)]


class _MyDDP(Exercise):
    name = "my_ddp"
    parameters = ("session",)
    thing = "model"
    world_sizes = (2, 3, 4, 1)
    messages_only = False
    returns_answer = False
    trials = with_lateness(
        [
            TrainingTrial((4, 3, 2)),
            TrainingTrial((4, 3, 2), trait="the next model", zeroes=True, backwards=(1, 1, 1)),
            TrainingTrial((3, 4, 4, 5), trait="two backward() calls before a step", backwards=(2, 1, 2)),
            TrainingTrial((4, 5, 3), "float64", trait="another dtype (float64)", largest_world=3),
            TrainingTrial((3, 4, 4, 4), trait="frozen parameters and shared ones", has_more=True),
        ]
    )
    measured = "bytes sent by the busiest rank"
    yardstick = "needed"
    cure_of_sizes = AverageGradients.cure_of_sizes

    def __init__(self) -> None:
        self.lacks_its_module = self.binds_late = False

    def difference(self, case: Case, rank: int) -> Difference | None:
        training = training_of(case, rank)
        if training.trouble:
            mistake = f"The wrapper {training.trouble}. Return the output of the module when the wrapper is called."
            return Difference("m(inputs)", training.trouble, "a tensor", mistake)
        if training.is_elsewhere:
            mistake = (
                "It trains a copy of the model. Wrap the given module itself, because the optimizer holds the "
                "parameters of that module."
            )
            return Difference("gradients", "in a copy", "in the model", mistake)
        calls, waited = _calls_and_waits(case)
        if waited < calls:
            return Difference("wait()", f"called for {waited} of {calls} calls", f"for all {calls}", "")
        return _first_difference(case).get(rank)

    def why_stuck(self, standstill: Standstill) -> str:
        operations = {call.operation for call in standstill.calls}
        if len(operations) > 1 and operations <= {"broadcast", "all_reduce"}:
            return (
                "Mismatched collectives: some ranks wait in broadcast and others in all_reduce. Make the same calls in "
                "the same order on every rank."
            )
        return ""

    def why_failed(self, message: str) -> str:
        self.lacks_its_module |= "has no attribute 'module'" in message
        no_gradient = _BINDS_LATE if self.binds_late else _NO_GRADIENT
        if BEFORE_BACKWARD in message and ".grad" in message:
            no_gradient = _NO_GRADIENT_YET
        known = [
            (TORCHS_OWN, TORCHS_OWN),
            ("register a hook on a tensor that doesn't", _TAKES_NO_HOOK),
            ("only be registered on tensors that require", _TAKES_NO_HOOK),
            ("NoneType", no_gradient),
            (
                "does not require grad and does not have a grad_fn",
                "The output of m(inputs) is not connected to the autograd graph. Return what the module returns, "
                "without no_grad.",
            ),
            (
                "leaf Variable that requires grad",
                "It changes weights in place while autograd records. Use param.data or no_grad.",
            ),
            (
                'missing the required "forward"',
                ("The class has no forward(). Define forward() to return the output of the module."),
            ),
            ("Module.__init__() call", "Call super().__init__() before assigning anything to self."),
        ]
        return next((sentence for sign, sentence in known if sign in message), "")

    def too_much(self, case: Case) -> str:
        return averages_again(case)

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        """The start weights of rank 0, and one gradient for each backward()."""
        trial = trial_of(case)
        gradient = sum(g.nbytes for g in mean_training(trial, case.world_size).gradients[0].values() if g is not None)
        start = sum(tensor.nbytes for tensor in mean_training(trial, case.world_size).start.values())
        return start + sum(trial.backwards) * gradient


_NO_GRADIENT = (
    "It uses a gradient that is None. A frozen parameter never has one, and another only when its "
    "register_post_accumulate_grad_hook runs: count, wait for and divide only these."
)
_NO_GRADIENT_YET = (
    "It reads a gradient in __init__, before there is one. Register the function itself as the hook: "
    "self.average, not self.average(param)."
)
_TAKES_NO_HOOK = "A hook cannot be registered on a frozen parameter. Skip parameters with requires_grad=False."
_BINDS_LATE = (
    "param.grad is still None: a lambda in a loop uses the last value of the loop variable. Use the "
    "parameter that the hook receives."
)


def _calls_and_waits(case: Case) -> tuple[int, int]:
    """Without a wait, what it reads may be right by chance. Broadcasts count only if nobody waits for them."""
    calls = [event for event in case.traffic.collectives if event.call != DDP and not event.error]
    calls = [event for event in calls if event.operation != "broadcast" or event.waited is None]
    return len(calls), sum(event.waited is not None for event in calls)


def _first_difference(case: Case) -> dict[int, Difference]:
    """By rank, at the first moment at which any rank is wrong: later differences may only follow from it."""
    moments: list[Callable[[Case, int], Difference | None]] = [_wrong_start, _wrong_weights]
    moments += [functools.partial(_wrong_gradient, place=place) for place in range(sum(trial_of(case).backwards))]
    for wrong in [*moments, _wrong_end]:
        found = {rank: wrong(case, rank) for rank in range(case.world_size)}
        if any(found.values()):
            return {rank: difference for rank, difference in found.items() if difference is not None}
    return {}


def _wrong_start(case: Case, rank: int) -> Difference | None:
    right, yours = mean_training(trial_of(case), case.world_size).start, training_of(case, rank).start
    for name, value in right.items():
        if not is_close(yours[name].double(), value.double()):
            return first_difference(name, yours[name], value, _why_wrong_start(case, rank, name))
    return None


def _why_wrong_start(case: Case, rank: int, name: str) -> str:
    yours = training_of(case, rank).start[name].double()
    starts = [trial_of(case).model(other).state_dict()[name].double() for other in range(case.world_size)]
    right = [
        other for other in mean_training(trial_of(case), case.world_size).start if _starts_right(case, rank, other)
    ]
    buffer = name in dict(trial_of(case).model(0).named_buffers())
    what = "buffer" if buffer else "parameter"
    if not any(case.traffic.brought):
        return (
            "No rank sends anything, so the ranks start with different weights and have different gradients. "
            "Broadcast the weights of rank 0."
        )
    if rank > 0 and is_close(yours, starts[rank]):
        if not right and any(event.operation == "broadcast" for event in case.traffic.events):
            return (
                f"Rank {rank} starts with its own weights, because rank 0's are broadcast into copies. Broadcast "
                "into the tensors themselves, with detach()."
            )
        if not right:
            return f"Rank {rank} starts with its own weights. Broadcast those of rank 0 in __init__."
        too = "the buffers too" if buffer else "every parameter, even frozen ones"
        return f"Rank {rank} starts with its own {what} {name}. Broadcast {too}, from rank 0."
    if is_close(yours, reduce(torch.add, starts) / case.world_size):
        return f"The {what} {name} starts as the mean over the ranks. Start with the values of rank 0 on every rank."
    for other, start in enumerate(starts):
        if other and is_close(yours, start):
            return (
                f"Rank {rank} starts with the {what} {name} of rank {other}. Start with the values of rank 0 on every "
                "rank."
            )
    return (
        f"The {what} {name} of rank {rank} differs from rank 0's in the first step. Broadcast rank 0's parameters and "
        "buffers in __init__."
    )


def _starts_right(case: Case, rank: int, name: str) -> bool:
    right = mean_training(trial_of(case), case.world_size).start[name].double()
    return is_close(training_of(case, rank).start[name].double(), right)


def _wrong_weights(case: Case, rank: int) -> Difference | None:
    if not training_of(case, rank).changes_weights:
        return None
    mistake = "backward() changes the weights. Average the gradients, and leave the step to the optimizer."
    return Difference("weights after backward()", "others", "as before", mistake)


def _wrong_gradient(case: Case, rank: int, place: int) -> Difference | None:
    right, yours = (
        mean_training(trial_of(case), case.world_size).gradients[place],
        training_of(case, rank).gradients[place],
    )
    for name, value in right.items():
        mine = yours[name]
        # a frozen parameter may have a zero gradient: it changes nothing
        if value is None and (mine is None or not mine.any()):
            continue
        if not is_close(mine, value):
            where = f"{name}.grad after backward() {place + 1}"
            return first_difference(where, mine, value, why_wrong_gradient(case, rank, name, place))
    return None


def _wrong_end(case: Case, rank: int) -> Difference | None:
    right, yours = mean_training(trial_of(case), case.world_size).end, training_of(case, rank).end
    for name, value in right.items():
        if not is_close(yours[name], value):
            mistake = "The gradients are right, but the wrapper changes the weights. Leave the step to the optimizer."
            return first_difference(name, yours[name], value, mistake)
    return None


def _overlap(cls: Callable[[nn.Module], Any]) -> tuple[str, str]:
    """A sentence if no call is under way while gradients are being computed, and how many calls begin early.

    Events of one process are compared by their order, so a busy machine changes nothing. It runs on this machine,
    where one clock holds for the hooks and for the calls.
    """
    try:
        results = launch(_one_backward, 2, cls, quiet=True)
    except (WorkerFailed, WorkersStuck) as failure:  # although the trials went well
        raise CheckFailed(str(failure)) from None
    begin, *ready, end = (moment - results.events.origin for moment in results[0])
    calls = [event for event in results.events.of(0) if event.operation != "barrier" and begin < event.begin < end]
    under_way = [(one.begin, one.end if one.is_blocking or one.waited is None else one.waited) for one in calls]
    early = sum(since < ready[-1] for since, _ in under_way)
    count = f"{len(calls)} {'call' if len(calls) == 1 else 'calls'} in one backward()"
    detail = f"    {count} of a model with 8 parameters, {early or 'none'} started before the last gradient was ready"
    if any(since < moment < (until or end) for since, until in under_way for moment in ready):
        return "", detail
    none = "each is complete before the next gradient is ready" if early else _NONE_EARLY
    return f"The gradients are right, but nothing overlaps: {count}, and {none}. {_START_EARLY}", detail


_NONE_EARLY = "none starts before the last gradient is ready"
_START_EARLY = "Start all_reduce(..., async_op=True) in each hook, and wait when the last gradient is ready."


def _one_backward(rank: int, world_size: int, cls: Callable[[nn.Module], Any]) -> list[float]:
    """When backward() begins, when each gradient is ready (before a hook of the wrapper runs), and when it ends."""
    trial = TrainingTrial((4, 4, 4, 4, 4))
    module, moments = trial.model(rank), [0.0]
    for parameter in module.parameters():
        parameter.register_post_accumulate_grad_hook(lambda _: moments.append(time.perf_counter()))
    wrapped = cls(module)
    for number_of_batch in range(2):  # the first one often differs
        loss = wrapped(trial.inputs(rank, number_of_batch)).square().sum()
        moments[:] = [time.perf_counter()]
        loss.backward()
    return [*moments, time.perf_counter()]
