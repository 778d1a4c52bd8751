"""Answers to the exercise `share_best`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


def all_scores(score: float) -> list[float]:
    scores = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(scores, torch.tensor([score]))
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
    highest, world_size = torch.tensor([score]), dist.get_world_size()
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
    rank, world_size, received = dist.get_rank(), dist.get_world_size(), torch.zeros(1)
    if rank:
        dist.send(torch.tensor([score]), 0)
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
    (always_rank_0, "Rank 0 ends with its own tensor, whose score is 1.5: rank 1 has 4"),
    (the_lowest_score, "Rank 0 ends with its own tensor, whose score is 1.5: rank 1 has 4"),
    (the_last_of_the_best, "has the same score: of several, the lowest rank counts"),
    (begins_to_look_at_0, "but not for negative scores: rank 0 ends with its own tensor, whose score is -3"),
    (scores_without_their_digits, "but not for scores that differ only behind the point"),
    (its_own, "Rank 0 ends with its own tensor: no rank says anything to another"),
    (talks_and_returns_its_own, "Rank 0 ends with its own tensor, whose score is 1.5: rank 1 has 4"),
    (returns_nothing, "It returns None and does not change its tensor"),
    (returns_the_score, "It returns the number 4.0, not a tensor"),
    (the_mean, "Rank 0 ends with a tensor that no rank has brought"),
    (takes_one, "It is called as takes_one(score, tensor), with two arguments, but is defined as takes_one(tensor"),
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


HANGING = [
    (everyone_is_the_best, "The ranks name different roots in broadcast: all have to name the same one. A rank that"),
    (a_row_with_its_own_score_alone, "The ranks name different roots in broadcast"),
    (only_the_best_knows, "The ranks name different roots in broadcast"),
    (the_best_does_not_come, "Not every rank calls broadcast"),
]
