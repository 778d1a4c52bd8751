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
    Messages only, in any order, through a star, a chain or a tree, whole or in pieces: but each rank receives the
    tensor only once, and rank 0 is not sent what it has. One rank alone returns its tensor.
    """
    return examine(_Broadcast(), function)


def all_gather_by_hand(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)`: every rank returns the list of all ranks' tensors, by rank.

    All tensors have the same shape and dtype. A list, a tuple, or one stacked tensor of shape [world_size, ...]; the
    given tensor stays as it is. Messages only. Each rank has to receive world_size - 1 tensors; all ranks together may
    send at most 1.5 * world_size * (world_size - 1) of them, so that a gather followed by a broadcast is right too. One
    rank alone returns a list with its tensor.
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
                return f"Every rank ends with rank {root}'s tensor: the root is rank 0."
            return "Rank 0 does not keep its own tensor: it only sends."
        if torch.equal(answer, case.inputs[rank]) and not case.traffic.received[rank]:
            return f"Rank {rank} receives nothing and still has its own tensor: rank 0's has to come to every rank."
        if torch.equal(answer, case.inputs[rank]):
            return f"Rank {rank} ends with its own tensor: it never receives, or does not return what it received."
        if (other := whose(answer, case)) is not None:
            return f"Rank {rank} ends with the tensor of rank {other}, which passes on its own instead of rank 0's."
        if not answer.any():
            return f"Rank {rank} returns a buffer of zeros: nothing was received into it."
        if torch.equal(answer, case.inputs[rank] + case.inputs[0]):
            return (
                f"Rank {rank} ends with the sum of its own and rank 0's tensor: receive into the tensor, or return it."
            )
        if case.traffic.received[rank] < case.tensor_bytes:
            return f"Rank {rank} is sent only a part of rank 0's tensor: every rank needs the whole."
        return f"Rank {rank} ends with something else than rank 0's tensor: not every element arrived unchanged."

    def too_little(self, case: Case) -> str:
        for rank in range(1, case.world_size):
            if case.traffic.received[rank] < case.tensor_bytes:
                return f"It moves too little: rank {rank} was never sent all of it, so the answer came by another way."
        return ""

    def too_much(self, case: Case) -> str:
        for rank in range(case.world_size):
            # a broadcast in pieces that all ranks pass round brings rank 0 some of them, but never all
            needed = case.tensor_bytes if rank else case.tensor_bytes * (case.world_size - 1) // case.world_size
            if case.traffic.received[rank] > needed + SMALL_CHANGE_BYTES:
                if rank == 0:
                    return "It moves too much: rank 0 is sent the tensor that it has."
                return f"It moves too much: rank {rank} is sent more than one tensor."
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
            mistake = f"It returns {named(answer)}, not a list of tensors by rank{why}."
            return Difference("", named(answer), wanted, mistake)
        if len(answer) != case.world_size:
            has_own = any(torch.equal(one, case.inputs[rank]) for one in answer)
            mistake = (
                f"{self._who_returns(case, rank)} a list of {len(answer)} for {case.world_size} ranks: each rank's "
                f"tensor belongs into it, {'once' if has_own else 'its own too'}."
            )
            return Difference("", f"{len(answer)} tensors", f"{case.world_size} tensors", mistake)
        for source, (one, expected) in enumerate(zip(answer, right, strict=True)):
            if found := tensor_difference(one, expected):
                mistake = found.mistake or self._likely_mistake(case, rank, source, answer)
                return Difference(f"[{source}]{found.place}", found.yours, found.expected, mistake)
        return None

    def _who_returns(self, case: Case, rank: int) -> str:
        """Every rank returns as many tensors as this one, or this one does."""
        answers = [self.answer(case, other) for other in range(case.world_size)]
        lengths = {len(one) if isinstance(one, list | Tensor) else None for one in answers}
        return "It returns" if len(lengths) == 1 else f"Rank {rank} returns"

    def _likely_mistake(self, case: Case, rank: int, source: int, answer: list[Tensor]) -> str:
        owners = [whose(one, case) for one in answer]
        if case.world_size > 1 and all(torch.equal(one, answer[0]) for one in answer):
            if owners[0] == rank and not case.traffic.received[rank]:
                return f"Rank {rank}'s list holds its own tensor again and again: it never receives the others."
            if owners[0] == rank and all(one is not answer[0] for one in answer[1:]):
                return f"Rank {rank}'s list holds its own tensor again and again: it never gets those of the others."
            return "All entries of the list are equal: make a buffer of its own for each rank."
        same = [str(entry) for entry, one in enumerate(answer) if one is answer[source]]
        if len(same) > 1:
            return (
                f"Entries {' and '.join(same)} of rank {rank}'s list are one and the same tensor: `[buffer] * "
                "world_size` makes no new ones."
            )
        if None not in owners and sorted(map(int, owners)) == list(range(case.world_size)):  # type: ignore[arg-type]
            return (
                f"Rank {rank}'s list is in the wrong order: entry 0 belongs to rank 0, entry 1 to rank 1, and so on, "
                "whatever comes first."
            )
        if not answer[source].any():
            return f"Entry {source} of rank {rank}'s list is a buffer of zeros: nothing was received into it."
        if owners[source] is not None:
            return f"Entry {source} of rank {rank}'s list is the tensor of rank {owners[source]}."
        return f"Entry {source} of rank {rank}'s list is not the tensor of rank {source}: it did not arrive unchanged."

    def too_little(self, case: Case) -> str:
        for rank in range(case.world_size):
            if case.traffic.received[rank] < (case.world_size - 1) * case.tensor_bytes:
                return f"It moves too little: not all tensors were sent to rank {rank}, so they came by another way."
        return ""

    def too_much(self, case: Case) -> str:
        change = case.world_size * case.world_size * SMALL_CHANGE_BYTES
        if 2 * sum(case.traffic.sent) <= 3 * self.textbook(case) + 2 * change:
            return ""
        return "It moves too much: no rank needs a tensor that it has, and none needs one twice."

    def carried(self, case: Case) -> int:
        return sum(case.traffic.sent)

    def textbook(self, case: Case) -> int:
        return case.world_size * (case.world_size - 1) * case.tensor_bytes


def whose(tensor: Tensor, case: Case) -> int | None:
    """The rank that was given this tensor."""
    return next((rank for rank, own in enumerate(case.inputs) if torch.equal(own, tensor)), None)
