"""The exercise `spread`: how far apart the ranks are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Exercise, said_nothing
from ddp_lessons.check.judging.exercise_trials import of_every_kind
from ddp_lessons.check.judging.report import Report


def spread(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)`: every rank returns the largest value of all ranks minus the smallest."""
    return examine(_Spread(), function)


class _Spread(Exercise):
    name = "spread"
    messages_only = False  # collectives are allowed
    keeps_input = True
    trials = of_every_kind()
    measured = "bytes sent by the busiest rank"
    yardstick = "needed"

    def expected(self, case: Case, rank: int) -> Tensor:
        """Computed in this process, from the tensors of all ranks (`case.inputs`)."""
        together = torch.stack(case.inputs)
        return together.amax(0) - together.amin(0)

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        """The sentence for a wrong answer whose cause can be recognized."""
        together = torch.stack(case.inputs)
        if torch.equal(answer, together.amax(0)):
            return "That is the largest value of all ranks. Subtract the smallest from it."
        if not answer.any():
            return f"Rank {rank} found no difference, as if it had compared its tensor with itself."
        if torch.equal(answer, together.amin(0) - together.amax(0)):
            return "The sign is wrong: return the largest minus the smallest."
        return f"Rank {rank} does not return the largest minus the smallest."

    def too_little(self, case: Case) -> str:
        return said_nothing(case, range(case.world_size))

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return case.tensor_bytes
