"""Answers to the exercise `swap`: right ones, and wrong ones with words of their sentences."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


def partner_of_this_rank() -> int | None:
    partner: int = dist.get_rank() ^ 1
    return partner if partner < dist.get_world_size() else None


# right


def the_odd_one_receives_first(tensor: Tensor) -> Tensor:
    partner, received = partner_of_this_rank(), torch.empty_like(tensor)
    if partner is None:
        return tensor
    if dist.get_rank() % 2:
        dist.recv(received, partner)
        dist.send(tensor, partner)
    else:
        dist.send(tensor, partner)
        dist.recv(received, partner)
    return received


def with_isend(tensor: Tensor) -> Tensor:
    partner, received = partner_of_this_rank(), torch.empty_like(tensor)
    if partner is None:
        return tensor.clone()
    request = dist.isend(tensor, partner)
    dist.recv(received, partner)
    request.wait()
    return received


def in_place(tensor: Tensor) -> None:
    if partner_of_this_rank() is not None:
        tensor.copy_(with_isend(tensor))


def with_irecv(tensor: Tensor) -> Tensor:
    partner, received = partner_of_this_rank(), torch.empty_like(tensor)
    if partner is not None:
        request = dist.irecv(received, partner)
        dist.send(tensor, partner)
        request.wait()
    return tensor if partner is None else received


def as_a_batch(tensor: Tensor) -> Tensor:
    partner, received = partner_of_this_rank(), tensor.clone()
    if partner is not None:
        both = [dist.P2POp(dist.isend, tensor, partner), dist.P2POp(dist.irecv, received, partner)]
        for request in dist.batch_isend_irecv(both):
            request.wait()
    return received


RIGHT = [the_odd_one_receives_first, with_isend, in_place, with_irecv, as_a_batch]


# wrong


def with_the_next_rank(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    request = dist.isend(tensor, (rank + 1) % world_size)
    dist.recv(received, (rank - 1) % world_size)
    request.wait()
    return received


def with_the_rank_at_the_other_end(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    other, received = world_size - 1 - rank, tensor.clone()
    if other != rank:
        request = dist.isend(tensor, other)
        dist.recv(received, other)
        request.wait()
    return received


def with_a_rank_that_does_not_exist(tensor: Tensor) -> Tensor:
    partner, received = dist.get_rank() ^ 1, torch.empty_like(tensor)
    request = dist.isend(tensor, partner)
    dist.recv(received, partner)
    request.wait()
    return received


def returns_its_own(tensor: Tensor) -> Tensor:
    with_isend(tensor)
    return tensor


def receives_over_what_it_has_to_send(tensor: Tensor) -> Tensor:
    partner = partner_of_this_rank()
    if partner is None:
        return tensor
    if dist.get_rank() % 2:
        dist.recv(tensor, partner)
        dist.send(tensor, partner)
    else:
        dist.send(tensor, partner)
        dist.recv(tensor, partner)
    return tensor


def the_odd_last_rank_gives_zeros(tensor: Tensor) -> Tensor:
    received = torch.zeros_like(tensor)
    partner = partner_of_this_rank()
    if partner is not None:
        request = dist.isend(tensor, partner)
        dist.recv(received, partner)
        request.wait()
    return received


def the_odd_last_rank_returns_nothing(tensor: Tensor) -> Tensor | None:
    if partner_of_this_rank() is None:
        tensor.zero_()
        return None
    return with_isend(tensor)


def gathers_everything(tensor: Tensor) -> Tensor:
    received = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(received, tensor)
    partner = partner_of_this_rank()
    return tensor if partner is None else received[partner]


def only_even_ranks_send(tensor: Tensor) -> Tensor:
    partner, received = partner_of_this_rank(), torch.zeros_like(tensor)
    if partner is None:
        return tensor
    if dist.get_rank() % 2:
        dist.recv(received, partner)
    else:
        dist.send(tensor, partner)
    return received


def never_waits(tensor: Tensor) -> Tensor:
    partner, received = partner_of_this_rank(), torch.zeros_like(tensor)
    if partner is not None:
        dist.irecv(received, partner)
        dist.send(tensor, partner)
    return tensor if partner is None else received


def sends_twice(tensor: Tensor) -> Tensor:
    with_isend(tensor)
    return with_isend(tensor)


def tells_everyone(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    received = [tensor.clone() for _ in range(world_size)]
    others = [other for other in range(world_size) if other != rank]
    requests = [dist.isend(tensor, other) for other in others]
    for other in others:
        dist.recv(received[other], other)
    for request in requests:
        request.wait()
    partner = partner_of_this_rank()
    return tensor if partner is None else received[partner]


def raises(tensor: Tensor) -> Tensor:
    raise LookupError("nobody is there")


WRONG = [
    (
        with_the_next_rank,
        "It works with 2 ranks, but not with 3: rank 0 ends with the tensor of rank 2",
    ),
    (with_the_rank_at_the_other_end, "It works with 2 ranks, but not with 3: rank 0 ends with the tensor of rank 2"),
    (with_a_rank_that_does_not_exist, "It works with 2 ranks, but not with 3: "),
    (returns_its_own, "Rank 0 ends with its own tensor: return what was received"),
    (receives_over_what_it_has_to_send, "Rank 1 receives into the tensor that it has yet to send"),
    (the_odd_last_rank_gives_zeros, "but not with 3: rank 2 has no partner among 3 ranks: it keeps its own tensor"),
    (the_odd_last_rank_returns_nothing, "but not with 3: rank 2 has no partner among 3 ranks"),
    (gathers_everything, "It calls the collective all_gather"),
    (only_even_ranks_send, "Rank 0 receives nothing"),
    (never_waits, "never waits for its irecv"),
    (sends_twice, "It moves too much: rank 0 sends more than its tensor once"),
    (tells_everyone, "Rank 0 also sends to rank 2: it has to talk to its partner alone"),
    (raises, "Both ranks raised LookupError: nobody is there"),
]


# hanging


def both_send_first(tensor: Tensor) -> Tensor:
    """The program of the exercise."""
    partner = dist.get_rank() ^ 1
    if partner == dist.get_world_size():
        return tensor
    received = torch.empty_like(tensor)
    dist.send(tensor, partner)
    dist.recv(received, partner)
    return received


def both_receive_first(tensor: Tensor) -> Tensor:
    partner, received = partner_of_this_rank(), torch.empty_like(tensor)
    if partner is not None:
        dist.recv(received, partner)
        dist.send(tensor, partner)
    return received


def the_odd_last_rank_waits_for_rank_0(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    received, other = torch.empty_like(tensor), (rank ^ 1) % world_size
    other = other if (rank ^ 1) < world_size else 0
    if rank % 2:
        dist.recv(received, other)
        dist.send(tensor, other)
    else:
        dist.send(tensor, other)
        dist.recv(received, other)
    return received


def tags_differ(tensor: Tensor) -> Tensor:
    partner, received = partner_of_this_rank(), torch.empty_like(tensor)
    if partner is None:
        return tensor
    request = dist.isend(tensor, partner, tag=dist.get_rank())
    dist.recv(received, partner, tag=dist.get_rank())
    request.wait()
    return received


HANGING = [
    (both_send_first, "Every rank sends first, and a send waits until the other side receives"),
    (both_receive_first, "Every rank waits to receive first"),
    (the_odd_last_rank_waits_for_rank_0, "but not with 3: rank 2 waits in send: nobody receives its message to rank 0"),
    (tags_differ, "The tags differ"),
]
