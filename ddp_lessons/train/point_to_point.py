"""Messages between two ranks: a token that travels around a ring, and ranks that swap tensors."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def pass_the_token(token: Tensor) -> Tensor:
    """Send rank 0's token once around the ring. Each rank adds 1, and returns the last value it had."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % world_size, (rank - 1) % world_size
    # Rank 0 has to start: if every rank waited for the token first, all would wait forever.
    if rank > 0:
        dist.recv(token, before)
    token += 1
    if world_size > 1:  # a rank can't send to itself
        dist.send(token, after)
        if rank == 0:
            dist.recv(token, before)  # after the whole ring: start + world_size
    return token


def exchange(tensor: Tensor) -> Tensor:
    """Exchange tensors between two ranks, and return the other rank's."""
    other = 1 - dist.get_rank()
    # not received into `tensor`, which may still be being sent
    received = torch.empty_like(tensor)
    send_and_receive(tensor, other, received, other)
    return received


def swap(tensor: Tensor) -> Tensor:
    """Return the tensor of this rank's partner: ranks 0 and 1 are a pair, 2 and 3, and so on.

    If the number of ranks is odd, the last one has no partner and gets its own tensor back.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    partner = rank + 1 if rank % 2 == 0 else rank - 1
    if partner == world_size:
        return tensor.clone()
    received = torch.empty_like(tensor)
    # If both sent first, each would wait for the other. So the odd rank receives first.
    if rank % 2 == 0:
        dist.send(tensor, partner)
        dist.recv(received, partner)
    else:
        dist.recv(received, partner)
        dist.send(tensor, partner)
    return received


def send_and_receive(outgoing: Tensor, dst: int, incoming: Tensor, src: int) -> None:
    """Send to one rank while receiving from another, and return when both are done.

    All ranks may call this at the same time. With `send` and then `recv`, each rank would wait in `send` for a `recv`
    that the other has not reached yet.
    """
    both = [dist.P2POp(dist.irecv, incoming, src), dist.P2POp(dist.isend, outgoing, dst)]
    for work in dist.batch_isend_irecv(both):
        work.wait()  # before this, `incoming` is not filled yet, and `outgoing` must not be changed
