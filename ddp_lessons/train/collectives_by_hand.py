"""Every collective of torch.distributed, built from send and receive.

They are written to be read, not to be fast. All ranks call the same function, and each does its own part. As in
torch.distributed, `src` is the rank that sends and `dst` the rank that receives.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from ddp_lessons.train.point_to_point import send_and_receive


def broadcast_by_hand(tensor: Tensor, src: int = 0) -> Tensor:
    """Give every rank the tensor of `src`: one to all."""
    if dist.get_rank() == src:
        for other in _others(src):
            dist.send(tensor, other)
    else:
        dist.recv(tensor, src)  # overwrites this rank's tensor
    return tensor


def reduce_by_hand(tensor: Tensor, dst: int = 0) -> Tensor:
    """Add up the tensors of all ranks on `dst`: all to one. The other ranks keep their tensors."""
    if dist.get_rank() == dst:
        received = torch.empty_like(tensor)
        for other in _others(dst):
            dist.recv(received, other)
            tensor += received
    else:
        dist.send(tensor, dst)
    return tensor


def all_reduce_by_hand(tensor: Tensor) -> Tensor:
    """Give every rank the sum over all ranks: a reduce, then a broadcast of the result."""
    return broadcast_by_hand(reduce_by_hand(tensor))


def scatter_by_hand(tensor: Tensor, parts: Sequence[Tensor] | None = None, src: int = 0) -> Tensor:
    """Fill `tensor` with this rank's part of `parts`, a list of one tensor per rank that only `src` has."""
    if dist.get_rank() == src:
        assert parts is not None, f"rank {src} scatters, so it needs the parts"
        for other in _others(src):
            dist.send(parts[other], other)
        tensor.copy_(parts[src])  # no rank sends to itself
    else:
        dist.recv(tensor, src)
    return tensor


def gather_by_hand(tensor: Tensor, dst: int = 0) -> list[Tensor] | None:
    """On `dst`, return the list of all ranks' tensors, by rank; elsewhere None. The opposite of scatter."""
    if dist.get_rank() != dst:
        dist.send(tensor, dst)
        return None
    # one buffer for each rank; with a shared one, every entry of the list would be the last tensor received
    gathered = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    gathered[dst].copy_(tensor)
    for other in _others(dst):
        dist.recv(gathered[other], other)  # from this rank; otherwise the list would be in order of arrival
    return gathered


def all_gather_by_hand(tensor: Tensor) -> list[Tensor]:
    """Return, on every rank, the list of all ranks' tensors, by rank: one broadcast from each."""
    gathered = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    gathered[dist.get_rank()].copy_(tensor)  # a copy, so that `tensor` stays unchanged
    return [broadcast_by_hand(received, src) for src, received in enumerate(gathered)]


def reduce_scatter_by_hand(parts: Sequence[Tensor]) -> Tensor:
    """Return the sum over ranks of `parts[rank]`: one reduce to each rank, of the part for that rank."""
    sums = [reduce_by_hand(part.clone(), dst) for dst, part in enumerate(parts)]
    return sums[dist.get_rank()]  # the other sums are complete only on other ranks


def all_to_all_by_hand(parts: Sequence[Tensor]) -> list[Tensor]:
    """Send `parts[other]` to each other rank, and return what they send to this one: a transposed matrix."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    received = [torch.empty_like(part) for part in parts]
    received[rank].copy_(parts[rank])
    # In step 1 every rank sends to the next one, in step 2 to the one after that, and so on:
    # each rank sends once and receives once in every step, so no rank waits in a queue.
    for step in range(1, world_size):
        dst, src = (rank + step) % world_size, (rank - step) % world_size
        send_and_receive(parts[dst], dst, received[src], src)
    return received


def barrier_by_hand() -> None:
    """Return when every rank has called it, because a sum needs a number from each rank."""
    all_reduce_by_hand(torch.zeros(1))


def _others(rank: int) -> list[int]:
    return [other for other in range(dist.get_world_size()) if other != rank]
