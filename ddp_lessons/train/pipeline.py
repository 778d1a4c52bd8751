"""Train a model that is cut between its layers: every rank owns a stage, and sends activations to the next rank.

A batch is cut into micro-batches too: while one is on the second stage, the first stage can start with the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn


def stage_of(layer: int, layers: int, stages: int) -> int:
    """Return the stage that owns this layer. Neighbors stay together, and the stages' sizes differ by at most one."""
    return layer * stages // layers


def pipeline_step(
    stage: nn.Module, inputs: Sequence[Tensor], targets: Sequence[Tensor], loss: Callable[[Tensor, Tensor], Tensor]
) -> float | None:
    """Add the gradients of one step to this rank's stage; return the mean loss, which only the last rank knows.

    Every rank gets all micro-batches. Only the first stage uses the inputs; the others use just their shape, which all
    activations share. Only the last stage uses the targets. `loss(output, target)` is a mean.
    """
    return send_backward(send_forward(stage, inputs), targets, loss)


def send_forward(stage: nn.Module, inputs: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Send all micro-batches through this stage. Return their inputs and outputs, because backward needs both."""
    rank, last, kept = dist.get_rank(), dist.get_world_size() - 1, []
    for given in inputs:
        if rank > 0:
            given = torch.empty_like(given)
            dist.recv(given, rank - 1)
            given.requires_grad_()  # the previous stage needs its gradient
        output = stage(given)
        if rank < last:
            dist.send(output.detach(), rank + 1)
        kept.append((given, output))
    return kept


def send_backward(
    kept: Sequence[tuple[Tensor, Tensor]], targets: Sequence[Tensor], loss: Callable[[Tensor, Tensor], Tensor]
) -> float | None:
    """The same backward, with gradients. The gradients of the weights add up over the micro-batches."""
    rank, last, total = dist.get_rank(), dist.get_world_size() - 1, 0.0
    for (given, output), target in zip(kept, targets, strict=True):
        if rank == last:
            part = loss(output, target) / len(targets)  # this micro-batch's part of the mean over the batch
            part.backward()
            total += part.item()
        else:
            gradient = torch.empty_like(output)
            dist.recv(gradient, rank + 1)
            output.backward(gradient)
        if rank > 0:
            assert given.grad is not None
            dist.send(given.grad, rank - 1)
    return total if rank == last else None
