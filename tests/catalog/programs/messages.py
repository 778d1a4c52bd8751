"""Mistakes around send and recv, and around calls that do not wait."""

# A learner writes no types for mypy: torch's own would want a cast around new_group and isend.
# mypy: disable-error-code="union-attr"

import torch
import torch.distributed as dist
from torch import Tensor

from ..declared import everybody, first_and_last, mistake, only


@mistake(
    3,
    "message-mismatch",
    first_and_last,
    ["send(", "recv("],
    "shape mismatch",
    "[4]",
    "[2]",
    ends="failed",
    alone="abort",
)
def smaller_buffer(rank: int, world_size: int) -> Tensor:
    """Rank 0 sends four numbers to each, and the last rank has room for two."""
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0])
    if rank == 0:
        for other in range(1, world_size):
            dist.send(weights, dst=other)
        return weights
    buffer = torch.zeros(2 if rank == world_size - 1 else 4)
    dist.recv(buffer, src=0)
    return buffer


@mistake(
    3,
    "message-mismatch",
    first_and_last,
    ["send(", "recv("],
    "shape mismatch",
    "[2]",
    "[4]",
    ends="failed",
    alone="wrong answer",
)
def larger_buffer(rank: int, world_size: int) -> Tensor:
    """Rank 0 sends two numbers to each, and the last rank expects four."""
    weights = torch.tensor([1.0, 2.0])
    if rank == 0:
        for other in range(1, world_size):
            dist.send(weights, dst=other)
        return weights
    buffer = torch.zeros(4 if rank == world_size - 1 else 2)
    dist.recv(buffer, src=0)
    return buffer


@mistake(
    3,
    "message-mismatch",
    only(0),
    ["send(", "recv("],
    "dtype mismatch",
    "int32",
    "float32",
    ends="failed",
    alone="wrong answer",
)
def message_of_other_dtype(rank: int, world_size: int) -> Tensor:
    """Rank 0 sends whole numbers, and the others receive them into torch.zeros(3)."""
    digits = torch.tensor([7, 1, 4], dtype=torch.int32)
    if rank == 0:
        for other in range(1, world_size):
            dist.send(digits, dst=other)
        return digits
    buffer = torch.zeros(3)
    dist.recv(buffer, src=0)
    return buffer


@mistake(4, "deadlock-of-two", only(0, 1), ["send("], "for the other to receive")
def both_send_first(rank: int, world_size: int) -> Tensor:
    """Ranks 0 and 1, 2 and 3, ... swap their tensors. An odd last one keeps its own."""
    mine, theirs = torch.tensor([float(rank)]), torch.zeros(1)
    partner = rank ^ 1
    if partner < world_size:
        dist.send(mine, dst=partner)
        dist.recv(theirs, src=partner)
    return theirs


@mistake(4, "deadlock-of-two", only(0, 1), ["recv("], "for the other to send")
def both_receive_first(rank: int, world_size: int) -> Tensor:
    """The same, the other way round."""
    mine, theirs = torch.tensor([float(rank)]), torch.zeros(1)
    partner = rank ^ 1
    if partner < world_size:
        dist.recv(theirs, src=partner)
        dist.send(mine, dst=partner)
    return theirs


@mistake(4, "deadlock-of-messages", everybody, ["send("], "circle", at_least=3)
def circle(rank: int, world_size: int) -> Tensor:
    """Everybody sends to the right, and then takes what comes from the left."""
    mine, theirs = torch.tensor([float(rank)]), torch.zeros(1)
    dist.send(mine, dst=(rank + 1) % world_size)
    dist.recv(theirs, src=(rank - 1) % world_size)
    return theirs


@mistake(4, "no-counterpart", first_and_last, ["recv("])
def sender_never_sends(rank: int, world_size: int) -> Tensor:
    """Rank 0 hands a tensor to everybody, but the loop ends one too early."""
    part = torch.tensor([float(rank)])
    if rank == 0:
        for other in range(1, world_size - 1):
            dist.send(part, dst=other)
    else:
        dist.recv(part, src=0)
    return part


@mistake(4, "no-counterpart", only(0, 1), ["send("])
def nobody_receives(rank: int, world_size: int) -> float:
    """Rank 0 adds up what the others send, but the loop begins one too late."""
    part = torch.tensor([float(rank)])
    if rank > 0:
        dist.send(part, dst=0)
        return 0.0
    total = 0.0
    for other in range(2, world_size):
        dist.recv(part, src=other)
        total += part.item()
    return total


@mistake(4, "wrong-peer", only(0, 1, 2), ["recv("], "wrong rank", at_least=3)
def wrong_peer(rank: int, world_size: int) -> Tensor:
    """Rank 0 sends to everybody, who all take from the rank before."""
    part = torch.tensor([float(rank)])
    if rank == 0:
        for other in range(1, world_size):
            dist.send(part, dst=other)
    else:
        dist.recv(part, src=rank - 1)
    return part


@mistake(4, "tag-mismatch", only(0, 1), ["send(", "recv("], "tag mismatch", "tag 0", "tag 1")
def wrong_tag(rank: int, world_size: int) -> list[float]:
    """Three messages to each, with the step as tag: the sender counts from 0, the receiver from 1."""
    part, seen = torch.zeros(1), []
    if rank == 0:
        for other in range(1, world_size):
            for step in range(3):
                dist.send(torch.tensor([float(step)]), dst=other, tag=step)
    else:
        for step in range(1, 4):
            dist.recv(part, src=0, tag=step)
            seen.append(part.item())
    return seen


@mistake(4, "raised", only(0), ["send("], "send to itself", ends="failed", alone="error")
def to_itself(rank: int, world_size: int) -> Tensor:
    """Rank 0 sends to all ranks, and counts itself among them."""
    part = torch.tensor([float(rank)])
    if rank == 0:
        for other in range(world_size):
            dist.send(part, dst=other)
    else:
        dist.recv(part, src=0)
    return part


@mistake(5, "missing-wait", only(0, 1), ["all_reduce("], "never called wait()", ends="failed", alone="wrong answer")
def never_waited_for(rank: int, world_size: int) -> float:
    """The mean gradient, begun in the background and used at once."""
    gradient = torch.full((1000,), float(rank))
    dist.all_reduce(gradient, async_op=True)
    gradient /= world_size
    return gradient.mean().item()


@mistake(5, "changed-before-wait", only(0), ["isend("], "before calling wait()", ends="failed", alone="wrong answer")
def changed_before_wait(rank: int, world_size: int) -> Tensor:
    """Rank 0 sends its weights to everybody, and goes on with the next step while they are under way."""
    weights = torch.full((3,), float(rank))
    if rank == 0:
        sendings = [dist.isend(weights, dst=other) for other in range(1, world_size)]
        weights += 10
        for sending in sendings:
            sending.wait()
    else:
        dist.recv(weights, src=0)
    return weights
