import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def best_the_missing_line(score, tensor):
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.all_reduce(scores)
    best = int(scores.argmax())
    dist.broadcast(tensor, src=best)
    return tensor
right(best_the_missing_line, "all_reduce of the scores, the others' places are zero")


def best_by_all_gather(score, tensor):
    scores = [torch.zeros(1, dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(scores, torch.tensor([score], dtype=torch.float64))
    dist.broadcast(tensor, src=max(range(len(scores)), key=lambda r: scores[r].item()))
    return tensor
right(best_by_all_gather, "all_gather; max() takes the first of equals")


def best_by_objects(score, tensor):
    scores = [None] * dist.get_world_size()
    dist.all_gather_object(scores, score)
    dist.broadcast(tensor, src=scores.index(max(scores)))
    return tensor
right(best_by_objects, "objects, index of the maximum")


def best_with_max_and_minus_infinity(score, tensor):
    scores = torch.full((dist.get_world_size(),), float("-inf"), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.all_reduce(scores, dist.ReduceOp.MAX)
    dist.broadcast(tensor, src=scores.argmax().item())
    return tensor
right(best_with_max_and_minus_infinity, "MAX over minus infinity")


def best_highest_score_then_lowest_rank(score, tensor):
    highest = torch.tensor(score, dtype=torch.float64)
    dist.all_reduce(highest, dist.ReduceOp.MAX)
    root = torch.tensor(dist.get_rank() if score == highest.item() else dist.get_world_size())
    dist.all_reduce(root, dist.ReduceOp.MIN)
    dist.broadcast(tensor, src=int(root))
    return tensor
right(best_highest_score_then_lowest_rank, "two all_reduces: MAX of the scores, MIN of the ranks that have it")


def best_averaged_scores(score, tensor):
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.all_reduce(scores, dist.ReduceOp.AVG)
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor
right(best_averaged_scores, "AVG: all scores by N, the same order")


def best_decided_by_rank_0(score, tensor):
    scores = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(score, scores, dst=0)
    best = [scores.index(max(scores))] if dist.get_rank() == 0 else [None]
    dist.broadcast_object_list(best, src=0)
    dist.broadcast(tensor, src=best[0])
    return tensor
right(best_decided_by_rank_0, "rank 0 decides and tells")


def best_as_found(score, tensor):
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor
wrong(best_as_found, "unchanged: each knows only its own score", "root, ranks disagree, all_reduce")


def best_a_barrier_is_missing(score, tensor):
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.barrier()
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor
wrong(best_a_barrier_is_missing, "takes a barrier for the missing line", "barrier moves nothing, scores, root")


def best_max_over_zeros(score, tensor):
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.all_reduce(scores, dist.ReduceOp.MAX)
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor
wrong(best_max_over_zeros, "MAX over zeros: scores below 0 are lost", "negative, MAX, zeros")


def best_known_to_rank_0(score, tensor):
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.reduce(scores, dst=0)
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor
wrong(best_known_to_rank_0, "only rank 0 knows the scores, so the roots differ", "reduce, root, ranks disagree")


def best_scores_of_float32(score, tensor):
    scores = torch.zeros(dist.get_world_size())
    scores[dist.get_rank()] = score
    dist.all_reduce(scores)
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor
wrong(best_scores_of_float32, "float32 makes scores equal that differ in the tenth digit", "float32, precision, float64")


def best_whole_scores(score, tensor):
    scores = torch.zeros(dist.get_world_size(), dtype=torch.int64)
    scores[dist.get_rank()] = int(score)
    dist.all_reduce(scores)
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor
wrong(best_whole_scores, "scores are cut to whole numbers", "int, float, whole")


def best_lowest_score(score, tensor):
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.all_reduce(scores)
    dist.broadcast(tensor, src=int(scores.argmin()))
    return tensor
wrong(best_lowest_score, "argmin, as for losses", "highest, argmax")


def best_last_of_equals(score, tensor):
    scores = [None] * dist.get_world_size()
    dist.all_gather_object(scores, score)
    dist.broadcast(tensor, src=max(range(len(scores)), key=lambda r: (scores[r], r)))
    return tensor
wrong(best_last_of_equals, "of equals the highest rank", "lowest rank, several, equal")


def best_always_rank_0(score, tensor):
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.all_reduce(scores)
    dist.broadcast(tensor, src=0)
    return tensor
wrong(best_always_rank_0, "root 0", "root, src, best rank")


def best_broadcasts_if_it_is_the_best(score, tensor):
    highest = torch.tensor(score, dtype=torch.float64)
    dist.all_reduce(highest, dist.ReduceOp.MAX)
    if score == highest.item():
        dist.broadcast(tensor, src=dist.get_rank())
    return tensor
wrong(best_broadcasts_if_it_is_the_best, "only the best calls broadcast", "every rank, broadcast, waits, do not come")


def best_broadcasts_the_score(score, tensor):
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.broadcast(scores, src=0)
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor
wrong(best_broadcasts_the_score, "broadcast of rank 0's list, in which only its own score is", "scores of others, all_reduce, rank 0")


def best_elementwise_maximum(score, tensor):
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor
wrong(best_elementwise_maximum, "the largest elements of all tensors", "score, tensor of the best rank, MAX")


def best_unwaited_scores(score, tensor):
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.all_reduce(scores, async_op=True)
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor
wrong(best_unwaited_scores, "does not wait for the scores", "wait, async")


def best_in_a_copy_on_the_side(score, tensor):
    scores = [None] * dist.get_world_size()
    dist.all_gather_object(scores, score)
    copy = tensor.clone()
    dist.broadcast(copy, src=scores.index(max(scores)))
    return tensor
wrong(best_in_a_copy_on_the_side, "broadcasts into a clone and returns the old tensor", "clone, tensor unchanged")


def best_rank_counted_from_1(score, tensor):
    scores = [None] * dist.get_world_size()
    dist.all_gather_object(scores, score)
    best = scores.index(max(scores)) + 1
    dist.broadcast(tensor, src=best % dist.get_world_size())
    return tensor
wrong(best_rank_counted_from_1, "counts ranks from 1", "root, off by one")


def best_products(score, tensor):
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    dist.all_reduce(scores, dist.ReduceOp.PRODUCT)
    dist.broadcast(tensor, src=int(scores.argmax()))
    return tensor
wrong(best_products, "PRODUCT with zeros is zero everywhere: always rank 0", "PRODUCT, zeros, sum")
