"""Average gradients over all ranks, by hand.

Call these functions between backward() and step(). Then every rank has the same gradients and takes the same step, so
models that were equal stay equal.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


def average_gradients(model: nn.Module) -> None:
    """Make every gradient the mean over the ranks' gradients. A parameter without a gradient stays without one."""
    for parameter in model.parameters():
        # The only check needed. `type(parameter) is torch.Tensor` is false for every parameter, because its type is
        # Parameter. A loop with that check averages nothing, without an error.
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()  # sum -> mean


def weighted_average(model: nn.Module, samples: int) -> None:
    """Make every gradient the mean over all samples, if each rank's gradient is the mean over its `samples` samples.

    A rank without samples takes part, too; its gradients, if it has any, count as zero.
    """
    parameters = list(model.parameters())
    facts = torch.tensor([samples, *(parameter.grad is not None for parameter in parameters)])
    facts = facts.to(parameters[0].device)
    dist.all_reduce(facts)
    everyone, *ranks_with_gradient = facts.tolist()
    for parameter, ranks in zip(parameters, ranks_with_gradient, strict=True):
        if ranks:  # if one rank calls all_reduce, all must
            if samples == 0 or parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)  # a mean over no samples is nan, and 0 times nan is nan
            parameter.grad *= samples / everyone  # this rank's part of the mean over all samples
            dist.all_reduce(parameter.grad)


def flattened(tensors: Iterable[Tensor]) -> Tensor:
    """Return one long tensor with the elements of all these tensors."""
    return torch.cat([tensor.flatten() for tensor in tensors])


def put_back(flat: Tensor, tensors: list[Tensor]) -> None:
    """Undo `flattened`: copy the elements back into the tensors."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    torch._foreach_copy_(tensors, [part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True)])
