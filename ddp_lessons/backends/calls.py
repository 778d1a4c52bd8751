"""Every call of torch.distributed that a backend may support, with inputs so small that the right result is known."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor


class Given:
    """The inputs and output buffers of this rank, for one call."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.rank, self.world_size = device, dist.get_rank(), dist.get_world_size()
        self.everyone = range(self.world_size)
        self.of_all = [torch.tensor([1.0 + rank, 5.0 - rank], device=device) for rank in self.everyone]
        self.mine = self.of_all[self.rank].clone()
        self.sum = torch.stack(self.of_all).sum(0)
        self.buffer = torch.zeros(2, device=device)
        self.buffers = [torch.zeros(2, device=device) for _ in self.everyone]
        self.parts = [self.mine + 10 * part for part in self.everyone]  # a different tensor for each rank


def _send_and_recv(given: Given) -> bool:
    other = 1 - given.rank
    if given.rank == 0:
        dist.send(given.mine, other)
        dist.recv(given.buffer, other)
    else:
        dist.recv(given.buffer, other)
        dist.send(given.mine, other)
    return torch.equal(given.buffer, given.of_all[other])


def _batch_isend_irecv(given: Given) -> bool:
    before, after = (given.rank - 1) % given.world_size, (given.rank + 1) % given.world_size
    both = [dist.P2POp(dist.isend, given.mine, after), dist.P2POp(dist.irecv, given.buffer, before)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return torch.equal(given.buffer, given.of_all[before])


def _recv_from_anyone(given: Given) -> bool:
    if given.rank == 1:
        dist.send(given.mine, 0)
        return True
    return dist.recv(given.buffer) == 1 and torch.equal(given.buffer, given.of_all[1])


def _broadcast(given: Given) -> bool:
    dist.broadcast(given.mine, 0)
    return torch.equal(given.mine, given.of_all[0])


def _reduce(given: Given) -> bool:
    dist.reduce(given.mine, 0)
    return given.rank > 0 or torch.equal(given.mine, given.sum)


def _all_reduce(given: Given) -> bool:
    dist.all_reduce(given.mine)
    return torch.equal(given.mine, given.sum)


def _all_reduce_average(given: Given) -> bool:
    dist.all_reduce(given.mine, op=dist.ReduceOp.AVG)
    return torch.equal(given.mine, given.sum / given.world_size)


def _all_reduce_of_bfloat16(given: Given) -> bool:
    tensor = given.mine.bfloat16()  # small integers, which it holds exactly
    dist.all_reduce(tensor)
    return torch.equal(tensor.float(), given.sum)


def _scatter(given: Given) -> bool:
    dist.scatter(given.buffer, given.of_all if given.rank == 0 else None, src=0)
    return torch.equal(given.buffer, given.of_all[given.rank])


def _gather(given: Given) -> bool:
    dist.gather(given.mine, given.buffers if given.rank == 0 else None, dst=0)
    return given.rank > 0 or _all_equal(given.buffers, given.of_all)


def _all_gather(given: Given) -> bool:
    dist.all_gather(given.buffers, given.mine)
    return _all_equal(given.buffers, given.of_all)


def _reduce_scatter(given: Given) -> bool:
    dist.reduce_scatter(given.buffer, given.parts)
    return torch.equal(given.buffer, given.sum + 10 * given.rank * given.world_size)


def _all_to_all(given: Given) -> bool:
    dist.all_to_all(given.buffers, given.parts)
    return _all_equal(given.buffers, [tensor + 10 * given.rank for tensor in given.of_all])


def _barrier(given: Given) -> bool:
    dist.barrier()
    return True


def _monitored_barrier(given: Given) -> bool:
    dist.monitored_barrier()
    return True


def _all_gather_object(given: Given) -> bool:
    gathered: list[object] = [None] * given.world_size
    dist.all_gather_object(gathered, f"rank {given.rank}")
    return gathered == [f"rank {rank}" for rank in given.everyone]


def _new_group(given: Given) -> bool:
    dist.all_reduce(given.mine, group=dist.new_group([*given.everyone]))  # type: ignore[arg-type]
    return torch.equal(given.mine, given.sum)


def _training_step(given: Given) -> bool:
    torch.manual_seed(given.rank)  # different weights on each rank, until the model is wrapped
    model = torch.nn.Linear(2, 1).to(given.device)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)  # it averages as long as it exists
    wrapped(given.mine).backward()
    return model.weight.grad is not None and torch.equal(model.weight.grad[0], given.sum / given.world_size)


def _all_equal(some: list[Tensor], others: list[Tensor]) -> bool:
    return torch.equal(torch.stack(some), torch.stack(others))


# each returns whether this rank has the right result
CALLS: dict[str, Callable[[Given], bool]] = {
    "send, recv": _send_and_recv,
    "batch_isend_irecv": _batch_isend_irecv,
    "recv from any rank": _recv_from_anyone,
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
    "a DDP step": _training_step,
}
NEED_TWO = {"send, recv", "batch_isend_irecv", "recv from any rank"}
