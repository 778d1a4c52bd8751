"""The exercise of averaging gradients over all ranks, between backward() and step()."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor, nn

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, number, said_nothing
from ddp_lessons.check.judging.exercise_trials import with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.trial_traffic import Standstill
from ddp_lessons.check.trials.model_trials import ModelTrial, Snapshot, is_close


def average_gradients(function: Callable[[nn.Module], object]) -> Report:
    """Check `function(model)`, called on every rank after backward(): every gradient becomes the mean over the ranks.

    The models have the same weights on all ranks, which must not change, and different gradients. A parameter without a
    gradient has none on any rank, and must not get one. The returned value is ignored. Collectives and messages are
    both allowed. One rank alone keeps its gradients.
    """
    return examine(AverageGradients(), function)


_SUM_AND_DIVIDE = "Sum the gradients over all ranks, then divide by the number of ranks."


class AverageGradients(Exercise):
    """Also for weighted averages: the trial gives the weights of the ranks."""

    name = "average_gradients"
    parameters: tuple[str, ...] = ("model",)
    thing = "model"
    messages_only = False
    returns_answer = False
    is_silent_when_wrong = True
    cure_of_sizes = (
        "A rank skips a parameter, or uses another order. Loop over the same parameters in the same order on every "
        "rank."
    )
    trials = with_lateness(
        [
            ModelTrial((4, 3)),
            ModelTrial((4, 3), trait="the next model"),
            ModelTrial((5, 4, 3, 2), trait="a model with three layers"),
            ModelTrial((4, 3, 2), "float64", trait="another dtype (float64)", largest_world=4),
            ModelTrial((4, 3, 2), trait="a model in which some parameters have no gradient", has_more=True),
            ModelTrial((4, 3, 2), trait="a model whose gradients are zero on one rank", without_effect=1),
        ]
    )
    measured = "bytes sent by the busiest rank"
    yardstick = "needed"

    def difference(self, case: Case, rank: int) -> Difference | None:
        before, after = before_of(case, rank), after_of(case, rank)
        for name, weight in before.weights.items():
            if not is_close(after.weights.get(name), weight):
                mistake = "It changes the weights. Average param.grad, and leave the step to the optimizer."
                return first_difference(name, after.weights.get(name), weight, mistake)
        for name in before.gradients:
            yours, right = after.gradients[name], mean_of(case, name)
            if not is_close(yours, right):
                return first_difference(f"{name}.grad", yours, right, self.wrong_gradient(case, rank, name))
        return None

    def wrong_gradient(self, case: Case, rank: int, name: str) -> str:
        return _zeros_left_out(case, rank, name) or wrong_kind(case, rank, name) or _wrong_numbers(case, rank, name)

    def why_stuck(self, standstill: Standstill) -> str:
        assert isinstance(standstill.trial, ModelTrial)
        zero = standstill.trial.without_effect
        if zero is None or list(standstill.returned) != [zero]:
            return ""
        waiting = standstill.calls[0]
        made_some = bool(standstill.made.get(zero))
        calls = f"does not call {waiting.call} often enough" if made_some else f"never calls {waiting.call}"
        return (
            f"Rank {zero} has only zero gradients and {calls}, so rank {waiting.rank} hangs. Include zero gradients "
            f"in the mean."
        )

    def why_failed(self, message: str) -> str:
        if "NoneType" not in message or "and 'NoneType'" in message:  # divided by None, which is not a gradient
            return ""
        return "The param.grad of a parameter without a gradient is None. Skip that parameter."

    def too_little(self, case: Case) -> str:
        return said_nothing(case, range(case.world_size))

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return case.tensor_bytes


def before_of(case: Case, rank: int) -> Snapshot:
    assert isinstance(case.trial, ModelTrial)
    return case.trial.before(rank)


def after_of(case: Case, rank: int) -> Snapshot:
    snapshot = case.outcomes[rank].given
    assert isinstance(snapshot, Snapshot)
    return snapshot


def gradients_of(case: Case, name: str) -> list[Tensor]:
    """The gradients of all ranks before; an empty list if the parameter has none."""
    gradients = [before_of(case, rank).gradients[name] for rank in range(case.world_size)]
    return [gradient for gradient in gradients if gradient is not None]


def mean_of(case: Case, name: str) -> Tensor | None:
    gradients, counts = gradients_of(case, name), counts_of(case)
    if not gradients:
        return None
    parts = [count * gradient for count, gradient in zip(counts, gradients, strict=True)]
    return reduce(torch.add, parts) / sum(counts)


def counts_of(case: Case) -> list[int]:
    """The weight of each rank."""
    assert isinstance(case.trial, ModelTrial)
    return [case.trial.samples(rank) for rank in range(case.world_size)]


def first_difference(place: str, yours: Tensor | None, right: Tensor | None, mistake: str) -> Difference:
    """The first differing element."""
    if yours is None or right is None or yours.shape != right.shape:
        return Difference(place, _shown(yours), _shown(right), mistake)
    far = (yours.double() - right.double()).abs()
    wrong = ~(far <= 1e-5 * right.abs().max())  # nan too
    index = tuple(wrong.nonzero()[0].tolist())
    return Difference(f"{place}{list(index) if index else ''}", _round(yours[index]), _round(right[index]), mistake)


def _shown(tensor: Tensor | None) -> str:
    return "None" if tensor is None else f"shape {list(tensor.shape)}"


def _round(value: Tensor) -> str:
    return number(float(f"{value.item():.5g}"))


def wrong_kind(case: Case, rank: int, name: str) -> str:
    """A sentence if the gradient is missing, of the wrong shape or unchanged."""
    yours, right = after_of(case, rank).gradients[name], mean_of(case, name)
    if right is None:
        return f"{name} had no gradient, but has one now. Skip parameters whose grad is None."
    if yours is None:
        nothing = " all_reduce returns None." if _calls(case, "all_reduce") else ""
        return f"The gradient of {name} is None now. Put the mean into param.grad.{nothing}"
    if yours.shape != right.shape:
        return f"The gradient of {name} does not have the shape of the parameter. Keep the shape of param.grad."
    if is_close(yours, before_of(case, rank).gradients[name]):
        return _why_unchanged(case, rank, name)
    return ""


def _zeros_left_out(case: Case, rank: int, name: str) -> str:
    """A sentence if the sum was divided by the number of ranks whose gradients are not zero."""
    assert isinstance(case.trial, ModelTrial)
    if case.trial.without_effect is None or case.world_size == 1 or mean_of(case, name) is None:
        return ""
    total = reduce(torch.add, gradients_of(case, name))
    if not is_close(after_of(case, rank).gradients[name], total / (case.world_size - 1)):
        return ""
    return "The divisor leaves out a rank whose gradient is zero. Divide by the world size."


def _why_unchanged(case: Case, rank: int, name: str) -> str:
    """The rank still has its own gradient of this name."""
    if not any(case.traffic.brought):
        return (
            f"No rank sends a gradient, so rank {rank} still has its own gradient. Call all_reduce on every param.grad."
        )
    if _weights_travel(case):
        return "It averages the weights, which are already equal. Average param.grad instead."
    gradients = after_of(case, rank).gradients
    averaged = [other for other in gradients if gradients[other] is not None and _is_mean(case, rank, other)]
    if averaged:
        return f"{averaged[0]} is averaged, but {name} is not. Average every parameter of every layer, biases included."
    others = [other for other in range(case.world_size) if other != rank]
    for other in others:
        if _is_mean(case, other, name):
            return (
                f"Rank {other} has the mean, but rank {rank} still has its own gradient. Put the mean into param.grad "
                "on every rank."
            )
        if is_close(after_of(case, other).gradients[name], gradients[name]):
            return f"Rank {other} has a copy of rank {rank}'s gradient. Average the gradients of all ranks."
    return "The ranks communicate, but the gradients do not change. Put the mean into param.grad."


def _calls(case: Case, operation: str) -> bool:
    return any(event.operation == operation for event in case.traffic.collectives)


def _is_mean(case: Case, rank: int, name: str) -> bool:
    return is_close(after_of(case, rank).gradients[name], mean_of(case, name))


def _weights_travel(case: Case) -> bool:
    weights = [weight.flatten() for weight in before_of(case, 0).weights.values()]
    brought = [torch.tensor(event.values) for event in case.traffic.events if event.rank == 0 and event.values]
    # also if each rank has scaled its own
    return any(is_close(one / one.abs().max(), weight / weight.abs().max()) for one in brought for weight in weights)


def _wrong_numbers(case: Case, rank: int, name: str) -> str:
    yours = after_of(case, rank).gradients[name]
    assert yours is not None
    if not yours.isfinite().all():
        return (
            f"The gradient of {name} on rank {rank} holds nan or inf. Divide by the number of ranks, which is never 0."
        )
    gradients, world_size = gradients_of(case, name), case.world_size
    total = reduce(torch.add, gradients)
    weight = before_of(case, rank).weights[name]
    known = [
        (
            total,
            "That is the sum over the ranks. Divide param.grad in place by the number of ranks: param.grad /= "
            "world_size.",
        ),
        (
            gradients[rank] / world_size,
            f"Rank {rank} divides its own gradient without adding those of the other ranks. Sum the gradients "
            "over all ranks first.",
        ),
        (total / world_size**2, "The sum was divided by the number of ranks twice. Divide once."),
        (
            total - gradients[rank],
            (f"That is the sum of the other ranks' gradients. Add the gradient of rank {rank}, then divide."),
        ),
        (torch.zeros_like(total), f"The gradient of {name} is zero. Put the mean into param.grad."),
        (weight, f"The gradient of {name} holds the weight itself. Average param.grad, not param."),
        *(
            (one, f"Rank {rank} has the gradient of rank {other} only. Average over all ranks.")
            for other, one in enumerate(gradients)
        ),
        (torch.stack(gradients).amax(0), f"That is the maximum over the ranks (ReduceOp.MAX). {_SUM_AND_DIVIDE}"),
        (torch.stack(gradients).amin(0), f"That is the minimum over the ranks (ReduceOp.MIN). {_SUM_AND_DIVIDE}"),
    ]
    for value, sentence in known:
        if is_close(yours, value):
            return sentence
    if yours.numel() > 1 and is_close(yours, yours.flatten()[0].expand_as(yours)):
        return f"All elements of the gradient of {name} are equal. Take the mean over the ranks, not over the elements."
    if is_close(yours, total / world_size, 1e-2):
        return f"The gradient of {name} is almost the mean, but digits were lost. Keep the dtype."
    divisor = float((total * total).sum() / (total * yours).sum())
    if is_close(yours * divisor, total):
        return f"The sum was divided by {divisor:.4g}, but there are {world_size} ranks. Divide by {world_size}."
    return only_some(case, rank, name) or (
        f"The gradient of {name} on rank {rank} is not the mean over the ranks. {_SUM_AND_DIVIDE}"
    )


def only_some(case: Case, rank: int, name: str) -> str:
    """A sentence if other ranks are right."""
    right = [other for other in range(case.world_size) if _is_mean(case, other, name)]
    if not right:
        return ""
    return f"Rank {right[0]} has the mean, but rank {rank} does not. Put the mean into param.grad on every rank."
