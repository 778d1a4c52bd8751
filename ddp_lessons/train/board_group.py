"""A process group over a key-value store: the smallest backend with which DistributedDataParallel works.

A backend is a class with a method for each call. torch.distributed checks the arguments, calls the method of that name,
and waits for the `Work` that it returns. Here every message is an entry in the store, which all ranks can read. That is
slow, because each rank reads what all have written, but it needs only a store.
"""

# mypy: disable-error-code="override"
# torch calls only one overload of each of these methods, and so do we.
from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store, Work

BACKEND = "board"


def all_reduce_on_board(board: Store, tensor: Tensor, rank: int, world_size: int) -> Tensor:
    """Give every rank the sum over all ranks, through a store. Each call needs an empty store."""
    board.set(f"rank {rank}", to_bytes(tensor))
    # `get` waits until the entry exists. All ranks add up in the same order, so their results are equal bit for bit.
    parts = [from_bytes(board.get(f"rank {other}"), tensor) for other in range(world_size)]
    return tensor.copy_(torch.stack(parts).sum(0, dtype=tensor.dtype))


def to_bytes(tensor: Tensor) -> Any:
    """The bytes of an entry, without shape and dtype, on which the ranks have to agree as in every collective."""
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def from_bytes(note: bytes, like: Tensor) -> Tensor:
    """The tensor in an entry, with the shape and dtype of `like`."""
    if not note:
        return torch.empty_like(like)
    return torch.frombuffer(bytearray(note), dtype=like.dtype).view(like.shape)


class Done(Work):
    """Work that is already complete when it is returned, because the methods of this group block."""

    def __init__(self, tensors: list[Tensor]) -> None:
        super().__init__()
        self._tensors = tensors

    def wait(self, timeout: timedelta | None = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> torch.futures.Future[list[Tensor]]:
        future: torch.futures.Future[list[Tensor]] = torch.futures.Future()  # DistributedDataParallel asks for it
        future.set_result(self._tensors)
        return future


class BoardGroup(dist.ProcessGroup):
    """Each method reads and writes entries under names that no other call uses."""

    def __init__(self, store: Store, rank: int, world_size: int) -> None:
        super().__init__(rank, world_size)  # type: ignore[call-arg]  # the stub lacks it
        self._store = store
        self._calls = 0
        self._messages: Counter[str] = Counter()

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Work:
        if opts is not None and opts.reduceOp != dist.ReduceOp.SUM:
            raise NotImplementedError("this group only supports sums: use ReduceOp.SUM")
        all_reduce_on_board(self._fresh_board(), tensors[0], self.rank(), self.size())
        return Done(tensors)

    def broadcast(self, tensors: list[Tensor], opts: Any) -> Work:
        board = self._fresh_board()
        if self.rank() == opts.rootRank:
            board.set("root", to_bytes(tensors[0]))
        else:
            tensors[0].copy_(from_bytes(board.get("root"), tensors[0]))
        return Done(tensors)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Work:
        board = self._fresh_board()
        board.set(f"rank {self.rank()}", to_bytes(inputs[0]))
        for other, output in enumerate(outputs[0]):
            output.copy_(from_bytes(board.get(f"rank {other}"), output))
        return Done(outputs[0])

    def barrier(self, opts: Any = None) -> Work:
        return self.allreduce([torch.zeros(1)])  # the sum exists only when all ranks have arrived

    def send(self, tensors: list[Tensor], dst: int, tag: int) -> Work:
        self._store.set(self._next_message(self.rank(), dst, tag), to_bytes(tensors[0]))
        return Done(tensors)

    def recv(self, tensors: list[Tensor], src: int, tag: int) -> Work:
        tensors[0].copy_(from_bytes(self._store.get(self._next_message(src, self.rank(), tag)), tensors[0]))
        return Done(tensors)

    def _get_backend(self, device: torch.device) -> Any:
        return self  # some functions of torch ask a group for the name of its backend

    def _fresh_board(self) -> Store:
        """All ranks make the same collective calls in the same order, so counting the calls is enough."""
        self._calls += 1
        return PrefixStore(f"call {self._calls}", self._store)

    def _next_message(self, src: int, dst: int, tag: int) -> str:
        way = f"from {src} to {dst}, tag {tag}"
        self._messages[way] += 1
        return f"message {self._messages[way]} {way}"


def _make(store: Store, rank: int, world_size: int, timeout: timedelta) -> BoardGroup:
    return BoardGroup(store, rank, world_size)


# From now on init_process_group("board") makes such a group, as "gloo" makes a gloo group.
dist.Backend.register_backend(BACKEND, _make, devices="cpu")
