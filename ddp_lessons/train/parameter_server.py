"""Train with a parameter server over torch.distributed.rpc: one process has the weights, the others compute gradients.

With remote procedure calls, no rank needs to call recv: the server calls a method of an object in another process as if
it were local. The other process finds the method by name, so it must be in a file that both can import.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed import rpc
from torch.nn import functional as F

T = TypeVar("T")
Share = tuple[Tensor, Tensor]  # inputs and labels


class Worker:
    """Runs in a worker's process, with its shard of the data."""

    def __init__(self, model: nn.Module, share: Share) -> None:
        self._model, self._share = model, share

    def gradients(self, weights: list[Tensor]) -> list[Tensor]:
        """Return the gradients of the mean loss over this worker's shard, for these weights."""
        inputs, labels = self._share
        with torch.no_grad():
            for parameter, weight in zip(self._model.parameters(), weights, strict=True):
                parameter.copy_(weight)
        loss = F.nll_loss(self._model(inputs), labels)
        return list(torch.autograd.grad(loss, list(self._model.parameters())))


def train_with_server(model: nn.Module, shares: Sequence[Share], steps: int, learning_rate: float) -> list[Tensor]:
    """On the server: train `model` with a worker for each shard, all of the same length, and return its weights."""
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    # `remote` creates the object in the other process and returns a handle to it
    workers = [
        rpc.remote(name_of(number), Worker, args=(copy.deepcopy(model), share))
        for number, share in enumerate(shares, start=1)
    ]
    for _ in range(steps):
        weights = [parameter.detach() for parameter in model.parameters()]
        futures = [worker.rpc_async().gradients(weights) for worker in workers]  # all workers compute at the same time
        results = [future.wait() for future in futures]
        for parameter, *gradients in zip(model.parameters(), *results, strict=True):
            parameter.grad = torch.stack(gradients).mean(0)
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def with_rpc(rank: int, world_size: int, task: Callable[..., T], *args: Any) -> T | None:
    """Call `task(*args)` on rank 0 while the other ranks answer its calls; RANK, MASTER_ADDR and so on must be set."""
    rpc.init_rpc(name_of(rank), rank=rank, world_size=world_size)
    answer = task(*args) if rank == 0 else None
    rpc.shutdown()  # waits until no rank has calls left
    return answer


def name_of(rank: int) -> str:
    return f"worker-{rank}" if rank else "server"
