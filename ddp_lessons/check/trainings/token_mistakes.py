"""The likely mistake behind a wrong gradient, or a wrong loss, in a step over micro-batches with unequal tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ddp_lessons.check.judging.exercise import Case
from ddp_lessons.check.trainings.micro_batches import Passes, Sums
from ddp_lessons.check.trials.model_trials import is_close
from ddp_lessons.run.diagnosis.wording import DDP, joined

TOLERANCE = 1e-6
_COUNT_FIRST = "Next: count the tokens of all micro-batches before the first backward()."


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
