"""Three ways to give every rank the sum over all ranks by hand: through rank 0, with a tree, and around a ring.

All three give the same result, but they differ in how much the busiest rank sends, and in how many messages follow each
other. Each changes the tensor in place, as `dist.all_reduce` does, and returns it.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from ddp_lessons.train.point_to_point import send_and_receive


def all_reduce_through_rank_0(tensor: Tensor) -> Tensor:
    """All ranks send to rank 0, which adds up the tensors and sends the sum back to all ranks."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    total = tensor.contiguous()  # a tensor must be contiguous to be sent
    if rank == 0:
        received = torch.empty_like(total)
        for src in range(1, world_size):
            dist.recv(received, src)
            total += received
        # rank 0 sends world_size - 1 whole tensors, one after the other, while the others wait
        for dst in range(1, world_size):
            dist.send(total, dst)
    else:
        dist.send(total, 0)
        dist.recv(total, 0)
    return _put_back(total, tensor)


def all_reduce_by_tree(tensor: Tensor) -> Tensor:
    """Add up along the branches of a tree down to rank 0, then send the sum back the same way."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    total = tensor.contiguous()
    received = torch.empty_like(total)
    # In round `distance` = 1, 2, 4, ... a rank either sends its sum to the rank `distance` below and is done, or
    # receives the sum of the rank `distance` above, if there is one. After the last round rank 0 has the whole sum.
    distance = 1
    while distance < world_size and rank % (2 * distance) == 0:
        if rank + distance < world_size:
            dist.recv(received, rank + distance)
            total += received  # now the sum of the ranks from `rank` to `rank + 2 * distance - 1`
        distance *= 2
    if rank > 0:
        dist.send(total, rank - distance)
        dist.recv(total, rank - distance)
    # back again: the farthest branch first, because it has the longest path
    while distance > 1:
        distance //= 2
        if rank + distance < world_size:
            dist.send(total, rank + distance)
    return _put_back(total, tensor)


def ring_all_reduce(tensor: Tensor) -> Tensor:
    """Send chunks around a ring, so that no rank sends more than twice the tensor's size, for any number of ranks."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if world_size == 1:
        return tensor
    next_rank, previous_rank = (rank + 1) % world_size, (rank - 1) % world_size
    total = tensor.contiguous()
    # One chunk per rank, as views: changing a chunk changes `total`. If the size is not divisible, chunks differ by one
    # element; with fewer elements than ranks, some chunks are empty.
    chunks = list(total.view(-1).tensor_split(world_size))
    received = torch.empty_like(chunks[0])  # a buffer for the largest chunk

    # First half, reduce-scatter. In step s this rank sends chunk (rank - s) and adds what it receives to chunk (rank -
    # s - 1), which it sends in the next step. A chunk that has visited all ranks is complete.
    for step in range(world_size - 1):
        outgoing = chunks[(rank - step) % world_size]
        incoming = chunks[(rank - step - 1) % world_size]
        arrived = received[: incoming.numel()]
        send_and_receive(outgoing, next_rank, arrived, previous_rank)
        incoming += arrived

    # Second half, all-gather: chunk (rank + 1) is complete here. The complete chunks travel around once more, and are
    # received directly into their place, because nothing is added.
    for step in range(world_size - 1):
        outgoing, incoming = chunks[(rank + 1 - step) % world_size], chunks[(rank - step) % world_size]
        send_and_receive(outgoing, next_rank, incoming, previous_rank)
    return _put_back(total, tensor)


def _put_back(total: Tensor, tensor: Tensor) -> Tensor:
    """Copy the sum back if `contiguous` made a copy, for example of a transposed tensor."""
    if total.data_ptr() != tensor.data_ptr():
        tensor.copy_(total)
    return tensor
