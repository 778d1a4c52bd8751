"""The exercise of averaging so that every rank gets only its shard of the mean, with no more traffic than needed."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, number, said_nothing, tensor_difference
from ddp_lessons.check.judging.exercise_trials import Trial, with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.trainings.shard_exercise import length_difference, part_of, why_other_part
from ddp_lessons.record.event import Event


def sharded_mean(function: Callable[[Tensor], object]) -> Report:
    """Check `function(flat)`: every rank returns its shard of the mean over all ranks' tensors, all equally long.

    Shards are those of `check.shard`. Any collectives or messages are allowed, but each rank may send only one shard to
    each other rank: half of what an all_reduce sends.
    """
    return examine(_ShardedMean(), function)


# how torch reports sizes, with the numbers of elements in all shards and in the whole; and unequal pieces
_SIZES = re.compile(r"outputShape\[0\] \* worldSize == inputShape\[0\] \((\d+) vs\. (\d+)\)")
_RANKS = re.compile(r"^\s*rank \d+ of (\d+) raised")
_OTHER_PIECES = re.compile(r"sizes\(\)\.vec\(\) == inputs\[0\]\[i\]\.sizes\(\)")


class _ShardedMean(Exercise):
    name = "sharded_mean"
    parameters = ("flat",)
    copy = "flat.clone()"
    messages_only = False
    keeps_input = True
    world_sizes = (2, 3, 4, 5, 1)
    trials = with_lateness(
        [
            Trial((120,)),
            Trial((120,), trait="the next tensors"),
            Trial((121,), trait="a length not divisible by world_size"),
            Trial((119,), trait="a length not divisible by world_size"),
            Trial((60,), "float64", trait="another dtype (float64)"),
            Trial((3,), trait="tensors with fewer elements than ranks"),
        ]
    )
    measured = "bytes sent by the busiest rank (ring algorithm)"

    def difference(self, case: Case, rank: int) -> Difference | None:
        answers = [outcome.answer for outcome in case.outcomes]
        answer, expected = answers[rank], part_of(_mean(case), case, rank)
        if not isinstance(answer, Tensor) or answer.dim() != 1 or answer.dtype != expected.dtype:
            return tensor_difference(answer, expected) if isinstance(answer, Tensor) else super().difference(case, rank)
        if wrong_length := length_difference(answers, case, rank):
            return wrong_length
        if answer.shape != expected.shape:
            return tensor_difference(answer, expected)
        if torch.allclose(answer, expected, rtol=1e-5):
            return None
        place = int((answer - expected).abs().argmax())
        yours, right = number(answer[place].item()), number(expected[place].item())
        return Difference(f"[{place}]", yours, right, _why_other_numbers(answer, case, rank))

    def expected(self, case: Case, rank: int) -> Tensor:
        return part_of(_mean(case), case, rank)

    def why_failed(self, message: str) -> str:
        if found := _SIZES.search(message):
            shards, whole = map(int, found.groups())
            if shards >= 4 * whole:  # the whole for each rank, instead of a shard for each
                return (
                    "The arguments of reduce_scatter_single are swapped. Pass the shard first, then the whole tensor."
                )
            if (said := _RANKS.search(message)) and whole % (ranks := int(said[1])) == 0:
                return (
                    f"Size mismatch in reduce_scatter_single: {ranks} shards of {shards // ranks} elements make "
                    f"{shards} elements, but the whole tensor has {whole}. Divide its length by "
                    "dist.get_world_size()."
                )
        elif not _OTHER_PIECES.search(message):
            return ""
        return (
            "Size mismatch: all shards must be equally long. Pad the tensor with zeros to a multiple of "
            "world_size, and pass the shard first."
        )

    def too_little(self, case: Case) -> str:
        return said_nothing(case, range(case.world_size))

    def too_much(self, case: Case) -> str:
        yours, textbook = self.carried(case), self.textbook(case)
        if case.world_size == 1 or yours <= 1.01 * textbook + 64:
            return ""
        return (
            f"The answer is right, but {yours / textbook:.3g} times as much is communicated as needed. Each rank "
            "needs only its shard of the mean, so use reduce_scatter."
        )

    def carried(self, case: Case) -> int:
        ranks = range(case.world_size)
        return round(max(sum(map(_passes_on, _giving(case, rank))) for rank in ranks))

    def textbook(self, case: Case) -> int:
        padded = len(part_of(case.inputs[0], case, 0)) * case.world_size * case.inputs[0].element_size()
        return padded * (case.world_size - 1) // case.world_size


def _giving(case: Case, rank: int) -> list[Event]:
    return [event for event in [*case.traffic.sends, *case.traffic.collectives] if event.rank == rank]


def _passes_on(event: Event) -> float:
    """What a rank sends for a call, on average, in a ring.

    Computed here again from the recorded events: the package's own counts are compared with it.
    """
    ranks = max(1, len(event.group_ranks))
    once = (ranks - 1) / ranks  # of w parts, a rank passes on all but one; or of w ranks all but the last pass on
    times = {"send": 1.0, "all_reduce": 2 * once, "all_gather": ranks - 1.0}
    return event.bytes * times.get(event.operation, once)


def _mean(case: Case) -> Tensor:
    total = torch.stack(case.inputs).sum(0, dtype=torch.float64)
    return (total / case.world_size).to(case.inputs[0].dtype)


def _why_other_numbers(answer: Tensor, case: Case, rank: int) -> str:
    mean = _mean(case)
    if torch.allclose(answer, case.world_size * part_of(mean, case, rank), rtol=1e-5):
        return "It returns the sum. Divide it by the number of ranks."
    if torch.allclose(answer, part_of(case.inputs[rank], case, rank), rtol=1e-5):
        return (
            f"Rank {rank} returns only its own values. Sum the values over all ranks, then divide by the "
            "number of ranks."
        )
    for extreme, what in ((torch.amax, "largest"), (torch.amin, "smallest")):
        if torch.equal(answer, part_of(extreme(torch.stack(case.inputs), 0), case, rank)):
            return (
                f"Rank {rank} has the {what} of the ranks' elements, not their mean. Sum them (ReduceOp.SUM), and "
                "divide."
            )
    if len(answer) > 1 and torch.equal(answer, answer[:1].expand_as(answer)):
        return "All elements of the shard are equal. Take the mean over the ranks, not over the elements."
    if sentence := why_other_part(answer, mean, case.world_size, rank):
        return sentence
    cut = torch.stack([part_of(one, case, other).double() for other, one in enumerate(case.inputs)]).sum(0)
    if any(torch.allclose(answer.double(), cut / by, rtol=1e-5) for by in (1, case.world_size)):
        return "It adds up pieces from different positions. For shard r, add up piece r of every rank's tensor."
    return _why_off(answer, part_of(mean, case, rank), case) or (
        f"Rank {rank} does not return its shard of the mean. Average this rank's piece over all ranks."
    )


def _why_off(answer: Tensor, expected: Tensor, case: Case) -> str:
    """A sentence if all values are off by the same factor."""
    factor = float((answer.double() @ expected.double()) / (expected.double() @ expected.double()))
    if not 1e-9 < factor < 1e9 or not torch.allclose(answer, factor * expected, rtol=1e-4):
        return ""
    divisor = case.world_size / factor
    if abs(divisor - round(divisor)) < 1e-3 * divisor:
        return f"It divides the sum by {round(divisor)}. Divide by the number of ranks, here {case.world_size}."
    return f"It is {factor:.3g} times the mean. Divide the sum by the number of ranks, here {case.world_size}."
