"""The exercise of one optimizer step on the mean over all tokens of all ranks and micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, named, number
from ddp_lessons.check.judging.exercise_trials import with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.trial_traffic import Standstill
from ddp_lessons.check.judging.wrapped_functions import compiler_at_hand, refusal
from ddp_lessons.check.trainings.gradient_exercise import first_difference
from ddp_lessons.check.trainings.micro_batches import Passes, Sums, TokensTrial, sums_of
from ddp_lessons.check.trials.model_trials import is_close
from ddp_lessons.run.diagnosis.wording import DDP, joined

TOLERANCE = 1e-6
_COUNT_FIRST = "Next: count the tokens of all micro-batches before the first backward()."


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


# the mistake behind a wrong gradient or loss


def sums_over_ranks(case: Case, by_ddp: bool) -> int:
    """Bytes that rank 0 passes to the all_reduce of DDP, or to calls of its own."""
    calls = [event for event in case.traffic.collectives if event.rank == 0 and event.operation != "broadcast"]
    return sum(event.bytes for event in calls if (event.call == DDP) == by_ddp)


def why_no_gradient(passes: Passes, name: str) -> str:
    if any(gradient is not None for gradient in passes.after.gradients.values()):
        return f"{name} has no gradient. Next: leave requires_grad and param.grad as they are."
    return "No parameter has a gradient. Next: call backward() on the loss of each micro-batch."


def why_wrong_gradient(case: Case, passes: Passes, sums: Sums) -> str:
    yours = torch.cat([one.flatten() for one in passes.after.gradients.values() if one is not None])
    ranks, right = sums.world_size, sums.gradient
    if not yours.isfinite().all():
        return _why_nan(sums)
    if ranks > 1 and max(sums_over_ranks(case, by_ddp=True), sums_over_ranks(case, by_ddp=False)) < yours.nbytes:
        return f"The ranks have different gradients: {_why_not_averaged(passes)}"
    if is_close(yours, ranks * right, TOLERANCE):
        return f"The gradient is {ranks} times too large. {_why_too_large(case)}"
    for factors, mistake in [*_means(sums), *_divisors(sums), *_parts(sums)]:
        if is_close(yours, sums.averaged(factors), TOLERANCE):
            return mistake
    if is_close(yours, sums.with_padding.sum((0, 1)) / sums.places, TOLERANCE):
        more = sums.places - sums.all_tokens
        return f"Padding is counted as {more} extra tokens. Next: use cross_entropy, which ignores targets of -100."
    factor = float((yours @ right) / (right @ right))
    if is_close(yours, factor * right, TOLERANCE):
        return f"The gradient is {factor:.4g} times the right one. {_multiply(sums)}"
    return f"That is not the gradient of the mean over all tokens. {_multiply(sums)}"


def _multiply(sums: Sums) -> str:
    return f"Next: multiply each summed loss by world_size / all tokens, here {sums.world_size} / {sums.all_tokens}."


def _why_nan(sums: Sums) -> str:
    without = (sums.tokens == 0).nonzero().tolist()
    if not without:
        return "The gradient is nan or inf. Next: divide by the number of tokens on all ranks."
    rank, turn = without[0]
    return (
        f"The gradient is nan: rank {rank} has no token in micro-batch {turn}, and the mean over none is 0 / 0. "
        'Next: use cross_entropy with reduction="sum".'
    )


def _why_not_averaged(passes: Passes) -> str:
    if not passes.forwards:
        return "model.module bypasses DDP, which averages them. Next: call model(tokens)."
    return (
        "DDP averages nothing, because no_sync() covers the last micro-batch too. Next: run the last micro-batch's "
        "forward and backward passes outside no_sync()."
    )


def _why_too_large(case: Case) -> str:
    if sums_over_ranks(case, by_ddp=False) >= case.tensor_bytes:
        return "DDP has averaged the gradients, and the function all-reduces them again. Next: remove that all_reduce."
    return "Next: multiply the loss by world_size once."


Known = Iterator[tuple[Tensor | float, str]]  # the factors of the summed losses, and the sentence


def _means(sums: Sums) -> Known:
    counts, many = sums.tokens, sums.micro_batches
    of_ranks, of_turns = counts.sum(1, keepdim=True), counts.sum(0)
    means = f"That is a mean of means: micro-batches of {counts.min()} to {counts.max()} tokens count equally."
    told = joined(of_turns.tolist())
    over_turns = f"That is a mean of the micro-batches' means, but they have {told} tokens. {_COUNT_FIRST}"
    told = joined(of_ranks.flatten().tolist())
    over_ranks = f"That is the mean of the ranks' means, but the ranks have {told} tokens. {_multiply(sums)}"
    for scale in (1.0, 1 / many) if many > 1 else ():
        yield scale / counts.clamp(min=1), f"{means} {_multiply(sums)}"
        yield scale / of_turns.clamp(min=1), over_turns
        yield scale * sums.world_size / of_turns.clamp(min=1), over_turns
    yield 1 / of_ranks.clamp(min=1), over_ranks
    yield sums.world_size / of_ranks.clamp(min=1), over_ranks


def _divisors(sums: Sums) -> Known:
    ranks, tokens, many = sums.world_size, sums.all_tokens, sums.micro_batches
    small = f"The gradient is {ranks} times too small, because DDP divides by the world size. "
    yield 1 / tokens, f"{small}Next: multiply the loss by world_size."
    small = f"The gradient is {many} times too small. Next: don't divide by the number of micro-batches."
    yield ranks / tokens / many, small
    instead = f"instead of {tokens} tokens. Next: count targets != -100."
    for scale in (1, ranks):
        yield scale / sums.places, f"It divides by {sums.places} targets, padding included, {instead}"
        yield scale / sums.sequences, f"It divides by {sums.sequences} sequences {instead}"
        yield float(scale), f"That is the gradient of a sum. {_multiply(sums)}"


def _parts(sums: Sums) -> Known:
    """One micro-batch in the place of all."""
    right = sums.world_size / sums.all_tokens
    for turn, tokens in enumerate(sums.tokens.sum(0).tolist()):
        what = f"the {tokens} tokens of micro-batch {turn}"
        yield sums.world_size / max(1, tokens), f"It divides by {what}, but all have {sums.all_tokens}. {_COUNT_FIRST}"
        only = f"Only micro-batch {turn} of {sums.micro_batches} is in the gradient. Next: leave out zero_grad()."
        yield right * (torch.arange(sums.micro_batches) == turn), only


def why_wrong_loss(sums: Sums, rank: int, answer: float) -> str:
    ranks, tokens, right = sums.world_size, sums.all_tokens, sums.loss
    own, means = sums.losses[rank], sums.losses / sums.tokens.clamp(min=1)
    of_ranks = sums.losses.sum(1) / sums.tokens.sum(1).clamp(min=1)
    local = f"Rank {rank} returns the loss of its own tokens only. Next: all_reduce the summed losses, and divide by "
    mean_of_means = f"The loss is a mean of means. Next: divide the sum of all losses by all {tokens} tokens."
    factors = (1.0, ranks, 1 / tokens, ranks / tokens)
    locals_ = [of_ranks[rank], means[rank].mean(), *means[rank]]
    locals_ += [factor * one for factor in factors for one in (own.sum(), *own)]
    known: list[tuple[Any, str]] = [
        *((value, f"{local}{tokens}.") for value in locals_),
        (means.mean(), mean_of_means),
        (of_ranks.mean(), mean_of_means),
        (right * tokens, f"The loss is a sum. Next: divide it by all {tokens} tokens."),
        (right * ranks, f"The loss is {ranks} times too large. Next: return it without the factor world_size."),
        (right / ranks, f"The loss is {ranks} times too small. Next: sum it over the ranks, without averaging."),
    ]
    if answer != answer:
        return 'The loss is nan: the mean over no tokens is 0 / 0. Next: use cross_entropy with reduction="sum".'
    close = TOLERANCE * max(1.0, abs(answer))
    return next(
        (sentence for value, sentence in known if abs(float(value) - answer) <= close),
        "The gradient is right, but the loss is not the mean over all tokens. Next: all_reduce the summed losses, and "
        f"divide by {tokens}.",
    )
