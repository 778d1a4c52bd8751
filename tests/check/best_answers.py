"""Answers to the exercise `share_best`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


def all_scores(score: float) -> list[float]:
    scores = [torch.zeros(1, dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(scores, torch.tensor([score], dtype=torch.float64))
    return [float(one) for one in scores]


# right


def gather_scores_then_broadcast(score: float, tensor: Tensor) -> Tensor:
    scores = all_scores(score)
    dist.broadcast(tensor, scores.index(max(scores)))
    return tensor


def in_place(score: float, tensor: Tensor) -> None:
    gather_scores_then_broadcast(score, tensor)


def scores_as_objects(score: float, tensor: Tensor) -> Tensor:
    scores: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(scores, score)
    best, received = max(range(len(scores)), key=scores.__getitem__), tensor.clone()
    dist.broadcast(received, best)
    return received


def the_highest_then_the_lowest_rank_that_has_it(score: float, tensor: Tensor) -> Tensor:
    highest, world_size = torch.tensor([score], dtype=torch.float64), dist.get_world_size()
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    candidate = torch.tensor([dist.get_rank() if score == highest.item() else world_size])
    dist.all_reduce(candidate, op=dist.ReduceOp.MIN)
    dist.broadcast(tensor, int(candidate))
    return tensor


def everything_to_everyone(score: float, tensor: Tensor) -> Tensor:
    scores = all_scores(score)
    tensors = [torch.empty_like(tensor) for _ in scores]
    dist.all_gather(tensors, tensor)
    return tensors[scores.index(max(scores))]


def rank_0_decides(score: float, tensor: Tensor) -> Tensor:
    rank, world_size, received = dist.get_rank(), dist.get_world_size(), torch.zeros(1, dtype=torch.float64)
    if rank:
        dist.send(torch.tensor([score], dtype=torch.float64), 0)
        best = torch.zeros(1, dtype=torch.int64)
    else:
        scores = [score]
        for other in range(1, world_size):
            dist.recv(received, other)
            scores.append(float(received))
        best = torch.tensor([scores.index(max(scores))])
    dist.broadcast(best, 0)
    dist.broadcast(tensor, int(best))
    return tensor


def a_row_of_scores(score: float, tensor: Tensor) -> Tensor:
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.all_reduce(scores)
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor


RIGHT = [
    a_row_of_scores,
    gather_scores_then_broadcast,
    in_place,
    scores_as_objects,
    the_highest_then_the_lowest_rank_that_has_it,
    everything_to_everyone,
    rank_0_decides,
]


# of learners who have read only the lesson


def pairs_of_score_and_rank(score: float, tensor: Tensor) -> Tensor:
    pairs: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(pairs, (-score, dist.get_rank()))
    dist.broadcast(tensor, src=min(pairs)[1])
    return tensor


def scores_into_one_tensor(score: float, tensor: Tensor) -> Tensor:
    scores = torch.empty(dist.get_world_size(), dtype=torch.double)
    dist.all_gather_single(scores, torch.tensor([score], dtype=torch.double))
    best = int((scores == scores.max()).nonzero()[0])
    received = tensor.clone()
    dist.broadcast(received, best)
    return received


def objects_to_everyone(score: float, tensor: Tensor) -> Tensor:
    offers: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(offers, (score, tensor))
    return max(offers, key=lambda offer: offer[0])[1]


def a_row_that_begins_low(score: float, tensor: Tensor) -> None:
    scores = torch.full((dist.get_world_size(),), -torch.inf, dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.all_reduce(scores, op=dist.ReduceOp.MAX)
    dist.broadcast(tensor, src=int(torch.argmax(scores)))


def the_best_of_a_chain(score: float, tensor: Tensor) -> Tensor:
    """Each rank hands the better of two on to the next, and the last one tells all."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    best, mine = torch.tensor([score], dtype=torch.float64), tensor.clone()
    if rank > 0:
        before, theirs = torch.empty_like(best), torch.empty_like(tensor)
        dist.recv(before, rank - 1)
        dist.recv(theirs, rank - 1)
        if before.item() >= score:
            best, mine = before, theirs
    if rank < world_size - 1:
        dist.send(best, rank + 1)
        dist.send(mine, rank + 1)
    dist.broadcast(mine, world_size - 1)
    return mine


RIGHT += [
    pairs_of_score_and_rank,
    scores_into_one_tensor,
    objects_to_everyone,
    a_row_that_begins_low,
    the_best_of_a_chain,
]


# wrong


def always_rank_0(score: float, tensor: Tensor) -> Tensor:
    dist.broadcast(tensor, 0)
    return tensor


def the_lowest_score(score: float, tensor: Tensor) -> Tensor:
    scores = all_scores(score)
    dist.broadcast(tensor, scores.index(min(scores)))
    return tensor


def the_last_of_the_best(score: float, tensor: Tensor) -> Tensor:
    scores = all_scores(score)
    best = max(range(len(scores)), key=lambda rank: (scores[rank], rank))
    dist.broadcast(tensor, best)
    return tensor


def begins_to_look_at_0(score: float, tensor: Tensor) -> Tensor:
    best, best_score = 0, 0.0
    for rank, one in enumerate(all_scores(score)):
        if one > best_score:
            best, best_score = rank, one
    dist.broadcast(tensor, best)
    return tensor


def scores_without_their_digits(score: float, tensor: Tensor) -> Tensor:
    scores = [int(one) for one in all_scores(score)]
    dist.broadcast(tensor, scores.index(max(scores)))
    return tensor


def its_own(score: float, tensor: Tensor) -> Tensor:
    return tensor


def talks_and_returns_its_own(score: float, tensor: Tensor) -> Tensor:
    gather_scores_then_broadcast(score, tensor.clone())
    return tensor


def returns_nothing(score: float, tensor: Tensor) -> None:
    gather_scores_then_broadcast(score, tensor.clone())


def returns_the_score(score: float, tensor: Tensor) -> float:
    gather_scores_then_broadcast(score, tensor)
    return max(all_scores(score))


def the_mean(score: float, tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor)
    return tensor


def takes_one(tensor: Tensor) -> Tensor:
    return tensor


WRONG = [
    (always_rank_0, "Rank 0 ends with its own tensor (score 1.5), but rank 1 has 4"),
    (the_lowest_score, "Rank 0 ends with its own tensor (score 1.5), but rank 1 has 4"),
    (the_last_of_the_best, "has the same score. In a tie, choose the lowest rank"),
    (begins_to_look_at_0, "but fails for negative scores: rank 0 ends with its own tensor (score -3)"),
    (scores_without_their_digits, "but fails for scores that differ only in their decimals"),
    (its_own, "Rank 0 ends with its own tensor, because no rank sends anything"),
    (
        talks_and_returns_its_own,
        "Rank 1 has the best score and broadcasts its tensor, but rank 0 returns its own. Return the tensor that "
        "you broadcast into",
    ),
    (returns_nothing, "It returns None and does not change its tensor"),
    (returns_the_score, "It returns the number 4.0. Return a tensor"),
    (the_mean, "Rank 0 ends with a tensor that no rank started with"),
    (takes_one, "The check calls takes_one(score, tensor) with two arguments, but the definition is takes_one(tensor"),
]


def gathers_in(dtype: Any, score: float) -> Tensor:
    scores = [torch.zeros(1, dtype=dtype) for _ in range(dist.get_world_size())]
    dist.all_gather(scores, torch.tensor([score], dtype=dtype))
    return torch.cat(scores)


def in_single_precision(score: float, tensor: Tensor) -> Tensor:
    dist.broadcast(tensor, int(gathers_in(None, score).argmax()))
    return tensor


def in_half_precision(score: float, tensor: Tensor) -> Tensor:
    dist.broadcast(tensor, int(gathers_in(torch.float16, score).argmax()))
    return tensor


def in_bfloat16(score: float, tensor: Tensor) -> Tensor:
    dist.broadcast(tensor, int(gathers_in(torch.bfloat16, score).argmax()))
    return tensor


def a_row_in_single_precision(score: float, tensor: Tensor) -> Tensor:
    scores = torch.zeros(dist.get_world_size())
    scores[dist.get_rank()] = score
    dist.all_reduce(scores)
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor


def in_per_cent(score: float, tensor: Tensor) -> Tensor:
    scores: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(scores, round(100 * score))
    dist.broadcast(tensor, scores.index(max(scores)))
    return tensor


def rounded(score: float, tensor: Tensor) -> Tensor:
    scores: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(scores, round(score, 4))
    dist.broadcast(tensor, scores.index(max(scores)))
    return tensor


def by_their_size(score: float, tensor: Tensor) -> Tensor:
    scores = [abs(one) for one in all_scores(score)]
    dist.broadcast(tensor, scores.index(max(scores)))
    return tensor


def a_row_and_its_largest_sum(score: float, tensor: Tensor) -> Tensor:
    """Zeros of the other ranks take part in the maximum."""
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.all_reduce(scores, op=dist.ReduceOp.MAX)
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor


def the_largest_elements(score: float, tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return tensor


def reduces_to_rank_0(score: float, tensor: Tensor) -> Tensor:
    scores = all_scores(score)
    best = scores.index(max(scores))
    mine = tensor if dist.get_rank() == best else torch.zeros_like(tensor)
    dist.reduce(mine, 0)
    return mine


def only_its_neighbor(score: float, tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    other, theirs = torch.zeros(1, dtype=torch.float64), torch.empty_like(tensor)
    if world_size == 1:
        return tensor
    requests = [
        dist.isend(torch.tensor([score], dtype=torch.float64), (rank + 1) % world_size),
        dist.isend(tensor, (rank + 1) % world_size),
    ]
    dist.recv(other, (rank - 1) % world_size)
    dist.recv(theirs, (rank - 1) % world_size)
    for request in requests:
        request.wait()
    return theirs if other.item() > score or (other.item() == score and rank) else tensor


def the_place_after_sorting(score: float, tensor: Tensor) -> Tensor:
    scores = sorted(all_scores(score))
    dist.broadcast(tensor, scores.index(max(scores)))
    return tensor


def broadcasts_a_copy(score: float, tensor: Tensor) -> Tensor:
    scores = all_scores(score)
    dist.broadcast(tensor.clone(), scores.index(max(scores)))
    return tensor


def returns_what_broadcast_returns(score: float, tensor: Tensor) -> Any:
    scores = all_scores(score)
    received = tensor.clone()
    return dist.broadcast(received, scores.index(max(scores)))


def does_not_wait(score: float, tensor: Tensor) -> Tensor:
    scores = all_scores(score)
    dist.broadcast(tensor, scores.index(max(scores)), async_op=True)
    return tensor


SINGLE = "Both scores round to the same float32 value. Send the scores as float64"

WRONG += [
    (in_single_precision, SINGLE),
    (in_half_precision, "Both scores round to the same float16 value"),
    (in_bfloat16, "Both scores round to the same bfloat16 value"),
    (a_row_in_single_precision, SINGLE),
    (in_per_cent, "but fails for nearly equal scores: rank 0 ends with its own tensor"),
    (rounded, "but fails for nearly equal scores: rank 0 ends with its own tensor"),
    (
        by_their_size,
        "It works for the score 1.5 and a tensor of shape [120], float32, but fails for negative scores: rank 0 "
        "ends with its own tensor (score -3), but rank 1 has -2",
    ),
    (a_row_and_its_largest_sum, "but fails for negative scores"),
    (the_largest_elements, "ends with a tensor that no rank started with"),
    (reduces_to_rank_0, "Rank 1 ends with a tensor that no rank started with"),
    (only_its_neighbor, "It works with 2 ranks, but not with 3"),
    (the_place_after_sorting, "ends with"),
    (
        broadcasts_a_copy,
        "Rank 1 has the best score and broadcasts its tensor, but rank 0 returns its own. Return the tensor that "
        "you broadcast into",
    ),
    (returns_what_broadcast_returns, "It returns None and does not change its tensor"),
    (does_not_wait, "It reads the result of broadcast too early"),
]


# hanging


def everyone_is_the_best(score: float, tensor: Tensor) -> Tensor:
    best_rank = dist.get_rank()
    dist.broadcast(tensor, src=best_rank)
    return tensor


def a_row_with_its_own_score_alone(score: float, tensor: Tensor) -> Tensor:
    """The program of the exercise."""
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor


def only_the_best_knows(score: float, tensor: Tensor) -> Tensor:
    best = torch.tensor([score])
    dist.all_reduce(best, op=dist.ReduceOp.MAX)
    root = dist.get_rank() if best.item() == score else 0
    dist.broadcast(tensor, root)
    return tensor


def the_best_does_not_come(score: float, tensor: Tensor) -> Tensor:
    scores = all_scores(score)
    best = scores.index(max(scores))
    if dist.get_rank() != best:
        dist.broadcast(tensor, best)
    return tensor


def does_not_wait_for_the_scores(score: float, tensor: Tensor) -> Tensor:
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.all_reduce(scores, async_op=True)
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor


HANGING = [
    (does_not_wait_for_the_scores, "It reads the result of all_reduce too early"),
    (
        everyone_is_the_best,
        "Root mismatch in broadcast: the ranks pass different roots. Every rank must pass the same root. A rank that",
    ),
    (
        a_row_with_its_own_score_alone,
        "Root mismatch in broadcast: the ranks pass different roots. Every rank must pass the same root",
    ),
    (
        only_the_best_knows,
        "Root mismatch in broadcast: the ranks pass different roots. Every rank must pass the same root",
    ),
    (the_best_does_not_come, "Not every rank calls broadcast"),
]
