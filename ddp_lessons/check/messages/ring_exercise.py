"""The exercise of the ring all-reduce: the sum over ranks, passed in chunks from neighbor to neighbor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import SMALL_CHANGE_BYTES, Case, Exercise
from ddp_lessons.check.judging.exercise_trials import of_every_kind
from ddp_lessons.check.judging.report import Report

_WRITE_INTO = (
    "Write into the chunks with += or copy_(). `chunks[i] = ...` only replaces the list entry, and the given "
    "tensor stays unchanged."
)


def ring_all_reduce(function: Callable[[Tensor], object]) -> Report:
    """Check `function(tensor)`: every rank ends with the sum over all ranks, passed round a ring in chunks.

    All tensors have the same shape and dtype: floats or integers, with at least one dimension and one element. Every
    rank returns the sum, or has it in place and returns None. Messages only, and only to neighbors in the ring, in
    either direction. Each rank sends at most 2 * (world_size - 1) chunks of numel / world_size elements, rounded up.
    One rank alone already has its sum.
    """
    return examine(_Ring(), function)


class _Ring(Exercise):
    name = "ring_all_reduce"
    trials = tuple(
        # all in one row: splitting it by rows sends it whole
        replace(trial, shape=(1, 60)) if len(trial.shape) == 2 else trial
        for trial in of_every_kind()
    )

    def expected(self, case: Case, rank: int) -> Tensor:
        return torch.stack(case.inputs).sum(0, dtype=case.inputs[0].dtype)

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        right, world_size = self.expected(case, rank), case.world_size
        all_went_round = sum(case.traffic.sent) >= 2 * (world_size - 1) * case.tensor_bytes
        if torch.equal(answer, case.inputs[rank]):
            if all_went_round:
                return f"Rank {rank} ends with its own tensor although all chunks go round the ring. {_WRITE_INTO}"
            return f"Rank {rank} ends with its own tensor. Add the received chunks to it."
        if torch.allclose(answer.double() * world_size, right.double(), rtol=1e-6):
            return "It returns the mean, but an all-reduce is a sum. Leave out the division."
        wrong = (answer != right).flatten()
        if torch.allclose(answer.double(), right.double(), rtol=1e-2):
            return "The sum is almost right, but digits were lost. Keep the dtype of the tensor."
        if len(wrong) < world_size:
            return (
                "The tensor has fewer elements than there are ranks, so chunk() makes fewer chunks than ranks. Use "
                "tensor_split(), which makes exactly one per rank."
            )
        if not wrong[: len(wrong) // world_size * world_size].any():
            return (
                "The last elements are missing: numel // world_size drops the remainder. Use tensor_split(), which "
                "covers every element."
            )
        if world_size > 2 and all(
            _neighbors(case, rank) == case.traffic.destinations(rank) for rank in range(world_size)
        ):
            return "It sends to both the previous and the next rank. Send in one direction in both halves."
        if world_size > 1 and bool((answer * case.trial.sign > right * case.trial.sign).flatten()[wrong].all()):
            return f"Rank {rank} has more than the sum. Add each received chunk only once."
        if _is_one_chunk_right(wrong, world_size):
            if all_went_round:
                return (
                    f"Only one chunk of rank {rank} holds the whole sum although all chunks go round the ring. "
                    f"{_WRITE_INTO}"
                )
            return (
                f"Only one chunk of rank {rank} holds the whole sum. After the reduce-scatter, pass the finished "
                "chunks round once more (all-gather)."
            )
        return _mistake_of_a_half(self, case) or (
            f"Rank {rank} does not have the sum over all ranks. Finish the reduce-scatter before the all-gather."
        )

    def too_little(self, case: Case) -> str:
        least = 2 * (case.world_size - 1) * case.tensor_bytes  # by all ranks together, however the chunks are split
        if sum(case.traffic.sent) >= least:
            return ""
        return "Too little is communicated to give every rank the sum. Build it from send and recv only."

    def too_much(self, case: Case) -> str:
        most = self.textbook(case) + SMALL_CHANGE_BYTES
        busiest = max(range(case.world_size), key=case.traffic.sent.__getitem__)
        sent, targets = case.traffic.sent[busiest], case.traffic.destinations
        if sent > most:
            return _too_much(case, busiest)
        for rank in range(case.world_size):
            if len(targets(rank)) > 1 and targets(rank) - _neighbors(case, rank):
                ranks = ", ".join(map(str, sorted(targets(rank))))
                return f"That is not a ring: rank {rank} sends to ranks {ranks}. Send to a neighbor only."
        return ""

    def textbook(self, case: Case) -> int:
        chunk = -(-case.inputs[0].numel() // case.world_size)
        return 2 * (case.world_size - 1) * chunk * case.inputs[0].element_size()


def _neighbors(case: Case, rank: int) -> set[int]:
    return {(rank + 1) % case.world_size, (rank - 1) % case.world_size}


def _is_one_chunk_right(wrong: Tensor, world_size: int) -> bool:
    right = (~wrong).nonzero().flatten()
    size = -(-len(wrong) // world_size)
    return 0 < len(right) <= size and int(right[-1] - right[0]) < size


def _mistake_of_a_half(exercise: _Ring, case: Case) -> str:
    """What the messages and answers of all ranks reveal about a wrong sum."""
    traffic, world_size = case.traffic, case.world_size
    if sum(traffic.sent) <= (world_size - 1) * case.tensor_bytes:
        return "Only one of the two halves sends anything. Run the reduce-scatter first, then the all-gather."
    if sentence := _sends_on_another(case):
        return sentence
    answers = [exercise.answer(case, rank) for rank in range(world_size)]
    finished = [torch.eq(one, exercise.expected(case, 0)) for one in answers if isinstance(one, Tensor)]
    begin = "Start the all-gather with the chunk that the reduce-scatter has just finished."
    if len(finished) == world_size and bool(torch.stack(finished).any(0).all()):
        return f"The sums are right, but an unfinished chunk is passed on. {begin}"
    sent = [event.values for event in traffic.by_rank[0] if event.operation == "send"]
    received = [event.received for event in traffic.by_rank[0] if event.operation == "recv"]
    if world_size == 2 and len(sent) == 2 and None not in sent:
        if sent[0] == sent[1]:
            return f"Rank 0 sends the same chunk in both halves. {begin}"
        if sent[1] == received[0]:
            return (
                "Rank 0 sends the received chunk on unchanged. In the reduce-scatter, add each received chunk to "
                "its own."
            )
    return ""


def _sends_on_another(case: Case) -> str:
    """A sentence if rank 0 adds to one chunk in its first step, but then sends another one unchanged."""
    world_size, events = case.world_size, case.traffic.by_rank[0]
    chunks = [[tuple(chunk.tolist()) for chunk in one.flatten().tensor_split(world_size)] for one in case.inputs]
    sent = [event.values for event in events if event.operation == "send"]
    received = [event.received for event in events if event.operation == "recv"]
    if world_size == 2 or len(sent) < 2 or not received or sent[1] not in chunks[0]:
        return ""
    sends, came = chunks[0].index(sent[1]), received[0]
    adds = next((one.index(came) for one in chunks[1:] if came in one), sends)
    if adds == sends:
        return ""
    return (
        f"In step 1 rank 0 sends chunk {sends}, which still holds only its own values. Send chunk {adds}, to which it "
        "has just added."
    )


def _too_much(case: Case, busiest: int) -> str:
    """The well-known ways to send too much, by which rank sends what to which."""
    traffic, world_size, whole = case.traffic, case.world_size, case.tensor_bytes
    times = traffic.sent[busiest] / whole
    much = f"Too much is communicated: rank {busiest} sends {times:.2f} times the size of the tensor"
    all_chunks = f"Send {2 * (world_size - 1)} chunks from each rank, half of them in the reduce-scatter."
    next_rank = "Send only to the next rank, (rank + 1) % world_size."
    dtypes = {event.dtype for event in traffic.sends if event.bytes}
    if len(dtypes) == 1 and dtypes != {case.trial.dtype}:
        return f"{much}, because it converts {case.trial.dtype} to {dtypes.pop()}. Keep the dtype of the tensor."
    if all(len(traffic.destinations(rank)) == 1 for rank in range(world_size)):
        largest = max(event.bytes for event in traffic.sends)
        if largest == whole:
            return (
                f"{much}, because it passes on whole tensors. Send one chunk per step, 1 / {world_size} of the tensor."
            )
        if largest > -(-case.inputs[0].numel() // world_size) * case.inputs[0].element_size():
            return f"{much}, because its chunks are too large. Split the tensor into {world_size} chunks."
        return f"{much}, because its chunks go round too often. {all_chunks}"
    others = [rank for rank in range(world_size) if rank != busiest]
    if all(traffic.destinations(rank) <= {busiest} for rank in others):
        return f"{much}, because everything goes through rank {busiest}. {next_rank}"
    if all(len(traffic.destinations(rank)) == world_size - 1 for rank in range(world_size)):
        return f"{much}, because every rank sends to all the others. {next_rank}"
    return f"{much}. {all_chunks}"
