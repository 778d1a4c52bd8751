"""The exercises with messages between two ranks: a token round a ring, and ranks that swap tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import SMALL_CHANGE_BYTES, Case, Difference, Exercise, named, of_a_recv
from ddp_lessons.check.judging.exercise_trials import Trial, of_every_kind, with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.messages.collective_exercises import whose


def pass_the_token(function: Callable[[Tensor], object]) -> Report:
    """Check `function(token)`: once round the ring, and each rank adds 1.

    `token` is a tensor with one integer (int64, shape [1]). Rank 0's is the token; on the other ranks it is only a
    buffer to receive into. Rank 0 adds 1 and sends the token to rank 1. Every other rank receives it from the previous
    rank, adds 1 and sends it to the next; the last rank sends it back to rank 0. Rank 0 returns it as received (start +
    world_size), every other rank as sent (start + rank + 1). Changing it in place and returning None is fine too. Each
    rank sends exactly one message, and none if it is alone. No collectives.
    """
    return examine(_PassTheToken(), function)


def exchange(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)` on two ranks: each returns the tensor of the other.

    Both tensors have the same shape and dtype. In place and None is fine too. Messages only, and each rank sends its
    tensor once. Every way to avoid the deadlock is right.
    """
    return examine(_Exchange(), function)


def swap(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)`: ranks 0 and 1 are a pair, 2 and 3, and so on, and each returns its partner's tensor.

    All tensors have the same shape and dtype. In place and None is fine too. If the number of ranks is odd, the last
    one keeps its own tensor and sends nothing. Messages only, and each tensor is sent once.
    """
    return examine(_Swap(), function)


class _PassTheToken(Exercise):
    name = "pass_the_token"
    parameters = ("token",)
    trials = with_lateness(
        [
            Trial((1,), "int64", largest=10_000),
            *[Trial((1,), "int64", trait="another token", largest=10_000)] * 3,
            Trial((1,), "int64", trait="a token that a float would round"),
        ]
    )
    measured = "messages of the busiest rank"

    def expected(self, case: Case, rank: int) -> Tensor:
        return case.inputs[0] + (case.world_size if rank == 0 else rank + 1)

    def difference(self, case: Case, rank: int) -> Difference | None:
        answer, right = self.answer(case, rank), self.expected(case, rank)
        if mistake := of_a_recv(case, rank, answer):
            return Difference(
                "", named(answer), f"the number {right.item()}", f"Rank {rank} returns {named(answer)}{mistake}."
            )
        if isinstance(answer, int) and not isinstance(answer, bool):
            answer = torch.tensor([answer])
        if not isinstance(answer, Tensor) or answer.numel() != 1:
            return Difference(
                "", named(answer), f"the number {right.item()}", f"It returns {named(answer)}. Return the token."
            )
        if answer.dtype != torch.int64:
            return super().difference(case, rank)
        yours = int(answer.item())
        if yours == right.item():
            return None
        return Difference("token", str(yours), str(right.item()), self.likely_mistake(case, rank, answer))

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        start = int(case.inputs[0].item())
        for event in sorted(case.traffic.sends, key=lambda event: event.rank):
            after, added = (event.rank + 1) % case.world_size, int((event.values or (start,))[0]) - start
            if event.peer != after:
                return f"Rank {event.rank} sends the token to rank {event.peer}. Send it to the next rank, {after}."
            if (messages := case.traffic.messages_of(event.rank)) > 1:
                return f"Rank {event.rank} sends {messages} messages. Send the token once on each rank."
            if event.rank == 0 and added == 0:
                return "Rank 0 sends the token without adding 1. Add 1 first."
            if added == event.rank:
                return f"Rank {event.rank} sends the token on unchanged. Add 1 first."
            if added != event.rank + 1:
                return f"Rank {event.rank} sends a wrong token. Send the received token plus 1."
        yours, own = int(answer.item()), int(case.inputs[rank].item())
        right = int(self.expected(case, rank).item())
        if rank == 0 and yours == start + 1 and case.world_size > 1:
            return (
                "Rank 0 returns the token that it sent. On rank 0, receive the token from the last rank and return it."
            )
        if yours in (own, own + 1) and case.world_size > 1:
            return f"Rank {rank} returns its own initial value. {_return_the_token(rank)}"
        if rank and yours == start + rank and case.outcomes[rank].answer is None:
            return (
                f"Rank {rank} returns None, and its tensor holds {yours}, the token that it received. Return the token "
                f"that it sent on, {yours + 1}."
            )
        if rank and yours == start + rank:
            return f"Rank {rank} sends {yours + 1} on, but returns {yours}. Return the token that it sent on."
        if abs(yours - right) <= case.world_size:
            return (
                f"Rank {rank} returns {yours}, but the right token is {right}. On each rank, add 1 once, just before "
                "the send."
            )
        return f"Rank {rank} returns {yours}, which is not the token. {_return_the_token(rank)}"

    def too_little(self, case: Case) -> str:
        for rank in range(case.world_size if case.world_size > 1 else 0):
            if case.traffic.messages_of(rank) == 0:
                return (
                    f"Rank {rank} sends nothing, so the token stops there. On every rank, send the token to the next "
                    "rank."
                )
        return ""

    def too_much(self, case: Case) -> str:
        for rank in range(case.world_size):
            after = (rank + 1) % case.world_size
            if case.traffic.messages_of(rank) > min(1, case.world_size - 1):
                return f"Rank {rank} sends more than one message. Send the token only once, to rank {after}."
            for other in case.traffic.destinations(rank) - {after}:
                return f"Rank {rank} sends its message to rank {other}. Send the token to the next rank, {after}."
            if (sent := case.traffic.sent[rank]) > SMALL_CHANGE_BYTES:
                return (
                    f"Too much is communicated: rank {rank} sends {sent:,} bytes. Send only the token, a tensor with "
                    "one element."
                )
        return ""

    def carried(self, case: Case) -> int:
        return max(case.traffic.messages_of(rank) for rank in range(case.world_size))

    def textbook(self, case: Case) -> int:
        return 1


def _return_the_token(rank: int) -> str:
    return f"Return the token that it {'received from the last rank' if rank == 0 else 'sent on'}."


class _Exchange(Exercise):
    name = "exchange"
    result, cure_of_itself = "what was received", "The other rank is 1 - rank."
    world_sizes: tuple[int, ...] = (2,)
    trials = of_every_kind()

    def expected(self, case: Case, rank: int) -> Tensor:
        return case.inputs[self.other(case, rank)]

    def other(self, case: Case, rank: int) -> int:
        return 1 - rank

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        other = self.other(case, rank)
        if not case.traffic.sent[other]:
            return f"Rank {rank} receives nothing. Each rank must send its tensor and receive the other's."
        if torch.equal(answer, case.inputs[rank]):
            if self.answer_is_right(case, other):
                return (
                    f"Rank {other} receives into the tensor that it has not sent yet, so rank {rank} gets its own "
                    "tensor back. Use a second buffer."
                )
            return f"Rank {rank} ends with its own tensor. Return the received tensor."
        if not answer.any():
            return f"Rank {rank} returns a buffer of zeros. Receive into the buffer that you return."
        if torch.equal(answer, case.inputs[rank] + case.inputs[other]):
            return f"Rank {rank} returns the sum of both tensors. Return only the received one."
        return f"Rank {rank} does not return rank {other}'s tensor. Send it unchanged, and return it as received."

    def too_little(self, case: Case) -> str:
        talking = [rank for rank in range(case.world_size) if self.other(case, rank) != rank]
        silent = next((rank for rank in talking if case.traffic.sent[rank] < case.tensor_bytes), None)
        if silent is None:
            return ""
        return (
            f"Too little is communicated: rank {silent} does not send its whole tensor. Send all of it to the other "
            "rank."
        )

    def too_much(self, case: Case) -> str:
        rank = case.traffic.sent.index(max(case.traffic.sent))
        if case.traffic.sent[rank] <= case.tensor_bytes + SMALL_CHANGE_BYTES:
            return ""
        return f"Too much is communicated: rank {rank} sends more than its tensor. Send the tensor once."

    def textbook(self, case: Case) -> int:
        return case.tensor_bytes


class _Swap(_Exchange):
    name = "swap"
    cure_of_itself = "Exchange tensors only with the partner. A rank without a partner returns its own tensor."
    world_sizes = (2, 3, 4, 5, 8, 1)

    def other(self, case: Case, rank: int) -> int:
        """Its partner; for an odd last rank, itself."""
        partner = rank ^ 1
        return partner if partner < case.world_size else rank

    def difference(self, case: Case, rank: int) -> Difference | None:
        is_alone, others = self.other(case, rank) == rank, any(one.answer is not None for one in case.outcomes)
        if is_alone and others and case.outcomes[rank].answer is None:
            mistake = f"Rank {rank} has no partner among {case.world_size} ranks. Return its own tensor, not None."
            return Difference(f"rank {rank}", "None", "a tensor", mistake)
        return super().difference(case, rank)

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        other, owner = self.other(case, rank), whose(answer, case)
        if other == rank:
            return f"Rank {rank} has no partner among {case.world_size} ranks. Return its own tensor, unchanged."
        world_size = case.world_size
        is_ring = all(case.traffic.destinations(one) == {(one + 1) % world_size} for one in range(world_size))
        if is_ring and world_size > 2:  # with two, the next rank is the partner
            return "Each rank sends to the next rank, as in a ring. Swap in pairs: ranks 0 and 1, ranks 2 and 3."
        if owner not in (None, rank):
            return f"Rank {rank} ends with rank {owner}'s tensor. Swap with its partner, rank {other}."
        return super().likely_mistake(case, rank, answer)

    def too_much(self, case: Case) -> str:
        for rank in range(case.world_size):
            strangers = case.traffic.destinations(rank) - {self.other(case, rank)}
            if strangers:
                return f"Rank {rank} also sends to rank {min(strangers)}. Send only to its partner."
        return super().too_much(case)
