"""The exercises that build a collective from messages: broadcast and all-gather."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import (
    SMALL_CHANGE_BYTES,
    Case,
    Difference,
    Exercise,
    named,
    of_a_recv,
    tensor_difference,
)
from ddp_lessons.check.judging.exercise_trials import of_every_kind
from ddp_lessons.check.judging.report import Report


def broadcast_by_hand(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)`: every rank ends with the tensor of rank 0.

    All tensors have the same shape and dtype. Every rank returns rank 0's tensor, or has it in place and returns None.
    Messages only, in any order: a star, a chain or a tree, whole or in pieces. Each rank may receive the tensor only
    once, and rank 0 must not receive it. One rank alone returns its tensor.
    """
    return examine(_Broadcast(), function)


def all_gather_by_hand(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)`: every rank returns the list of all ranks' tensors, by rank.

    All tensors have the same shape and dtype. Return a list, a tuple, or one stacked tensor of shape [world_size, ...];
    leave the given tensor unchanged. Messages only. Each rank has to receive world_size - 1 tensors. All ranks together
    may send at most 1.5 * world_size * (world_size - 1) of them, so that a gather followed by a broadcast is right too.
    One rank alone returns a list with its tensor.
    """
    return examine(_AllGather(), function)


class _Broadcast(Exercise):
    name = "broadcast_by_hand"
    trials = of_every_kind()
    measured = "bytes sent by all ranks together"

    def expected(self, case: Case, rank: int) -> Tensor:
        return case.inputs[0]

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        if rank == 0:
            root = whose(answer, case)
            all_answers = [self.answer(case, other) for other in range(case.world_size)]
            if root and all(isinstance(one, Tensor) and torch.equal(one, answer) for one in all_answers):
                return f"Every rank ends with rank {root}'s tensor. Send rank 0's tensor."
            return "Rank 0 does not keep its own tensor. On rank 0, only send."
        if torch.equal(answer, case.inputs[rank]) and not case.traffic.received[rank]:
            return f"Rank {rank} receives nothing and still has its own tensor. Send rank 0's tensor to every rank."
        if torch.equal(answer, case.inputs[rank]):
            return f"Rank {rank} ends with its own tensor. Receive rank 0's tensor, and return what was received."
        if (other := whose(answer, case)) is not None:
            return (
                f"Rank {rank} ends with rank {other}'s tensor. Rank {other} must forward rank 0's tensor, not its own."
            )
        if not answer.any():
            return f"Rank {rank} returns a buffer of zeros. Receive into the buffer that you return."
        if torch.equal(answer, case.inputs[rank] + case.inputs[0]):
            return f"Rank {rank} ends with the sum of its own tensor and rank 0's. Return only the received tensor."
        if case.traffic.received[rank] < case.tensor_bytes:
            return f"Rank {rank} receives only a part of rank 0's tensor. Send the whole tensor to every rank."
        return f"Rank {rank} does not end with rank 0's tensor. Send it unchanged, and keep it as received."

    def too_little(self, case: Case) -> str:
        for rank in range(1, case.world_size):
            if case.traffic.received[rank] < case.tensor_bytes:
                return (
                    f"Too little is communicated: rank {rank} does not receive the whole tensor. Send all of it to "
                    "every rank."
                )
        return ""

    def too_much(self, case: Case) -> str:
        for rank in range(case.world_size):
            # a broadcast in pieces round a ring sends some of them back to rank 0, but never all
            needed = case.tensor_bytes if rank else case.tensor_bytes * (case.world_size - 1) // case.world_size
            if case.traffic.received[rank] > needed + SMALL_CHANGE_BYTES:
                if rank == 0:
                    return "Too much is communicated: rank 0 receives its own tensor. On rank 0, only send."
                return (
                    f"Too much is communicated: rank {rank} receives more than one tensor. Send the tensor to each "
                    "rank once."
                )
        return ""

    def carried(self, case: Case) -> int:
        return sum(case.traffic.sent)

    def textbook(self, case: Case) -> int:
        return (case.world_size - 1) * case.tensor_bytes


class _AllGather(Exercise):
    name = "all_gather_by_hand"
    trials = of_every_kind()
    keeps_input = True
    measured = "bytes sent by all ranks together"

    def expected(self, case: Case, rank: int) -> list[Tensor]:
        return case.inputs

    def difference(self, case: Case, rank: int) -> Difference | None:
        answer, right = self.answer(case, rank), self.expected(case, rank)
        wanted = f"a list of {case.world_size} tensors"
        if isinstance(answer, Tensor) and answer.dim() and answer.shape[1:] == right[0].shape:
            answer = list(answer.unbind())
        if not isinstance(answer, list) or not all(isinstance(one, Tensor) for one in answer):
            numbers = answer if isinstance(answer, list) else []
            why = next((end for one in numbers if (end := of_a_recv(case, rank, one))), "")
            mistake = f"It returns {named(answer)}{why or '. Return a list with the tensor of each rank'}."
            return Difference("", named(answer), wanted, mistake)
        if len(answer) != case.world_size:
            has_own = any(torch.equal(one, case.inputs[rank]) for one in answer)
            mistake = (
                f"{self._who_returns(case, rank)} a list of length {len(answer)} for {case.world_size} ranks. Put one "
                f"tensor per rank into it{'' if has_own else ', including its own'}."
            )
            return Difference("", f"{len(answer)} tensors", f"{case.world_size} tensors", mistake)
        for source, (one, expected) in enumerate(zip(answer, right, strict=True)):
            if found := tensor_difference(one, expected):
                mistake = found.mistake or self._likely_mistake(case, rank, source, answer)
                return Difference(f"[{source}]{found.place}", found.yours, found.expected, mistake)
        return None

    def _who_returns(self, case: Case, rank: int) -> str:
        """The start of a sentence: all ranks return as many tensors as this one, or only this one does."""
        answers = [self.answer(case, other) for other in range(case.world_size)]
        lengths = {len(one) if isinstance(one, list | Tensor) else None for one in answers}
        return "It returns" if len(lengths) == 1 else f"Rank {rank} returns"

    def _likely_mistake(self, case: Case, rank: int, source: int, answer: list[Tensor]) -> str:
        owners = [whose(one, case) for one in answer]
        if case.world_size > 1 and all(torch.equal(one, answer[0]) for one in answer):
            if owners[0] == rank and not case.traffic.received[rank]:
                return f"Rank {rank}'s list repeats its own tensor. Receive the tensors of the other ranks."
            if owners[0] == rank and all(one is not answer[0] for one in answer[1:]):
                return f"Rank {rank}'s list repeats its own tensor. Put the received tensors into it."
            return "All entries of the list are equal. Allocate a separate buffer for each rank."
        same = [str(entry) for entry, one in enumerate(answer) if one is answer[source]]
        if len(same) > 1:
            return (
                f"Entries {' and '.join(same)} of rank {rank}'s list are the same tensor object, as after `[buffer] * "
                "world_size`. Allocate one buffer per rank."
            )
        if None not in owners and sorted(map(int, owners)) == list(range(case.world_size)):  # type: ignore[arg-type]
            return (
                f"Rank {rank}'s list is in the wrong order. Put the tensor of rank i at index i, regardless of "
                "the order in which they arrive."
            )
        if source == rank and owners[source] is None:
            return (
                f"Entry {rank} of rank {rank}'s list is its own tensor, which no message brings. Copy it into the "
                "list, unchanged."
            )
        if not answer[source].any():
            return (
                f"Entry {source} of rank {rank}'s list is a buffer of zeros. Receive the tensor of rank {source} "
                "into it."
            )
        if owners[source] is not None:
            return (
                f"Entry {source} of rank {rank}'s list is the tensor of rank {owners[source]}. Put the tensor of rank "
                f"{source} there."
            )
        return (
            f"Entry {source} of rank {rank}'s list is not the tensor of rank {source}. Send it unchanged, and put it "
            "there as received."
        )

    def too_little(self, case: Case) -> str:
        for rank in range(case.world_size):
            if case.traffic.received[rank] < (case.world_size - 1) * case.tensor_bytes:
                return (
                    f"Too little is communicated: rank {rank} does not receive all tensors. Send every tensor to every "
                    "rank."
                )
        return ""

    def too_much(self, case: Case) -> str:
        change = case.world_size * case.world_size * SMALL_CHANGE_BYTES
        if 2 * sum(case.traffic.sent) <= 3 * self.textbook(case) + 2 * change:
            return ""
        return (
            "Too much is communicated: a rank receives its own tensor, or the same tensor twice. Send each tensor to "
            "each other rank once."
        )

    def carried(self, case: Case) -> int:
        return sum(case.traffic.sent)

    def textbook(self, case: Case) -> int:
        return case.world_size * (case.world_size - 1) * case.tensor_bytes


def whose(tensor: Tensor, case: Case) -> int | None:
    """The rank that was given this tensor."""
    return next((rank for rank, own in enumerate(case.inputs) if torch.equal(own, tensor)), None)
