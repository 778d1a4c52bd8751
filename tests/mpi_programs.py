"""One program for every call that the group over MPI knows. It runs under mpirun, and under launch with gloo."""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ddp_lessons.train.gradients import average_gradients, average_gradients_bucketed
from ddp_lessons.train.replicas import fingerprint
from ddp_lessons.train.ring import ring_all_reduce

Said = dict[str, Any]
DTYPES = ("float32", "float64", "int32", "int64", "uint8")
OPERATORS = ("SUM", "PRODUCT", "MIN", "MAX")
OF_WHOLE_NUMBERS = ("BAND", "BOR", "BXOR")


def every_call(average: str = "average_gradients") -> Said:
    return {**collectives(), **messages(), **trained(average), **trained("ddp")}


def collectives() -> Said:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    said: Said = {}
    for dtype in DTYPES:
        for name in (*OPERATORS, *(OF_WHOLE_NUMBERS if "int" in dtype else ())):
            tensor = _numbers(rank, dtype)
            dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
            said[f"all_reduce {name} {dtype}"] = tensor.tolist()
    for root in range(world_size):
        tensor = _numbers(rank, "float32")
        dist.broadcast(tensor, root)
        said[f"broadcast from {root}"] = tensor.tolist()
    dist.barrier()
    gathered = [torch.empty(2, 3) for _ in range(world_size)]
    dist.all_gather(gathered, _numbers(rank, "float32"))
    said["all_gather"] = [tensor.tolist() for tensor in gathered]
    empty = torch.zeros(0)
    dist.all_reduce(empty)
    said["nothing"] = empty.tolist()
    work = dist.all_reduce(later := _numbers(rank, "float64"), async_op=True)
    assert work is not None
    work.wait()
    said["in the background"] = [later.tolist(), work.is_completed()]
    return said


def messages() -> Said:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % world_size, (rank - 1) % world_size
    received = torch.empty(2, 3)
    if rank == 0:
        dist.send(_numbers(rank, "float32"), after)
        dist.recv(received, before)
    else:
        dist.recv(received, before)
        dist.send(_numbers(rank, "float32"), after)
    said: Said = {"token": received.tolist(), "ring": ring_all_reduce(torch.arange(11.0) + rank).tolist()}
    if rank == 0:
        senders = [dist.recv(received) for _ in range(1, world_size)]
        said["from anyone"] = sorted(senders)
    else:
        dist.send(_numbers(rank, "float32"), 0)
    dist.barrier()
    # two messages between the same two, told apart by their tags
    if rank == 0:
        works = [dist.isend(torch.tensor([float(tag)]), 1, tag=tag) for tag in (1, 2)]
        assert all(work is not None and work.wait() for work in works)
    elif rank == 1:
        tagged = {tag: torch.zeros(1) for tag in (2, 1)}
        both = [dist.irecv(tensor, 0, tag=tag) for tag, tensor in tagged.items()]
        assert all(work is not None and work.wait() for work in both)
        said["tags"] = [tagged[1].item(), tagged[2].item()]
    return said


def trained(how: str, steps: int = 5) -> Said:
    """Losses and weights of a small training, in float64, with other data on each rank."""
    rank = dist.get_rank()
    torch.manual_seed(3)
    model: nn.Module = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    inputs = torch.randn(8, 6, generator=torch.Generator().manual_seed(rank), dtype=torch.float64)
    if how == "ddp":
        torch.manual_seed(rank)  # DistributedDataParallel makes the start weights equal
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    average = {"average_gradients": average_gradients, "buckets": average_gradients_bucketed}.get(how)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
        if average is not None:
            average(model)
        optimizer.step()
    equal: list[Any] = [torch.zeros(8, dtype=torch.uint8) for _ in range(dist.get_world_size())]
    dist.all_gather(equal, torch.tensor(list(fingerprint(model).encode()), dtype=torch.uint8))
    return {
        f"{how}: weights": [weight for parameter in model.parameters() for weight in parameter.flatten().tolist()],
        f"{how}: all ranks have the same": len({bytes(one.tolist()) for one in equal}) == 1,
    }


def _numbers(rank: int, dtype: str) -> Tensor:
    return (torch.arange(6).view(2, 3) % 4 + rank + 1).to(getattr(torch, dtype))


def under_launch(rank: int, world_size: int) -> Said:
    return every_call()


def refusals() -> list[str]:
    refused = []
    for call in (
        lambda: dist.all_reduce(torch.ones(1), op=dist.ReduceOp.AVG),
        lambda: dist.all_reduce(torch.ones(1, dtype=torch.bfloat16)),
        lambda: dist.all_reduce(torch.ones(2, 3).t()),
        lambda: dist.new_group([0]),
    ):
        try:
            call()
        except Exception as error:
            refused.append(f"{type(error).__name__}: {error}")
    return refused


def under_mpirun() -> None:
    from mpi4py import MPI

    from ddp_lessons.train.mpi_group import join_over_mpi

    join_over_mpi()
    by_rank = MPI.COMM_WORLD.gather((every_call(), refusals()))  # mpirun mixes the ranks' longer lines
    if dist.get_rank() == 0:
        print(json.dumps(by_rank), flush=True)


if __name__ == "__main__":
    under_mpirun()
