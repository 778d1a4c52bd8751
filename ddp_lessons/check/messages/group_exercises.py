"""The exercises in which ranks first have to agree: on the root, or on the groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import torch
from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Exercise, said_nothing
from ddp_lessons.check.judging.exercise_trials import ScoredTrial, of_every_kind, with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.messages.collective_exercises import whose
from ddp_lessons.record.event import Event
from ddp_lessons.run.diagnosis.wording import ranks_named


def share_best(function: Callable[[float, Tensor], object]) -> Report:
    """Check `function(score, tensor)`: every rank ends with the tensor of the rank with the highest score.

    In a tie, the lowest rank wins. Scores are Python floats with float64 precision; some are negative. All tensors have
    the same shape and dtype. Every rank returns the tensor, or has it in place and returns None. Collectives and
    messages are both allowed. One rank alone ends with its own.
    """
    return examine(_ShareBest(), function)


def sum_of_half(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)`: even ranks end with the sum over the even ranks, odd ranks with that over the odd.

    All tensors have the same shape and dtype. Every rank returns the sum, or has it in place and returns None. Groups,
    other collectives and messages are all allowed. There are at least two ranks, so that there are odd ones.
    """
    return examine(_SumOfHalf(), function)


class _ShareBest(Exercise):
    name = "share_best"
    parameters = ("score", "tensor")
    messages_only = False
    cure_of_roots = (
        " A rank that knows only its own score cannot tell which rank is best. First gather all scores on every rank."
    )
    trials = with_lateness(
        [
            ScoredTrial((120,), scores=(1.5, 4.0, 2.5, 3.0, 0.5)),
            ScoredTrial((120,), trait="other scores", scores=(3.5, 1.0, 5.0, 9.0, 2.0, 7.0, 8.0, 6.0)),
            ScoredTrial((4, 7), trait="negative scores", scores=(-3.0, -2.0, -0.5, -4.0, -0.25)),
            ScoredTrial((120,), "int64", trait="scores that differ only in their decimals", scores=(2.25, 2.75, 2.5)),
            ScoredTrial((120,), trait="a score that several ranks have", scores=(1.0, 2.0, 2.0)),
            ScoredTrial((1,), trait="the same score on all ranks", scores=(1.0,)),
            ScoredTrial((120,), trait="nearly equal scores", scores=(0.9, 0.9 + 1e-9, 0.9 - 1e-9)),
        ]
    )
    measured = "bytes sent by the busiest rank"
    yardstick = "needed"

    def expected(self, case: Case, rank: int) -> Tensor:
        return case.inputs[_trial(case).best(case.world_size)]

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        trial, owner = _trial(case), whose(answer, case)
        best = trial.best(case.world_size)
        if owner is None:
            return f"Rank {rank} ends with a tensor that no rank started with. Broadcast the best rank's, unchanged."
        if owner == rank and not any(case.traffic.brought):
            return (
                f"Rank {rank} ends with its own tensor, because no rank sends anything. Broadcast the tensor of the "
                "rank with the highest score."
            )
        whose_tensor = "its own tensor" if owner == rank else f"the tensor of rank {owner}"
        ends = f"Rank {rank} ends with {whose_tensor} (score {trial.score(owner):.10g})"
        if owner == rank and any(_brings_it_from(best, event, case) for event in case.traffic.by_rank[rank]):
            return (
                f"Rank {best} has the best score and broadcasts its tensor, but rank {rank} returns its own. Return "
                f"the tensor that you broadcast into."
            )
        if trial.score(owner) == trial.score(best):
            return f"{ends}, but rank {best} has the same score. In a tie, choose the lowest rank."
        advice = _rounded_to_the_same(case, owner) or f" Broadcast rank {best}'s tensor."
        return f"{ends}, but rank {best} has {trial.score(best):.10g}.{advice}"

    def too_little(self, case: Case) -> str:
        return said_nothing(case, range(case.world_size))

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return case.tensor_bytes + 8  # the best rank's tensor, and its score


def _brings_it_from(root: int, event: Event, case: Case) -> bool:
    return (event.operation, event.root, event.shape) == ("broadcast", root, tuple(case.inputs[0].shape))


def _rounded_to_the_same(case: Case, owner: int) -> str:
    """A further sentence if the scores were sent in a dtype in which both are equal."""
    trial = _trial(case)
    dtypes = {event.dtype for event in case.traffic.events if event.shape != case.inputs[0].shape}
    scores = torch.tensor([trial.score(owner), trial.score(trial.best(case.world_size))], dtype=torch.float64)
    for dtype in sorted(dtypes & {"float32", "float16", "bfloat16"}):
        one, other = scores.to(getattr(torch, dtype)).tolist()
        if one == other:
            return f" Both scores round to the same {dtype} value. Send the scores as float64."
    return ""


class _SumOfHalf(Exercise):
    name = "sum_of_half"
    world_sizes = (4, 2, 3, 5, 8)  # with fewer than four ranks, no half has two
    messages_only = False
    trials = of_every_kind()
    measured = "bytes sent by the busiest rank"
    yardstick = "needed"

    def expected(self, case: Case, rank: int) -> Tensor:
        return _sum_over(case, half_of(case, rank))

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        advice = f"Sum over all ranks of its half: {ranks_named(half_of(case, rank))}."
        everyone = range(case.world_size)
        subsets = (some for size in range(1, case.world_size + 1) for some in combinations(everyone, size))
        for some in subsets:
            if torch.equal(answer, _sum_over(case, some)):
                if some == (rank,):
                    return f"Rank {rank} ends with its own tensor. {advice}"
                return f"Rank {rank} ends with the sum over {ranks_named(some)}. {advice}"
        if torch.allclose(answer.double() * len(half_of(case, rank)), self.expected(case, rank).double(), rtol=1e-6):
            return "It returns the mean. Leave out the division."
        return f"Rank {rank} ends with a wrong sum. {advice}"

    def too_little(self, case: Case) -> str:
        return said_nothing(case, [rank for rank in range(case.world_size) if len(half_of(case, rank)) > 1])

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return case.tensor_bytes


def half_of(case: Case, rank: int) -> list[int]:
    return list(range(rank % 2, case.world_size, 2))


def _sum_over(case: Case, ranks: Sequence[int]) -> Tensor:
    return torch.stack([case.inputs[rank] for rank in ranks]).sum(0, dtype=case.inputs[0].dtype)


def _trial(case: Case) -> ScoredTrial:
    assert isinstance(case.trial, ScoredTrial)
    return case.trial
