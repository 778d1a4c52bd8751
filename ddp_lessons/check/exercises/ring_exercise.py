"""The ring all-reduce of lesson 4."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from ddp_lessons.check.exercise import MESSAGES, Budget, Exercise, Mistake
from ddp_lessons.check.runs import Case
from ddp_lessons.check.trials import of_every_kind
from ddp_lessons.train import ring
from ddp_lessons.train.point_to_point import send_and_receive


def _ring(
    tensor: Tensor,
    rounds: str = "reduce-scatter, all-gather",
    divides: bool = False,
    drops: bool = False,
    whole: bool = False,
    starts: int = 1,
    dtype: torch.dtype | None = None,
    into: str = "the chunks",
) -> Tensor:
    """The lesson's ring with one thing wrong."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % world_size, (rank - 1) % world_size
    flat = tensor.view(-1) if dtype is None else tensor.view(-1).to(dtype)
    if drops:
        chunks = [*flat[: len(flat) // world_size * world_size].tensor_split(world_size)]
    else:
        chunks = [flat.clone() for _ in range(world_size)] if whole else [*flat.tensor_split(world_size)]
    for half in rounds.split(", "):
        for step in range(world_size - 1):
            first = rank if half == "reduce-scatter" else rank + starts
            outgoing, place = chunks[(first - step) % world_size], (first - step - 1) % world_size
            incoming = torch.empty_like(chunks[place])
            send_and_receive(outgoing, after, incoming, before)
            if into == "the list":
                chunks[place] = chunks[place] + incoming if half == "reduce-scatter" else incoming
            elif half == "reduce-scatter":
                chunks[place] += incoming
            else:
                chunks[place].copy_(incoming)
    if dtype is not None:
        tensor.view(-1).copy_(flat.to(tensor.dtype))
    return (chunks[0].view(tensor.shape) if whole else tensor) / (world_size if divides else 1)


def _adds_whole_tensors(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    total, moving = tensor.clone(), tensor.clone()
    for _ in range(world_size - 1):
        received = torch.empty_like(moving)
        send_and_receive(moving, (rank + 1) % world_size, received, (rank - 1) % world_size)
        total, moving = total + received, received
    return total


def _are_neighbors(rank: int, world_size: int, targets: set[int]) -> bool:
    """The ranks may be placed around the ring in any order."""
    return len(targets) == 1 or targets <= {(rank + 1) % world_size, (rank - 1) % world_size}


def _two_tensors(case: Case) -> int:
    (tensor,) = case.arguments
    return int(2 * (case.world_size - 1) * -(-tensor.numel() // case.world_size) * tensor.element_size())


ring_all_reduce = Exercise(
    """Check `function(tensor)`: every rank ends with the sum over all ranks, passed around a ring in chunks.

    All tensors have the same shape and dtype: floats or integers, with at least one dimension and one element. Every
    rank returns the sum, or overwrites its tensor and returns None. Use only messages to neighbors in the ring, in
    either direction. Each rank may send at most 2 * (world_size - 1) chunks of numel / world_size elements, rounded up.
    With only one rank, the tensor is already the sum.
    """,
    solution=ring.ring_all_reduce,
    trials=of_every_kind(matrix=(1, 60)),  # all in one row: splitting it by rows sends it whole
    budget=Budget(
        MESSAGES,
        _two_tensors,
        may_send=_are_neighbors,
        too_much="Send 2 * (world_size - 1) chunks, each to the next rank.",
    ),
    hints={
        "answer": "Rank {rank} does not have the sum over all ranks. Finish the reduce-scatter before the all-gather, "
        "and start the all-gather with the chunk that this rank has just finished."
    },
    begins_silent=True,
    result="the sum",
    mistakes=[
        Mistake(
            partial(_ring, into="the list"),
            "Rank {rank} ends up with its own tensor. Write into the chunks with += or copy_(), because `chunks[i] = "
            "...` only replaces the list entry and leaves the given tensor unchanged.",
        ),
        Mistake(
            partial(_ring, rounds="reduce-scatter"),
            "Only one chunk of rank {rank} holds the whole sum. After the reduce-scatter, pass the finished chunks "
            "around the ring once more (the all-gather).",
        ),
        Mistake(
            partial(_ring, divides=True),
            "Your function returns the mean, but an all-reduce returns the sum. Leave out the division.",
        ),
        Mistake(
            partial(_ring, drops=True),
            "The last elements are missing, because numel // world_size drops the remainder. Use tensor_split(), "
            "which covers every element.",
        ),
        Mistake(
            partial(_ring, starts=0),
            "An unfinished chunk is passed on. Start the all-gather with the chunk that the reduce-scatter has just "
            "finished.",
        ),
        Mistake(
            _adds_whole_tensors,
            "The ranks pass on whole tensors, so the traffic grows with their number. In each step, send one chunk, "
            "1 / world_size of the tensor.",
        ),
        Mistake(
            partial(_ring, dtype=torch.float32),
            "The sum is almost correct, but has lost precision. Keep the dtype of the tensor.",
        ),
    ],
)
