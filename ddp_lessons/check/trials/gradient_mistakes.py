"""The likely mistake behind a wrong gradient in a learner's own DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch

from ddp_lessons.check.judging.exercise import Case
from ddp_lessons.check.trials.model_trials import is_close
from ddp_lessons.check.trials.replicated_training import Training, TrainingTrial, mean_training, own_gradients
from ddp_lessons.record.event import Event

_BACKWARD_ALONE = "Average in hooks that the wrapper registers on the parameters"


def trial_of(case: Case) -> TrainingTrial:
    assert isinstance(case.trial, TrainingTrial)
    return case.trial


def training_of(case: Case, rank: int) -> Training:
    training = case.outcomes[rank].given
    assert isinstance(training, Training)
    return training


def why_wrong_gradient(case: Case, rank: int, name: str, place: int) -> str:
    yours, world_size = training_of(case, rank).gradients[place][name], case.world_size
    if mean_training(trial_of(case), world_size).gradients[place][name] is None:
        return f"{name} is frozen, but has a gradient now. Skip frozen parameters."
    if yours is None:
        return f"The gradient of {name} is None after backward(). Put the mean into param.grad."
    known = _Known(case, name, place)
    if yours.shape != known.right.shape:
        return f"The gradient of {name} does not have the shape of the parameter. Keep the shape of param.grad."
    if is_close(yours, known.accumulated[rank]):
        return _why_own(case, rank, name, place)
    gradients = [
        (known.total, "That is the sum over the ranks. Divide it by the number of ranks."),
        (
            known.accumulated[rank] / world_size,
            f"Rank {rank} divides its own gradient without adding those of the other ranks. Sum the gradients "
            "over all ranks first.",
        ),
        (known.right / world_size, "The sum was divided by the number of ranks twice. Divide once."),
        (torch.zeros_like(yours), f"The gradient of {name} is zero. Put the mean into param.grad."),
        *(
            (one, f"Rank {rank} has the gradient of rank {n} only. Average over all ranks.")
            for n, one in enumerate(known.accumulated)
        ),
    ]
    if not known.is_first:
        new = reduce(torch.add, known.own) / world_size
        gradients += [
            (
                new,
                "The second backward() overwrites the first gradient. Add the new gradient to it.",
            ),
            (
                known.before,
                "The second backward() does not change the gradient. Add the mean of the new gradient to it.",
            ),
            (
                known.before / world_size + new,
                "The second backward() divides the first gradient again. Average only the new gradient, and add it "
                "to the first one.",
            ),
            (
                known.before * world_size + new,
                "The second backward() sums the first gradient over the ranks again. Average only the new "
                "gradient, and add it to the first one.",
            ),
        ]
    for value, sentence in gradients:
        if is_close(yours, value):
            return sentence
    divisor = float((known.total * known.total).sum() / (known.total * yours).sum())
    if is_close(yours * divisor, known.total):
        return f"The sum was divided by {divisor:.4g}. Divide it by the number of ranks, {world_size}."
    if not known.is_first:
        return (
            f"With gradient accumulation, the gradient of {name} is not the mean after the second backward(). Use "
            "register_post_accumulate_grad_hook, whose hook runs after the new gradient has been added to the first."
        )
    right = [other for other in range(world_size) if _is_right(case, other, name, place)]
    if right:
        return f"Rank {right[0]} has the mean, but rank {rank} does not. Put the mean into param.grad on every rank."
    return (
        f"The gradient of {name} on rank {rank} is not the mean over the ranks. Sum it over all ranks, and divide by "
        f"{world_size}."
    )


def _why_own(case: Case, rank: int, name: str, place: int) -> str:
    """After this backward(), the rank still has its own gradient."""
    gradients = training_of(case, rank).gradients[place]
    averaged = [other for other, one in gradients.items() if one is not None and _is_right(case, rank, other, place)]
    if averaged and _all_of_one_shape(case, rank, averaged):
        return (
            f"Every hook averages {averaged[0]}, because a lambda in a loop uses the last value of the loop variable. "
            "Use the parameter that the hook receives."
        )
    if averaged:
        return (
            f"The gradient of {averaged[0]} is averaged, but that of {name} is not. Register a hook on every parameter "
            "of every layer."
        )
    for other in range(case.world_size):
        if other != rank and _is_right(case, other, name, place):
            return (
                f"Rank {other} has the mean, but rank {rank} still has its own gradient. Register the hooks on "
                "every rank."
            )
        if other != rank and is_close(training_of(case, other).gradients[place][name], gradients[name]):
            return f"Rank {rank}'s gradient was copied to rank {other}. Average the gradients of all ranks."
    if place:
        return f"backward() number {place + 1} does not average, but the first one did. Keep the hooks registered."
    if any(event.operation not in ("broadcast", "barrier") for event in case.traffic.events):
        return (
            f"The ranks communicate, but after backward() rank {rank} still has its own gradient. Put the mean into "
            "param.grad before backward() returns."
        )
    return f"After backward() rank {rank} still has its own gradient. {_BACKWARD_ALONE}."


def _is_right(case: Case, rank: int, name: str, place: int) -> bool:
    right = mean_training(trial_of(case), case.world_size).gradients[place][name]
    return is_close(training_of(case, rank).gradients[place][name], right)


def _all_of_one_shape(case: Case, rank: int, averaged: Sequence[str]) -> bool:
    """Only one gradient is averaged, and several times."""
    shapes = [event.shape for event in _gradients_given(case, rank)]
    size = training_of(case, rank).gradients[0][averaged[0]]
    return len(averaged) == 1 and len(shapes) > 1 and size is not None and {*shapes} == {tuple(size.shape)}


def _gradients_given(case: Case, rank: int) -> list[Event]:
    """What a rank passes to collectives, except for the broadcasts at the start."""
    return [event for event in case.traffic.collectives if event.rank == rank and event.operation != "broadcast"]


def averages_again(case: Case) -> str:
    """A sentence if all ranks pass the same gradient: then it is already the mean."""
    calls = zip(*(_gradients_given(case, rank) for rank in range(case.world_size)), strict=False)
    if case.world_size == 1 or not any(map(_are_equal, calls)):
        return ""
    return (
        "Too much is communicated: averaged gradients are averaged again. Register one hook per parameter, which "
        "averages only the gradient of that parameter."
    )


def _are_equal(events: Sequence[Event]) -> bool:
    values = [torch.tensor(event.values) for event in events if event.values is not None and len(set(event.values)) > 1]
    return len(values) == len(events) and all(is_close(one, values[0]) for one in values)


class _Known:
    """Everything that one gradient may have become in one backward()."""

    def __init__(self, case: Case, name: str, place: int) -> None:
        trial, world_size = trial_of(case), case.world_size
        rights = mean_training(trial, world_size).gradients
        first_of_its_step = place in [sum(trial.backwards[:step]) for step in range(len(trial.backwards))]
        right = rights[place][name]
        assert right is not None
        self.own = [one[name] for one in own_gradients(trial, world_size, place)]
        before = None if first_of_its_step else rights[place - 1][name]
        self.before = torch.zeros_like(right) if before is None else before
        self.is_first = before is None
        self.accumulated = [self.before + own for own in self.own]
        self.right, self.total = right, reduce(torch.add, self.accumulated)
