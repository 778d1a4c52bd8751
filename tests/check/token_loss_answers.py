"""Answers to the exercise `token_mean_loss`: right ones, and wrong ones with the sentence that each must get."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.nn import functional as F

dist: Any = torch.distributed
Answer = Callable[[Any, Any], object]


def summed(model: Any, tokens: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum", ignore_index=-100)


def over_ranks(number: float, dtype: torch.dtype = torch.float64) -> float:
    tensor = torch.tensor(number, dtype=dtype)
    dist.all_reduce(tensor)
    return float(tensor)


def tokens_of(micro_batches: Any) -> int:
    return sum(int((targets != -100).sum()) for _, targets in micro_batches)


def syncing(model: Any, micro_batches: Any, number: int) -> Any:
    return contextlib.nullcontext() if number == len(micro_batches) - 1 else model.no_sync()


def with_factors(model: Any, micro_batches: Any, factor: Callable[[int, Tensor], float]) -> float:
    """One step in which the summed loss of each micro-batch is multiplied by its factor."""
    total = 0.0
    for number, (tokens, targets) in enumerate(micro_batches):
        with syncing(model, micro_batches, number):
            loss = summed(model, tokens, targets)
            (loss * factor(number, targets)).backward()
        total += loss.item()
    return over_ranks(total) / over_ranks(tokens_of(micro_batches))


# right


def by_the_book(model: Any, micro_batches: Any) -> float:
    count = torch.tensor(sum((targets != -100).sum() for _, targets in micro_batches))
    dist.all_reduce(count)
    total = torch.zeros((), dtype=torch.float64)
    for number, (tokens, targets) in enumerate(micro_batches):
        last = number == len(micro_batches) - 1
        with contextlib.nullcontext() if last else model.no_sync():
            loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum")
            loss = loss / count
            (loss * dist.get_world_size()).backward()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item()


def by_factors(model: Any, micro_batches: Any) -> float:
    every = over_ranks(tokens_of(micro_batches))
    return with_factors(model, micro_batches, lambda number, targets: dist.get_world_size() / every)


def mean_times_count(model: Any, micro_batches: Any) -> Tensor:
    """The mean of each micro-batch, weighted; without the nan of a micro-batch without tokens."""
    every, total = over_ranks(tokens_of(micro_batches), torch.float32), torch.zeros(1)
    for number, (tokens, targets) in enumerate(micro_batches):
        with syncing(model, micro_batches, number):
            loss = F.cross_entropy(model(tokens).transpose(1, 2), targets).nan_to_num() * (targets != -100).sum()
            (loss * dist.get_world_size() / every).backward()
        total += loss.detach()
    dist.all_reduce(total)
    return total / every


def one_backward(model: Any, micro_batches: Any) -> Tensor:
    loss = sum(summed(model, tokens, targets) for tokens, targets in micro_batches)
    count: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(count, tokens_of(micro_batches))
    loss = loss / sum(count)
    (loss * dist.get_world_size()).backward()
    mean = torch.as_tensor(loss).detach()
    dist.all_reduce(mean)
    return mean


def gradients_scaled_afterwards(model: Any, micro_batches: Any) -> float:
    """Sums go through backward(), and every gradient is divided once, without further traffic."""
    mean = with_factors(model, micro_batches, lambda number, targets: 1.0)
    every = over_ranks(tokens_of(micro_batches))
    for parameter in model.parameters():
        parameter.grad *= dist.get_world_size() / every
    return mean


def without_a_mask(model: Any, micro_batches: Any) -> float:
    """The count and the loss travel together, after backward(), and padding is left out by indexing."""
    both = torch.zeros(2, dtype=torch.float64)
    for number, (tokens, targets) in enumerate(micro_batches):
        with syncing(model, micro_batches, number):
            real = targets != -100
            loss = -model(tokens).log_softmax(-1)[real].gather(-1, targets[real].unsqueeze(-1)).sum()
            loss.backward()
        both += torch.stack([loss.detach(), real.sum()])
    dist.all_reduce(both)
    for parameter in model.parameters():
        parameter.grad.mul_(dist.get_world_size()).div_(both[1])
    return (both[0] / both[1]).item()


def without_ddp(model: Any, micro_batches: Any) -> float:
    """DDP's forward() is left out, and the gradients are summed by hand, once."""
    every, total = over_ranks(tokens_of(micro_batches)), 0.0
    for tokens, targets in micro_batches:
        loss = summed(model.module, tokens, targets) / every
        loss.backward()
        total += loss.item()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    return over_ranks(total)


RIGHT: list[Answer] = [
    *(
        by_the_book,
        by_factors,
        mean_times_count,
        one_backward,
        gradients_scaled_afterwards,
        without_a_mask,
        without_ddp,
    ),
]


# wrong


def mean_of_means(model: Any, micro_batches: Any) -> float:
    total = 0.0
    for number, (tokens, targets) in enumerate(micro_batches):
        with syncing(model, micro_batches, number):
            loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()) / len(micro_batches)
            loss.backward()
        total += loss.item()
    return over_ranks(total) / dist.get_world_size()


def mean_of_means_without_nan(model: Any, micro_batches: Any) -> float:
    many = len(micro_batches)
    return with_factors(model, micro_batches, lambda number, targets: 1 / max(1, int((targets != -100).sum())) / many)


def mean_of_the_ranks_means(model: Any, micro_batches: Any) -> float:
    mine = tokens_of(micro_batches)
    return with_factors(model, micro_batches, lambda number, targets: 1 / max(1, mine))


def mean_over_micro_batches(model: Any, micro_batches: Any) -> float:
    def factor(number: int, targets: Tensor) -> float:
        return dist.get_world_size() / max(1, over_ranks(tokens_of([(0, targets)]))) / len(micro_batches)

    return with_factors(model, micro_batches, factor)


def forgets_world_size(model: Any, micro_batches: Any) -> float:
    every = over_ranks(tokens_of(micro_batches))
    return with_factors(model, micro_batches, lambda number, targets: 1 / every)


def divides_by_micro_batches(model: Any, micro_batches: Any) -> float:
    every = over_ranks(tokens_of(micro_batches)) * len(micro_batches)
    return with_factors(model, micro_batches, lambda number, targets: dist.get_world_size() / every)


def counts_padding(model: Any, micro_batches: Any) -> float:
    every = over_ranks(sum(targets.numel() for _, targets in micro_batches))
    return with_factors(model, micro_batches, lambda number, targets: dist.get_world_size() / every)


def learns_padding(model: Any, micro_batches: Any) -> float:
    whole = [(tokens, targets.clamp(min=0)) for tokens, targets in micro_batches]
    return by_factors(model, whole)


def counts_sequences(model: Any, micro_batches: Any) -> float:
    every = over_ranks(sum(len(targets) for _, targets in micro_batches))
    return with_factors(model, micro_batches, lambda number, targets: dist.get_world_size() / every)


def counts_the_last_micro_batch(model: Any, micro_batches: Any) -> float:
    every = over_ranks(tokens_of(micro_batches[-1:]))
    return with_factors(model, micro_batches, lambda number, targets: dist.get_world_size() / max(1.0, every))


def sums_only(model: Any, micro_batches: Any) -> float:
    return with_factors(model, micro_batches, lambda number, targets: 1.0)


def clears_in_the_loop(model: Any, micro_batches: Any) -> float:
    every = over_ranks(tokens_of(micro_batches))

    def factor(number: int, targets: Tensor) -> float:
        model.zero_grad()
        return dist.get_world_size() / every

    return with_factors(model, micro_batches, factor)


def returns_its_own_loss(model: Any, micro_batches: Any) -> float:
    by_the_book(model, micro_batches)
    with torch.no_grad():
        total = sum(summed(model.module, tokens, targets).item() for tokens, targets in micro_batches)
    return total / max(1, tokens_of(micro_batches))


def returns_the_last_loss(model: Any, micro_batches: Any) -> Any:
    every = over_ranks(tokens_of(micro_batches))
    loss: Any = None
    for number, (tokens, targets) in enumerate(micro_batches):
        with syncing(model, micro_batches, number):
            loss = summed(model, tokens, targets) * dist.get_world_size() / every
            loss.backward()
    return loss


def returns_nothing(model: Any, micro_batches: Any) -> None:
    by_the_book(model, micro_batches)


def returns_a_sum(model: Any, micro_batches: Any) -> float:
    return by_the_book(model, micro_batches) * over_ranks(tokens_of(micro_batches))


def returns_it_with_world_size(model: Any, micro_batches: Any) -> float:
    loss: float = by_the_book(model, micro_batches) * dist.get_world_size()
    return loss


def averages_again(model: Any, micro_batches: Any) -> float:
    loss = by_the_book(model, micro_batches)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    return loss


def averages_again_and_divides(model: Any, micro_batches: Any) -> float:
    loss = averages_again(model, micro_batches)
    for parameter in model.parameters():
        parameter.grad /= dist.get_world_size()
    return loss


def never_syncs(model: Any, micro_batches: Any) -> float:
    with model.no_sync():
        return by_the_book(model, micro_batches)


def calls_the_module(model: Any, micro_batches: Any) -> float:
    every, total = over_ranks(tokens_of(micro_batches)), 0.0
    for tokens, targets in micro_batches:
        loss = summed(model.module, tokens, targets) / every
        (loss * dist.get_world_size()).backward()
        total += loss.item()
    return over_ranks(total)


def syncs_every_time(model: Any, micro_batches: Any) -> float:
    every, total = over_ranks(tokens_of(micro_batches)), 0.0
    for tokens, targets in micro_batches:
        loss = summed(model, tokens, targets) / every
        (loss * dist.get_world_size()).backward()
        total += loss.item()
    return over_ranks(total)


def averages_every_time_by_hand(model: Any, micro_batches: Any) -> float:
    every, total = over_ranks(tokens_of(micro_batches)), 0.0
    sums = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for tokens, targets in micro_batches:
        loss = summed(model.module, tokens, targets) / every
        for mine, own in zip(sums, torch.autograd.grad(loss, list(model.parameters())), strict=True):
            dist.all_reduce(own)
            mine += own
        total += loss.item()
    for parameter, mine in zip(model.parameters(), sums, strict=True):
        parameter.grad = mine
    return over_ranks(total)


def no_sync_around_backward_only(model: Any, micro_batches: Any) -> float:
    every, total = over_ranks(tokens_of(micro_batches)), 0.0
    for number, (tokens, targets) in enumerate(micro_batches):
        loss = summed(model, tokens, targets) / every
        with syncing(model, micro_batches, number):
            (loss * dist.get_world_size()).backward()
        total += loss.item()
    return over_ranks(total)


def takes_a_step(model: Any, micro_batches: Any) -> float:
    loss = by_the_book(model, micro_batches)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    return loss


def no_backward(model: Any, micro_batches: Any) -> float:
    with torch.no_grad():
        total = sum(summed(model, tokens, targets).item() for tokens, targets in micro_batches)
    return over_ranks(total) / over_ranks(tokens_of(micro_batches))


def mean_times_count_with_nan(model: Any, micro_batches: Any) -> float:
    every, total = over_ranks(tokens_of(micro_batches)), 0.0
    for number, (tokens, targets) in enumerate(micro_batches):
        with syncing(model, micro_batches, number):
            loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()) * (targets != -100).sum()
            (loss * dist.get_world_size() / every).backward()
        total += loss.item()
    return over_ranks(total) / every


def weights_its_mean(model: Any, micro_batches: Any) -> float:
    every, total = over_ranks(tokens_of(micro_batches)), 0.0
    for number, (tokens, targets) in enumerate(micro_batches):
        mask = targets != -100
        with syncing(model, micro_batches, number):
            scores = model(tokens).log_softmax(-1).gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
            loss = -(scores * mask).sum() / mask.sum() * (mask.sum() / every)
            (loss * dist.get_world_size()).backward()
        total += loss.nan_to_num().item()
    return over_ranks(total)


def skips_padding(model: Any, micro_batches: Any) -> float:
    every, total = over_ranks(tokens_of(micro_batches)), 0.0
    for number, (tokens, targets) in enumerate(micro_batches):
        if not (targets != -100).any():
            continue
        with syncing(model, micro_batches, number):
            loss = summed(model, tokens, targets) / every
            (loss * dist.get_world_size()).backward()
        total += loss.item()
    return over_ranks(total)


def skips_backward_of_padding(model: Any, micro_batches: Any) -> float:
    every, total = over_ranks(tokens_of(micro_batches)), 0.0
    for number, (tokens, targets) in enumerate(micro_batches):
        with syncing(model, micro_batches, number):
            loss = summed(model, tokens, targets) / every
            if (targets != -100).any():
                (loss * dist.get_world_size()).backward()
        total += loss.item()
    return over_ranks(total)


def returns_early_without_tokens(model: Any, micro_batches: Any) -> float:
    if not tokens_of(micro_batches):
        return 0.0
    return by_the_book(model, micro_batches)


def returns_after_the_count(model: Any, micro_batches: Any) -> float:
    mine = tokens_of(micro_batches)
    every = over_ranks(mine)
    if not mine:
        return 0.0
    return with_factors(model, micro_batches, lambda number, targets: dist.get_world_size() / every)


def divides_by_its_own_tokens(model: Any, micro_batches: Any) -> float:
    mine = tokens_of(micro_batches)
    every = over_ranks(mine)
    share = mine / every * dist.get_world_size()
    return with_factors(model, micro_batches, lambda number, targets: share / mine)


def counts_on_rank_0_only(model: Any, micro_batches: Any) -> float:
    count = torch.tensor(tokens_of(micro_batches))
    dist.reduce(count, 0)
    every = int(count)
    return with_factors(model, micro_batches, lambda number, targets: dist.get_world_size() / max(1, every))


def no_gradient_for_padding(model: Any, micro_batches: Any) -> float:
    every, total = over_ranks(tokens_of(micro_batches)), 0.0
    for number, (tokens, targets) in enumerate(micro_batches):
        with syncing(model, micro_batches, number):
            loss = torch.zeros(()) if not (targets != -100).any() else summed(model, tokens, targets) / every
            (loss * dist.get_world_size()).backward()
        total += loss.item()
    return over_ranks(total)


def prepared(model: Any, micro_batches: Any) -> None:
    world_size = dist.get_world_size()  # noqa: F841
    # your code


def prepared_and_raising(model: Any, micro_batches: Any) -> None:
    world_size = dist.get_world_size()
    raise NotImplementedError(f"for {world_size} ranks")


def only_dots(model: Any, micro_batches: Any) -> None: ...


WRONG: list[tuple[Answer, str]] = [
    (mean_of_means, "That is a mean of means: micro-batches of 1 to 15 tokens count equally. Next: multiply each"),
    (mean_of_means_without_nan, "That is a mean of means: micro-batches of 1 to 15 tokens count equally."),
    (mean_of_the_ranks_means, "That is the mean of the ranks' means, but the ranks have 21 and 11 tokens."),
    (mean_over_micro_batches, "That is a mean of the micro-batches' means, but they have 18, 9 and 5 tokens"),
    (forgets_world_size, "The gradient is 2 times too small, because DDP divides by the world size."),
    (divides_by_micro_batches, "The gradient is 3 times too small. Next: don't divide by the number of micro-batches."),
    (counts_padding, "It divides by 66 targets, padding included, instead of 32 tokens."),
    (learns_padding, "Padding is counted as 34 extra tokens."),
    (counts_sequences, "It divides by 11 sequences instead of 32 tokens."),
    (counts_the_last_micro_batch, "It divides by the 5 tokens of micro-batch 2, but all have 32."),
    (
        sums_only,
        "That is the gradient of a sum. Next: multiply each summed loss by world_size / all tokens, here 2 / 32",
    ),
    (clears_in_the_loop, "Only micro-batch 2 of 3 is in the gradient. Next: leave out zero_grad()."),
    (returns_its_own_loss, "Rank 0 returns the loss of its own tokens only."),
    (returns_the_last_loss, "Rank 0 returns the loss of its own tokens only."),
    (returns_nothing, "It returns None. Next: return the mean loss over all tokens, one number."),
    (returns_a_sum, "The loss is a sum. Next: divide it by all 32 tokens."),
    (returns_it_with_world_size, "The loss is 2 times too large."),
    (averages_again, "DDP has averaged the gradients, and the function all-reduces them again."),
    (
        averages_again_and_divides,
        "The result is right, but the gradients travel 2 times. Next: leave averaging to DDP's backward().",
    ),
    (never_syncs, "DDP averages nothing, because no_sync() covers the last micro-batch too."),
    (calls_the_module, "The ranks have different gradients: model.module bypasses DDP"),
    (syncs_every_time, "The result is right, but the gradients travel 3 times. Next: run forward and backward of all"),
    (averages_every_time_by_hand, "the gradients travel 3 times. Next: all_reduce them once, after the last backward"),
    (no_sync_around_backward_only, "The result is right, but the gradients travel 3 times."),
    (takes_a_step, "It changes the weights. Next: leave step() to the caller."),
    (no_backward, "No parameter has a gradient. Next: call backward() on the loss of each micro-batch."),
    (mean_times_count_with_nan, "The loss is nan: the mean over no tokens is 0 / 0."),
    (weights_its_mean, "The gradient is nan: rank 1 has no token in micro-batch 0, and the mean over none is 0 / 0."),
    (divides_by_its_own_tokens, "A rank divides by its own number of tokens, which is 0."),
    (no_gradient_for_padding, "A loss that does not come from the model has no gradient."),
    (counts_on_rank_0_only, "That is not the gradient of the mean over all tokens."),
    (
        skips_padding,
        "Mismatched collectives: rank 0 is in DDP's all_reduce, but rank 1 is in all_reduce. Next: run forward",
    ),
    (skips_backward_of_padding, "rank 0 is in DDP's all_reduce, but rank 1 is in all_reduce."),
]

HANGING: list[tuple[Answer, str]] = [
    (returns_early_without_tokens, "Rank 1 has no tokens and returns, so rank 0 hangs in all_reduce."),
    (returns_after_the_count, "Rank 0 hangs in the all_reduce of DDP's backward(), which rank 1 does not call."),
]
STUBS: list[Any] = [prepared, prepared_and_raising, only_dots]
