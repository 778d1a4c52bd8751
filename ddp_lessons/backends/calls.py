"""Every call of torch.distributed that a backend may support, with inputs so small that the right result is known.

Each function makes its call on tensors of the given device, and returns whether this rank has the right result.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

Device = torch.device


def _send_and_recv(device: Device) -> bool:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    received = _buffer(device)
    if world_size == 1:
        raise RuntimeError("one rank alone has nobody to send to")
    if rank == 0:
        dist.send(_given(0, device), 1)
        dist.recv(received, 1)
    elif rank == 1:
        dist.recv(received, 0)
        dist.send(_given(1, device), 0)
    return rank > 1 or _equal(received, _given(1 - rank, device))


def _batch_isend_irecv(device: Device) -> bool:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    before, after, received = (rank - 1) % world_size, (rank + 1) % world_size, _buffer(device)
    both = [dist.P2POp(dist.isend, _given(rank, device), after), dist.P2POp(dist.irecv, received, before)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return _equal(received, _given(before, device))


def _recv_from_anyone(device: Device) -> bool:
    rank, received = dist.get_rank(), _buffer(device)
    if rank == 1:
        dist.send(_given(1, device), 0)
    return rank > 0 or (dist.recv(received) == 1 and _equal(received, _given(1, device)))


def _broadcast(device: Device) -> bool:
    tensor = _given(dist.get_rank(), device)
    dist.broadcast(tensor, 0)
    return _equal(tensor, _given(0, device))


def _reduce(device: Device) -> bool:
    tensor = _given(dist.get_rank(), device)
    dist.reduce(tensor, 0)
    return dist.get_rank() > 0 or _equal(tensor, _sum(device))


def _all_reduce(device: Device) -> bool:
    tensor = _given(dist.get_rank(), device)
    dist.all_reduce(tensor)
    return _equal(tensor, _sum(device))


def _all_reduce_average(device: Device) -> bool:
    tensor = _given(dist.get_rank(), device)
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    return _equal(tensor, _sum(device) / dist.get_world_size())


def _all_reduce_of_bfloat16(device: Device) -> bool:
    tensor = _given(dist.get_rank(), device).bfloat16()  # small integers, which it holds exactly
    dist.all_reduce(tensor)
    return _equal(tensor.float(), _sum(device))


def _scatter(device: Device) -> bool:
    rank, tensor = dist.get_rank(), _buffer(device)
    dist.scatter(tensor, _of_all(device) if rank == 0 else None, src=0)
    return _equal(tensor, _given(rank, device))


def _gather(device: Device) -> bool:
    rank = dist.get_rank()
    gathered = _buffers(device) if rank == 0 else None
    dist.gather(_given(rank, device), gathered, dst=0)
    return gathered is None or _all_equal(gathered, _of_all(device))


def _all_gather(device: Device) -> bool:
    gathered = _buffers(device)
    dist.all_gather(gathered, _given(dist.get_rank(), device))
    return _all_equal(gathered, _of_all(device))


def _reduce_scatter(device: Device) -> bool:
    mine = _buffer(device)
    dist.reduce_scatter(mine, [_given(dist.get_rank(), device) + 10 * part for part in range(dist.get_world_size())])
    return _equal(mine, _sum(device) + 10 * dist.get_rank() * dist.get_world_size())


def _all_to_all(device: Device) -> bool:
    rank, received = dist.get_rank(), _buffers(device)
    dist.all_to_all(received, [_given(rank, device) + 10 * part for part in range(dist.get_world_size())])
    return _all_equal(received, [given + 10 * rank for given in _of_all(device)])


def _barrier(device: Device) -> bool:
    dist.barrier()
    return True


def _monitored_barrier(device: Device) -> bool:
    dist.monitored_barrier()
    return True


def _all_gather_object(device: Device) -> bool:
    gathered: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, f"rank {dist.get_rank()}")
    return gathered == [f"rank {rank}" for rank in range(dist.get_world_size())]


def _new_group(device: Device) -> bool:
    everyone = dist.new_group(list(range(dist.get_world_size())))
    tensor = _given(dist.get_rank(), device)
    dist.all_reduce(tensor, group=everyone)  # type: ignore[arg-type]
    return _equal(tensor, _sum(device))


def _training_step(device: Device) -> bool:
    torch.manual_seed(dist.get_rank())  # different weights on each rank, until the model is wrapped
    model = torch.nn.Linear(2, 1).to(device)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    wrapped(_given(dist.get_rank(), device)).backward()
    return model.weight.grad is not None and _equal(model.weight.grad[0], _sum(device) / dist.get_world_size())


CALLS: dict[str, Callable[[Device], bool]] = {
    "send, recv": _send_and_recv,
    "batch_isend_irecv": _batch_isend_irecv,
    "recv from anyone": _recv_from_anyone,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "all_reduce": _all_reduce,
    "all_reduce, AVG": _all_reduce_average,
    "all_reduce, bfloat16": _all_reduce_of_bfloat16,
    "scatter": _scatter,
    "gather": _gather,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "barrier": _barrier,
    "monitored_barrier": _monitored_barrier,
    "all_gather_object": _all_gather_object,
    "new_group": _new_group,
    "a step of DDP": _training_step,
}


def attempt(call: Callable[[Device], bool], device: Device) -> tuple[str, str]:
    """Make a call, and return its outcome, and the exception that it raised."""
    try:
        return ("works", "") if call(device) else ("wrong", "the answer is not the right one")
    except Exception as error:
        return "refused", first_sentence(error)


def first_sentence(error: BaseException) -> str:
    """The part of an error message before addresses, versions and advice."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__


def _given(rank: int, device: Device) -> Tensor:
    return torch.tensor([1.0 + rank, 5.0 - rank], device=device)


def _of_all(device: Device) -> list[Tensor]:
    return [_given(rank, device) for rank in range(dist.get_world_size())]


def _sum(device: Device) -> Tensor:
    return torch.stack(_of_all(device)).sum(0)


def _buffer(device: Device) -> Tensor:
    return torch.zeros(2, device=device)


def _buffers(device: Device) -> list[Tensor]:
    return [_buffer(device) for _ in range(dist.get_world_size())]


def _equal(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one, other)


def _all_equal(some: list[Tensor], others: list[Tensor]) -> bool:
    return all(_equal(one, other) for one, other in zip(some, others, strict=True))
