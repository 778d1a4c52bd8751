"""Mistakes around collectives: somebody does not come, comes to another one, or brings what does not fit."""

# A learner writes no types for mypy: torch's own would want a cast around new_group and isend.
# mypy: disable-error-code="arg-type"

import torch
import torch.distributed as dist
from torch import Tensor

from ..declared import all_but_rank_0, first_and_last, last, mistake, near_their_target, only


@mistake(1, "never-called", last, ["all_reduce("])
def one_returned(rank: int, world_size: int) -> float:
    """The mean of all losses. The last rank has none, and thinks that it is done."""
    losses = [0.5] * (world_size - 1)
    mine = losses[rank::world_size]
    if not mine:
        return 0.0
    total = torch.tensor([sum(mine), len(mine)])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


@mistake(1, "never-called", only(1), ["all_reduce("])
def raised_and_caught(rank: int, world_size: int) -> float | None:
    """One reading cannot be read. The rank says so, and goes home."""
    readings = ["1.5", "n/a", *["2.5"] * (world_size - 2)]
    try:
        total = torch.tensor([float(readings[rank])])
        dist.all_reduce(total)
    except ValueError as error:
        print(f"rank {rank} skips its reading: {error}")
        return None
    return total.item()


@mistake(1, "fewer-steps", near_their_target, ["all_reduce("])
def early_break(rank: int, world_size: int) -> int:
    """Gradient descent that ends when the loss is small: each rank looks at its own loss."""
    weight, target = torch.tensor([2.0]), torch.tensor([float(rank)])
    steps = 0
    for _ in range(20):
        gradient = 2 * (weight - target)
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient / world_size
        steps += 1
        if (weight - target).square() < 1:
            break
    return steps


@mistake(1, "fewer-steps", all_but_rank_0, ["all_reduce("])
def uneven_batches(rank: int, world_size: int) -> float:
    """One step for each of this rank's samples. Rank 0 has one more than the others."""
    samples = torch.arange(2.0 * world_size + 1)[rank::world_size]
    total = 0.0
    for sample in samples:
        loss = sample.clone()
        dist.all_reduce(loss)
        total += loss.item()
    return total


@mistake(2, "order-mismatch", only(0, 1), ["broadcast(", "all_reduce("], "mismatched collectives")
def different_collectives(rank: int, world_size: int) -> Tensor:
    """Rank 0 hands its tensor out, the others think that all tensors are added up."""
    scores = torch.tensor([1.0, 2.0]) * (rank + 1)
    if rank == 0:
        dist.broadcast(scores, src=0)
    else:
        dist.all_reduce(scores)
    return scores


@mistake(2, "order-mismatch", only(0, 1), ["broadcast(", "all_reduce("], "mismatched collectives")
def different_order(rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """Everybody adds up a loss and takes rank 0's weights, but rank 0 does so in the other order."""
    loss, weights = torch.tensor([0.5]), torch.full((3,), float(rank))
    if rank == 0:
        dist.broadcast(weights, src=0)
    dist.all_reduce(loss)
    if rank > 0:
        dist.broadcast(weights, src=0)
    return loss, weights


@mistake(
    2, "deadlock-of-collectives", only(0, 1), ["all_reduce(", "all_reduce(gradient"], "deadlock", "in the same order"
)
def different_order_of_groups(rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """Two groups of all ranks, one for the losses and one for the gradients: rank 0 uses the other one first."""
    for_losses, for_gradients = dist.new_group(), dist.new_group()
    loss, gradient = torch.tensor([0.5]), torch.tensor([1.0, 2.0])
    if rank == 0:
        dist.all_reduce(loss, group=for_losses)
    dist.all_reduce(gradient, group=for_gradients)
    if rank > 0:
        dist.all_reduce(loss, group=for_losses)
    return loss, gradient


@mistake(2, "root-mismatch", only(0, 1), ["broadcast("], "root mismatch")
def different_roots(rank: int, world_size: int) -> Tensor:
    """Everybody shall have the weights of the best rank. Each thinks that this is the one with its own number."""
    weights = torch.tensor([1.0, 2.0]) * (rank + 1)
    dist.broadcast(weights, src=rank)
    return weights


@mistake(
    2,
    "op-mismatch",
    only(0, 1),
    ["all_reduce(", "all_reduce(loss,"],
    "reduce op mismatch",
    "sum",
    "max",
    ends="failed",
    alone="wrong answer",
)
def different_reduce_ops(rank: int, world_size: int) -> float:
    """The largest loss of all ranks, but rank 0 forgot to say that it wants the largest."""
    loss = torch.tensor([1.0 + rank])
    if rank == 0:
        dist.all_reduce(loss)
    else:
        dist.all_reduce(loss, op=dist.ReduceOp.MAX)
    return loss.item()


@mistake(3, "tensor-mismatch", first_and_last, ["all_reduce("], "shape mismatch", "[4]", "[3]")
def different_shapes(rank: int, world_size: int) -> Tensor:
    """One loss for each sample of a batch. The last rank's batch is shorter."""
    batch = torch.ones(4 if rank < world_size - 1 else 3)
    losses = batch.square()
    dist.all_reduce(losses)
    return losses


@mistake(
    3,
    "tensor-mismatch",
    first_and_last,
    ["all_reduce("],
    "dtype mismatch",
    "float32",
    "int64",
    ends="failed",
    alone="abort",
)
def different_dtypes(rank: int, world_size: int) -> float:
    """The sum of all losses. The sum of none is the whole number 0, and so is the last rank's tensor."""
    losses = [0.5, 0.25] if rank < world_size - 1 else []
    total = torch.tensor([sum(losses)])
    dist.all_reduce(total)
    return total.item()
