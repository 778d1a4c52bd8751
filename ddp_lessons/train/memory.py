"""How many bytes of a training a rank holds: the parameters, their gradients, and what the optimizer remembers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn


def bytes_held(model: nn.Module, optimizer: Any) -> dict[str, int]:
    """Count what lies in this rank's memory. Ask between `backward` and `zero_grad`, when the gradients are there.

    An optimizer may step for tensors of its own, copies of weights: those are parameters, too. Adam's counters of
    steps, one number for each parameter, are left out. So are activations: those come and go.
    """
    # ZeroRedundancyOptimizer is a shell round the optimizer that does the work
    optimizer = getattr(optimizer, "optim", optimizer)
    stepped = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    parameters = list({id(tensor): tensor for tensor in [*model.parameters(), *stepped]}.values())  # each once
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    states = optimizer.state.values()
    remembered = [value for state in states for value in state.values() if isinstance(value, Tensor)]
    kinds: dict[str, Sequence[Tensor]] = {
        "parameters": parameters,
        "gradients": gradients,
        "optimizer state": [tensor for tensor in remembered if tensor.dim()],
    }
    return {kind: sum(local(tensor).nbytes for tensor in tensors) for kind, tensors in kinds.items()}


def local(tensor: Tensor) -> Tensor:
    """The part of a DTensor that this rank has; any other tensor as it is."""
    part: Any = tensor.detach()
    mine: Tensor = part.to_local() if hasattr(part, "to_local") else part
    return mine


def whole(tensor: Tensor) -> Tensor:
    """All of a DTensor, gathered from the ranks that share it, which all have to call this; any other as it is."""
    part: Any = tensor.detach()
    if not hasattr(part, "to_local"):
        return tensor.detach()
    from torch.distributed.tensor import Replicate

    # One dimension of the mesh after the other, as full_tensor() does it for a single one. Of two it would warn.
    for dimension in range(part.device_mesh.ndim):
        placements = list(part.placements)
        placements[dimension] = Replicate()
        part = part.redistribute(placements=placements)
    return local(part)
