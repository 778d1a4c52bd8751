"""Answers to the exercise `mean_loss`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import statistics
from typing import Any

import torch
import torch.distributed
from mean_answers import by_messages_through_rank_0
from torch import Tensor

dist: Any = torch.distributed
Losses = list[float]


# right


def sum_and_count(losses: Losses) -> Tensor:
    both = torch.tensor([sum(losses), float(len(losses))])
    dist.all_reduce(both)
    return both[0] / both[1]


def two_all_reduces(losses: Losses) -> float:
    total, count = torch.tensor(sum(losses), dtype=torch.float64), torch.tensor(len(losses))
    dist.all_reduce(total)
    dist.all_reduce(count)
    return total.item() / count.item()


def all_gather_of_objects(losses: Losses) -> float:
    everything: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everything, losses)
    return statistics.mean(loss for one in everything for loss in one)


def through_rank_0(losses: Losses) -> float:
    return by_messages_through_rank_0(torch.tensor(losses, dtype=torch.float64))


def a_guard_that_joins_all_the_same(losses: Losses) -> float:
    mine = torch.tensor([sum(losses), len(losses)]) if losses else torch.zeros(2)
    dist.all_reduce(mine)
    return float(mine[0] / mine[1])


RIGHT = [sum_and_count, two_all_reduces, all_gather_of_objects, through_rank_0, a_guard_that_joins_all_the_same]


# of learners who have read only the lesson


def three_numbers_by_messages(losses: Losses) -> float:
    """To rank 0 and back, with a sum and a count."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    both = torch.tensor([float(sum(losses)), float(len(losses))], dtype=torch.float64)
    if rank:
        dist.send(both, 0)
        dist.recv(both, 0)
    else:
        for source in range(1, world_size):
            theirs = torch.empty_like(both)
            dist.recv(theirs, source)
            both += theirs
        for other in range(1, world_size):
            dist.send(both, other)
    return float(both[0] / both[1])


def an_empty_list_is_a_tensor(losses: Losses) -> Tensor:
    mine = torch.tensor(losses, dtype=torch.float64)
    total, count = mine.sum(), torch.tensor(mine.numel())
    dist.all_reduce(total)
    dist.all_reduce(count)
    return total / count


def counts_of_those_that_have_none(losses: Losses) -> float:
    """It gives each rank a mean and a weight, and nothing to those without."""
    mean = sum(losses) / len(losses) if losses else 0.0
    pair = torch.tensor([mean * len(losses), len(losses)])
    pairs = [torch.zeros_like(pair) for _ in range(dist.get_world_size())]
    dist.all_gather(pairs, pair)
    total = torch.stack(pairs).sum(dim=0)
    return (total[0] / total[1]).item()


RIGHT += [three_numbers_by_messages, an_empty_list_is_a_tensor, counts_of_those_that_have_none]


# wrong


def mean_of_means(losses: Losses) -> float:
    mean = torch.tensor(statistics.mean(losses) if losses else 0.0)
    dist.all_reduce(mean)
    return mean.item() / dist.get_world_size()


def mean_of_means_of_those_that_have(losses: Losses) -> float:
    both = torch.tensor([statistics.mean(losses), 1.0] if losses else [0.0, 0.0])
    dist.all_reduce(both)
    return float(both[0] / both[1])


def an_empty_rank_returns_0(losses: Losses) -> float:
    mean = sum_and_count(losses)
    return float(mean) if losses else 0.0


def an_empty_rank_returns_nothing(losses: Losses) -> float | None:
    mean = sum_and_count(losses)
    return float(mean) if losses else None


def an_empty_rank_divides_by_its_count(losses: Losses) -> float:
    mean = torch.tensor([sum(losses) / len(losses), len(losses)])
    mean[0] *= mean[1]
    dist.all_reduce(mean)
    return float(mean[0] / mean[1])


def an_empty_rank_has_no_mean(losses: Losses) -> float:
    mean = torch.tensor(losses).mean()
    both = torch.stack([mean * len(losses), torch.tensor(float(len(losses)))])
    dist.all_reduce(both)
    return float(both[0] / both[1])


def an_empty_rank_counts_as_one_loss(losses: Losses) -> float:
    losses = losses or [0.0]
    both = torch.tensor([sum(losses), len(losses)])
    dist.all_reduce(both)
    return float(both[0] / both[1])


def its_own_mean(losses: Losses) -> float:
    return statistics.mean(losses)


def the_sum(losses: Losses) -> float:
    total = torch.tensor(sum(losses))
    dist.all_reduce(total)
    return total.item()


def divided_by_the_ranks(losses: Losses) -> float:
    return the_sum(losses) / dist.get_world_size()


def divided_by_its_own_count(losses: Losses) -> float:
    return the_sum(losses) / max(1, len(losses))


def the_sum_of_nothing_is_a_whole_number(losses: Losses) -> Tensor:
    both = torch.tensor([sum(losses), len(losses)])  # int64 for an empty list, float32 for others
    dist.all_reduce(both)
    return both[0] / both[1]


def changes_the_list(losses: Losses) -> float:
    mean = float(sum_and_count(losses))
    losses.append(mean)
    return mean


def only_on_rank_0(losses: Losses) -> float | None:
    both = torch.tensor([sum(losses), len(losses)])
    dist.reduce(both, 0)
    return float(both[0] / both[1]) if dist.get_rank() == 0 else None


def returns_a_pair(losses: Losses) -> object:
    both = torch.tensor([sum(losses), len(losses)])
    dist.all_reduce(both)
    return both


def does_not_wait(losses: Losses) -> float:
    both = torch.tensor([sum(losses), len(losses)])
    dist.all_reduce(both, async_op=True)
    return float(both[0] / both[1])


WRONG = [
    (
        mean_of_means,
        "That is the mean of the ranks' means, but a rank with more losses must count more. Sum the losses "
        "and their number over all ranks, then divide once",
    ),
    (mean_of_means_of_those_that_have, "That is the mean of the ranks' means"),
    (an_empty_rank_returns_0, "It works for a list of 3 losses, but fails for lists of which some are empty: rank 1"),
    (an_empty_rank_returns_nothing, "but fails for lists of which some are empty: only rank 0 has the answer"),
    (an_empty_rank_divides_by_its_count, "A rank without losses divides by its own count, which is 0"),
    (an_empty_rank_has_no_mean, "but fails for lists of which some are empty: rank 0 returns nan"),
    (
        an_empty_rank_counts_as_one_loss,
        "It works for a list of 3 losses, but fails for lists of which some are empty: rank 1 has no losses, but "
        "is counted as if it had one. Pass a count of 0",
    ),
    (
        the_sum_of_nothing_is_a_whole_number,
        "Dtype mismatch in all_reduce: the ranks pass float32 and int64. Give the dtype explicitly where the "
        "tensors are made",
    ),
    (its_own_mean, "Rank 0 returns the mean of its own losses only. Sum the losses and their number over all ranks"),
    (the_sum, "That is the sum over all ranks. Divide it by the number of losses on all ranks"),
    (
        divided_by_the_ranks,
        "The sum was divided by the number of ranks. Divide it by the number of losses on all ranks",
    ),
    (divided_by_its_own_count, "The sum was divided by the count of this rank only"),
    (changes_the_list, "The answer is right, but the given list was changed. Work on a copy: list(losses)"),
    (only_on_rank_0, "Only rank 0 has the answer"),
    (returns_a_pair, "It returns a tensor of shape [2]. Return one number"),
    (does_not_wait, "It reads the result of all_reduce too early"),
]


def reduces(losses: Losses) -> float:
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.reduce(both, 0)
    return float(both[0] / both[1])


def only_rank_0_divides(losses: Losses) -> float:
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.all_reduce(both)
    return float(both[0] / both[1]) if dist.get_rank() == 0 else float(both[0])


def nan_for_nothing(losses: Losses) -> float:
    mean = torch.tensor(losses, dtype=torch.float64).mean()
    both = torch.stack([mean * len(losses), torch.tensor(float(len(losses)), dtype=torch.float64)])
    dist.all_reduce(both)
    return float(both[0] / both[1])


def takes_what_all_reduce_returns(losses: Losses) -> float:
    both = dist.all_reduce(torch.tensor([sum(losses), len(losses)], dtype=torch.float64))
    return float(both[0] / both[1])


def gathers_lists_of_unequal_length(losses: Losses) -> float:
    received = [torch.zeros(len(losses)) for _ in range(dist.get_world_size())]
    dist.all_gather(received, torch.tensor(losses))
    return float(torch.cat(received).mean())


def divides_by_those_with_losses(losses: Losses) -> float:
    facts = torch.tensor([sum(losses), float(bool(losses))], dtype=torch.float64)
    dist.all_reduce(facts)
    return float(facts[0] / facts[1])


WRONG += [
    (reduces, "reduce gives the sum to one rank only"),
    (only_rank_0_divides, "Only rank 0 is right. On rank 1, that is the sum over all ranks"),
    (nan_for_nothing, "but fails for lists of which some are empty: rank 0 returns nan"),
    (takes_what_all_reduce_returns, "all_reduce returns None. Use the tensor that you passed, which holds the result"),
    (gathers_lists_of_unequal_length, "Pass something of the same size on every rank: a sum and a count"),
    (divides_by_those_with_losses, "The sum was divided by the number of ranks"),
]


# hanging


def returns_before_the_all_reduce(losses: Losses) -> Any:
    """The program of the exercise."""
    if not losses:
        return 0.0
    both = torch.tensor([sum(losses), len(losses)])
    dist.all_reduce(both)
    return both[0] / both[1]


def one_all_reduce_per_loss(losses: Losses) -> float:
    total, count = 0.0, 0.0
    for loss in losses:
        both = torch.tensor([loss, 1.0])
        dist.all_reduce(both)
        total, count = total + float(both[0]), count + float(both[1])
    return total / max(1.0, count)


def only_rank_0_asks(losses: Losses) -> float:
    both = torch.tensor([sum(losses), len(losses)])
    if dist.get_rank() == 0:
        dist.all_reduce(both)
    return float(both[0] / both[1])


HANGING = [
    (
        returns_before_the_all_reduce,
        "It works for a list of 3 losses, but fails for lists of which some are empty: rank 1 has no losses and "
        "never calls all_reduce, so rank 0 hangs in it. A rank without losses must call it too, with a sum and a "
        "count of 0",
    ),
    (
        one_all_reduce_per_loss,
        "Rank 1 returned after 1 call of all_reduce, but rank 0 waits in the next call. Make the same calls on "
        "every rank",
    ),
    (only_rank_0_asks, "Not every rank calls all_reduce"),
]


def comes_but_returns_0(losses: Losses) -> float:
    mean = sum_and_count(losses).item()
    return mean if losses else 0.0


def sums_without_fractions(losses: Losses) -> Tensor:
    both = torch.tensor([int(sum(losses)), len(losses)])
    dist.all_reduce(both)
    return both[0] / both[1]


def only_the_last_loss(losses: Losses) -> Tensor:
    return sum_and_count(losses[-1:])


WRONG += [
    (
        comes_but_returns_0,
        "It works for a list of 3 losses, but fails for lists of which some are empty: rank 1 has no losses and "
        "returns 0. Return the mean over all ranks on every rank",
    ),
    (sums_without_fractions, "Each rank's sum was truncated to an integer. Keep the sum a float"),
    (
        only_the_last_loss,
        "That mean contains only one of each rank's losses. Sum and count all losses",
    ),
]
