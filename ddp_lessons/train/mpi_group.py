"""A process group over MPI, in Python: torch's calls, carried by mpi4py.

torch has its own MPI backend, but only if it was built from source on a machine with MPI. This one works with any
torch. Each method starts an MPI request and returns it as torch's `Work`; `wait` completes it.
"""

# mypy: disable-error-code="override"
# torch calls only one overload of each of these methods, and so do we.
from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore
from torch.distributed.distributed_c10d import Store, Work

if TYPE_CHECKING:
    from mpi4py import MPI

BACKEND = "mpi4py"


def join_over_mpi() -> None:
    """Join the group of all processes that mpirun has started, as init_process_group does under torchrun."""
    from mpi4py import MPI  # the import initializes MPI, so do it only when needed

    world = MPI.COMM_WORLD
    # mpirun has told every process about the others, so no rendezvous is needed and the store stays empty.
    dist.init_process_group(BACKEND, store=HashStore(), rank=world.rank, world_size=world.size)


class Request(Work):
    """A request that MPI has started. It uses the tensors' memory until `wait` returns, so it keeps them alive."""

    def __init__(
        self, request: MPI.Request, tensors: list[Tensor], afterwards: Callable[[], object] | None = None
    ) -> None:
        super().__init__()
        from mpi4py import MPI

        self._request, self._tensors, self._afterwards = request, tensors, afterwards
        self._status = MPI.Status()

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._request.Wait(self._status)  # MPI has no timeouts
        if self._afterwards is not None:
            self._afterwards()
            self._afterwards = None
        return True

    def is_completed(self) -> bool:
        return bool(self._request.Test(self._status)) and (self._afterwards is None or self.wait())

    def get_future(self) -> torch.futures.Future[list[Tensor]]:
        # DistributedDataParallel needs one. MPI does not notify when a request is done, so wait here. The values are
        # right, but backward() continues only when this bucket is complete.
        self.wait()
        future: torch.futures.Future[list[Tensor]] = torch.futures.Future()
        future.set_result(self._tensors)
        return future

    def _source_rank(self) -> int:
        source: int = self._status.Get_source()
        return source


class MPIGroup(dist.ProcessGroup):
    """The ranks of an MPI communicator: their numbers are those of this group."""

    def __init__(self, communicator: MPI.Comm) -> None:
        super().__init__(communicator.rank, communicator.size)  # type: ignore[call-arg]  # the stub lacks it
        # A copy of the communicator, so that messages of the program itself never match ours.
        self._comm = communicator.Dup()

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Work:
        from mpi4py import MPI

        operator = _operator(dist.ReduceOp.SUM if opts is None else opts.reduceOp)
        return Request(self._comm.Iallreduce(MPI.IN_PLACE, _memory(tensors[0]), operator), tensors)

    def broadcast(self, tensors: list[Tensor], opts: Any) -> Work:
        return Request(self._comm.Ibcast(_memory(tensors[0]), root=opts.rootRank), tensors)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work:
        gathered = inputs[0].new_empty((self.size(), *inputs[0].shape))  # contiguous, as MPI requires
        request = self._comm.Iallgather(_memory(inputs[0]), _memory(gathered))
        return Request(request, [gathered, *inputs], lambda: torch._foreach_copy_(outputs[0], list(gathered)))

    def barrier(self, opts: Any = None) -> Work:
        return Request(self._comm.Ibarrier(), [])

    def send(self, tensors: list[Tensor], dst: int, tag: int) -> Work:
        return Request(self._comm.Isend(_memory(tensors[0]), dst, tag), tensors)

    def recv(self, tensors: list[Tensor], src: int, tag: int) -> Work:
        return Request(self._comm.Irecv(_memory(tensors[0]), src, tag), tensors)

    def recv_anysource(self, tensors: list[Tensor], tag: int) -> Work:
        from mpi4py import MPI

        return self.recv(tensors, MPI.ANY_SOURCE, tag)

    def _get_backend(self, device: torch.device) -> Any:
        return self  # some functions of torch ask a group for the name of its backend


def _make(store: Store, rank: int, world_size: int, timeout: timedelta) -> MPIGroup:
    from mpi4py import MPI

    if world_size != MPI.COMM_WORLD.size:
        raise NotImplementedError(
            f"mpirun started {MPI.COMM_WORLD.size} processes, and this group would have {world_size}: it has to have "
            "all of them"
        )
    return MPIGroup(MPI.COMM_WORLD)


def _memory(tensor: Tensor) -> Any:
    """The tensor's memory with its dtype, as MPI reads and writes it."""
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise ValueError("MPI reads a tensor's memory: give one on the CPU that lies in one piece (contiguous)")
    if tensor.dtype in (torch.float16, torch.bfloat16):
        raise ValueError(f"MPI cannot add {tensor.dtype}: send it as float32")
    return tensor.detach().numpy()


def _operator(op: Any) -> MPI.Op:
    names = {"SUM": "SUM", "PRODUCT": "PROD", "MIN": "MIN", "MAX": "MAX", "BAND": "BAND", "BOR": "BOR", "BXOR": "BXOR"}
    operators = _operators(tuple(names.items()))
    for ours, theirs in operators:
        if op == ours:
            return theirs
    raise NotImplementedError("MPI has no such operator: for a mean, add up and divide by the world size")


@functools.cache
def _operators(names: tuple[tuple[str, str], ...]) -> list[tuple[Any, MPI.Op]]:
    from mpi4py import MPI

    return [(getattr(dist.ReduceOp, ours), getattr(MPI, theirs)) for ours, theirs in names]


# From now on init_process_group("mpi4py") makes such a group, as "gloo" makes a gloo group.
dist.Backend.register_backend(BACKEND, _make, devices="cpu")
