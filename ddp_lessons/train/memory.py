"""How many bytes a rank holds in training: the parameters, their gradients, and the optimizer state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn


def bytes_held(model: nn.Module, optimizer: Any) -> dict[str, int]:
    """Count the bytes in this rank's memory. Call it between `backward` and `zero_grad`, while the gradients exist.

    An optimizer may keep its own copies of weights, which count as parameters. Adam's step counters, one number for
    each parameter, don't count, and neither do activations, which are temporary.
    """
    # ZeroRedundancyOptimizer wraps the optimizer that does the work
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
    """Return the part of a DTensor on this rank, or any other tensor unchanged."""
    part: Any = tensor.detach()
    mine: Tensor = part.to_local() if hasattr(part, "to_local") else part
    return mine


def whole(tensor: Tensor) -> Tensor:
    """Return a whole DTensor, gathered from its ranks, which must all call this, or any other tensor unchanged."""
    part: Any = tensor.detach()
    gathered: Tensor = part.full_tensor() if hasattr(part, "full_tensor") else part
    return gathered
