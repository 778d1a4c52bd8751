"""The exercise of one optimizer step on the mean over all tokens of all ranks and micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, named, number
from ddp_lessons.check.judging.exercise_trials import with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.trial_traffic import Standstill
from ddp_lessons.check.judging.wrapped_functions import compiler_at_hand, refusal
from ddp_lessons.check.trainings.gradient_exercise import first_difference
from ddp_lessons.check.trainings.micro_batches import Passes, Sums, TokensTrial, sums_of
from ddp_lessons.check.trainings.token_mistakes import (
    TOLERANCE,
    sums_over_ranks,
    why_no_gradient,
    why_wrong_gradient,
    why_wrong_loss,
)
from ddp_lessons.check.trials.model_trials import is_close
from ddp_lessons.run.diagnosis.wording import DDP


def token_mean_loss(function: Callable[[Any, Any], object]) -> Report:
    """Check `function(model, micro_batches)`: the forward and backward passes of one step, on the mean over all tokens.

    `model` is a language model in DistributedDataParallel; model(tokens) returns logits of shape (sequences, length,
    vocabulary). `micro_batches` is a list of pairs (tokens, targets), int64 of shape (sequences, length); every rank
    has as many pairs. Targets of padding are -100 and do not count. A micro-batch may have only padding, and so may all
    of a rank's.

    Afterwards every gradient is that of the mean cross entropy over all tokens of all ranks and micro-batches, and the
    function returns this mean on every rank, as a float or a tensor with one element. Gradients travel once. Leave
    zero_grad() and step() to the caller.
    """
    if report := refusal(_TokenMeanLoss.name, function, _TokenMeanLoss.parameters):
        return report
    compiler_at_hand()  # the import takes longer than a check may
    return examine(_TokenMeanLoss(), function)


class _TokenMeanLoss(Exercise):
    name = "token_mean_loss"
    parameters = ("model", "micro_batches")
    thing = "step"
    world_sizes = (2, 3, 4, 1)
    messages_only = False
    returns_answer = False
    cure_of_sizes = "Next: run forward and backward for padding too."
    trials = with_lateness(
        [
            TokensTrial((), lengths=(((6, 5, 4), (2,), (3, 1)), ((2, 1), (4, 3), (1,)))),
            TokensTrial((), trait="the next step", lengths=(((6, 6), (1, 2)), ((3,), (5, 2)))),
            TokensTrial((), trait="one micro-batch", lengths=(((6, 2),), ((1,),), ((4, 1, 2),))),
            TokensTrial((), trait="a micro-batch of padding", lengths=(((3, 2), (4,)), ((0, 0), (2, 5)))),
            TokensTrial((), trait="a last micro-batch of padding", lengths=(((6, 3), (1,)), ((4,), (0, 0)))),
            TokensTrial((), trait="a rank without tokens", lengths=(((5,), (2, 3)), ((0,), (0, 0))), smallest_world=2),
            TokensTrial((), trait="rank 0 without tokens", lengths=(((0, 0),), ((6, 1),)), smallest_world=2),
        ]
    )
    measured = "bytes sent by the busiest rank"
    yardstick = "needed"

    def difference(self, case: Case, rank: int) -> Difference | None:
        assert isinstance(case.trial, TokensTrial)
        passes, sums = _passes(case, rank), sums_of(case.trial, case.world_size)
        weights = case.trial.before().weights
        rights = sums.gradient.split([weight.numel() for weight in weights.values()])
        for (name, weight), flat in zip(weights.items(), rights, strict=True):
            if not is_close(passes.after.weights[name], weight):
                mistake = "It changes the weights. Next: leave step() to the caller."
                return first_difference(name, passes.after.weights[name], weight, mistake)
            yours, right = passes.after.gradients[name], flat.view_as(weight)
            if yours is None:
                return first_difference(f"{name}.grad", None, right, why_no_gradient(passes, name))
            if not is_close(yours, right, TOLERANCE):
                return first_difference(f"{name}.grad", yours, right, why_wrong_gradient(case, passes, sums))
        return _wrong_loss(case, sums, rank)

    def why_stuck(self, standstill: Standstill) -> str:
        trial = standstill.trial
        assert isinstance(trial, TokensTrial)
        in_ddp = [call.rank for call in standstill.calls if call.call == DDP]
        elsewhere = [*standstill.returned, *(call.rank for call in standstill.calls if call.call != DDP)]
        if in_ddp and elsewhere:
            return (
                f"Rank {in_ddp[0]} hangs in the all_reduce of DDP's backward(), which rank {elsewhere[0]} does not "
                "call. Next: run forward and backward for padding too."
            )
        without = [rank for rank in standstill.returned if not sum(trial.tokens(rank))]
        if not without or without != list(standstill.returned):
            return ""
        first = standstill.calls[0]
        return (
            f"Rank {without[0]} has no tokens and returns, so rank {first.rank} hangs in {first.call}. Next: make the "
            "same calls on every rank."
        )

    def why_failed(self, message: str) -> str:
        if "ZeroDivisionError" in message:
            return (
                "A rank divides by its own number of tokens, which is 0. Next: divide by the number of "
                "tokens on all ranks."
            )
        if "does not require grad" in message:
            return "A loss that does not come from the model has no gradient. Next: call model(tokens) for padding too."
        return ""

    def too_much(self, case: Case) -> str:
        by_ddp, by_hand = (sums_over_ranks(case, by_ddp) / case.tensor_bytes for by_ddp in (True, False))
        if by_ddp + by_hand < 1.5:
            return ""
        action = "leave averaging to DDP's backward()" if by_ddp else "all_reduce them once, after the last backward()"
        if by_ddp > 1.5:
            action = "run forward and backward of all micro-batches but the last in model.no_sync()"
        return f"The result is right, but the gradients travel {by_ddp + by_hand:.0f} times. Next: {action}."

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return case.tensor_bytes + 16  # a count and a sum of losses


def _passes(case: Case, rank: int) -> Passes:
    passes = case.outcomes[rank].given
    assert isinstance(passes, Passes)
    return passes


def _wrong_loss(case: Case, sums: Sums, rank: int) -> Difference | None:
    answer: Any = case.outcomes[rank].answer
    if isinstance(answer, Tensor) and answer.numel() == 1:
        answer = answer.item()
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        mistake = f"It returns {named(answer)}. Next: return the mean loss over all tokens, one number."
        return Difference("loss", named(answer), number(sums.loss), mistake)
    if abs(answer - sums.loss) <= TOLERANCE * sums.loss:  # false for nan
        return None
    return Difference("loss", number(float(answer)), number(sums.loss), why_wrong_loss(sums, rank, float(answer)))
