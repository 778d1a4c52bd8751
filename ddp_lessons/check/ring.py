"""The exercise of the ring: the sum over ranks, moved in chunks from neighbour to neighbour."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ddp_lessons.check.examination import examine
from ddp_lessons.check.exercise import SMALL_CHANGE_BYTES, Case, Exercise
from ddp_lessons.check.report import Report
from ddp_lessons.check.trials import of_every_kind


def ring_all_reduce(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)`: every rank ends with the sum over all ranks, which went round a ring in chunks.

    All tensors have the same shape and dtype: floats or whole numbers, any shape, any number of elements. Every rank
    returns the sum, or has it in place and returns None. Messages only, and only to neighbours in the ring, in either
    direction. Each rank sends at most 2 * (world_size - 1) chunks of numel / world_size elements, rounded up. One rank
    alone has its sum already.
    """
    return examine(_Ring(), function)


class _Ring(Exercise):
    name = "ring_all_reduce"
    trials = of_every_kind()

    def expected(self, case: Case, rank: int) -> Tensor:
        return torch.stack(case.inputs).sum(0, dtype=case.inputs[0].dtype)

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        right, world_size = self.expected(case, rank), case.world_size
        if torch.equal(answer, case.inputs[rank]):
            return f"Rank {rank} ends with its own tensor: nothing was added to it."
        if torch.allclose(answer.double() * world_size, right.double(), rtol=1e-6):
            return "It returns the mean: an all-reduce is the sum, so leave out the division."
        wrong = (answer != right).flatten()
        if not wrong[: len(wrong) // world_size * world_size].any():
            return "The last elements are missing: the chunks leave over what does not divide by the number of ranks."
        if world_size > 1 and bool((answer > right).flatten()[wrong].all()):
            return f"Rank {rank} has more than the sum: something was added more than once."
        if _is_one_chunk_right(wrong, world_size):
            return (
                f"Only one chunk of rank {rank} is the whole sum: after the reduce-scatter, the finished chunks have "
                "to go round once more (all-gather)."
            )
        return f"Rank {rank} does not have the sum of all ranks: each chunk has to be added to once on every rank."

    def too_little(self, case: Case) -> str:
        least = 2 * (case.world_size - 1) * case.tensor_bytes  # by all ranks together, however the chunks are cut
        if sum(case.traffic.sent) >= least:
            return ""
        return "It moves too little: the sum cannot have come by these messages, so it came by another way."

    def too_much(self, case: Case) -> str:
        most = self.textbook(case) + SMALL_CHANGE_BYTES
        busiest = max(range(case.world_size), key=case.traffic.sent.__getitem__)
        sent, targets = case.traffic.sent[busiest], case.traffic.destinations
        if sent > most:
            return _too_much(case, busiest)
        for rank in range(case.world_size):
            neighbours = {(rank + 1) % case.world_size, (rank - 1) % case.world_size}
            if len(targets(rank)) > 1 and targets(rank) - neighbours:
                ranks = ", ".join(map(str, sorted(targets(rank))))
                return f"That is no ring: rank {rank} sends to ranks {ranks}, and in a ring only to a neighbour."
        return ""

    def textbook(self, case: Case) -> int:
        chunk = -(-case.inputs[0].numel() // case.world_size)
        return 2 * (case.world_size - 1) * chunk * case.inputs[0].element_size()


def _is_one_chunk_right(wrong: Tensor, world_size: int) -> bool:
    right = (~wrong).nonzero().flatten()
    size = -(-len(wrong) // world_size)
    return 0 < len(right) <= size and int(right[-1] - right[0]) < size


def _too_much(case: Case, busiest: int) -> str:
    """The famous ways to move too much, by who sends what to whom."""
    traffic, world_size, whole = case.traffic, case.world_size, case.tensor_bytes
    times = traffic.sent[busiest] / whole
    much = f"It moves too much: rank {busiest} sends {times:.2f} tensors"
    if all(len(traffic.destinations(rank)) == 1 for rank in range(world_size)):
        largest = max(event.bytes for event in traffic.sends)
        if largest >= whole:
            return f"{much}, because whole tensors go round the ring, and not chunks of 1 / {world_size} of it."
        return f"{much}, because its chunks go round more often than 2 * ({world_size} - 1) times."
    others = [rank for rank in range(world_size) if rank != busiest]
    if all(traffic.destinations(rank) <= {busiest} for rank in others):
        return f"{much}, because everything goes through rank {busiest}, and not round a ring."
    if all(len(traffic.destinations(rank)) == world_size - 1 for rank in range(world_size)):
        return f"{much}, because every rank sends to every other, and not only to its neighbour in a ring."
    return f"{much}, where a ring sends 2 * ({world_size} - 1) chunks of 1 / {world_size}."
