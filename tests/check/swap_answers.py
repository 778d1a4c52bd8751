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


# of learners who have read only the lesson


def by_whole_division(tensor: Tensor) -> Tensor:
    rank = dist.get_rank()
    partner, received = 4 * (rank // 2) + 1 - rank, tensor.clone()
    if partner < dist.get_world_size():
        request = dist.isend(tensor, partner)
        dist.recv(received, partner)
        request.wait()
    return received


def both_in_the_background(tensor: Tensor) -> Tensor:
    partner = partner_of_this_rank()
    if partner is None:
        return tensor
    received = torch.empty_like(tensor)
    requests = [dist.irecv(received, src=partner, tag=3), dist.isend(tensor, dst=partner, tag=3)]
    for request in requests:
        request.wait()
    return received


def the_lower_one_sends_first(tensor: Tensor) -> Tensor:
    rank, partner = dist.get_rank(), partner_of_this_rank()
    received = torch.empty_like(tensor)
    if partner is None:
        return tensor
    if rank < partner:
        dist.send(tensor, partner)
        dist.recv(received, partner)
    else:
        dist.recv(received, partner)
        dist.send(tensor, partner)
    return received


def from_anyone(tensor: Tensor) -> Tensor:
    partner = partner_of_this_rank()
    received = torch.empty_like(tensor)
    if partner is None:
        return tensor
    request = dist.isend(tensor, partner)
    dist.recv(received)
    request.wait()
    return received


def in_two_pieces(tensor: Tensor) -> Tensor:
    partner = partner_of_this_rank()
    if partner is None:
        return tensor
    flat, received = tensor.flatten(), torch.empty_like(tensor).flatten()
    half = (flat.numel() + 1) // 2
    for piece, room in zip(flat.split(half), received.split(half), strict=True):
        request = dist.isend(piece.contiguous(), partner)
        dist.recv(room, partner)
        request.wait()
    return received.view_as(tensor)


RIGHT += [by_whole_division, both_in_the_background, the_lower_one_sends_first, from_anyone, in_two_pieces]


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
        "It works with 2 ranks, but not with 3: each rank sends to the next rank, as in a ring",
    ),
    (with_the_rank_at_the_other_end, "It works with 2 ranks, but not with 3: rank 0 ends with rank 2's tensor"),
    (with_a_rank_that_does_not_exist, "It works with 2 ranks, but not with 3: "),
    (returns_its_own, "Rank 0 ends with its own tensor. Return the received tensor"),
    (receives_over_what_it_has_to_send, "Rank 1 receives into the tensor that it has not sent yet"),
    (
        the_odd_last_rank_gives_zeros,
        "but not with 3: rank 2 has no partner among 3 ranks. Return its own tensor, unchanged",
    ),
    (the_odd_last_rank_returns_nothing, "but not with 3: rank 2 has no partner among 3 ranks"),
    (gathers_everything, "It calls the collective all_gather"),
    (only_even_ranks_send, "Rank 0 receives nothing"),
    (never_waits, "never waits for its irecv"),
    (sends_twice, "Too much is communicated: rank 0 sends more than its tensor. Send the tensor once"),
    (tells_everyone, "Rank 0 also sends to rank 2. Send only to its partner"),
    (raises, "Both ranks raised LookupError: nobody is there"),
]


def round_a_ring_in_order(tensor: Tensor) -> Tensor:
    """Even ranks send first, and all of them to the next one."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    after, before, received = (rank + 1) % world_size, (rank - 1) % world_size, torch.empty_like(tensor)
    if rank % 2 == 0:
        dist.send(tensor, after)
        dist.recv(received, before)
    else:
        dist.recv(received, before)
        dist.send(tensor, after)
    return received


def with_the_one_before(tensor: Tensor) -> Tensor:
    """Rank 0 with the last, 1 with 2, 3 with 4."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    partner = (rank - 1 if rank % 2 == 0 else rank + 1) % world_size
    if world_size % 2 or world_size == 1:
        return with_isend(tensor)
    received = torch.empty_like(tensor)
    request = dist.isend(tensor, partner)
    dist.recv(received, partner)
    request.wait()
    return received


def halves_of_the_world(tensor: Tensor) -> Tensor:
    """0 with 2 and 1 with 3."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    half, received = world_size // 2, tensor.clone()
    partner = rank + half if rank < half else rank - half
    if rank < 2 * half:
        request = dist.isend(tensor, partner)
        dist.recv(received, partner)
        request.wait()
    return received


def only_the_first_pair(tensor: Tensor) -> Tensor:
    return with_isend(tensor) if dist.get_rank() < 2 else tensor


def receives_into_a_number_of_its_own(tensor: Tensor) -> Tensor:
    partner, received = partner_of_this_rank(), torch.zeros_like(tensor)
    if partner is not None:
        request = dist.isend(tensor, partner)
        dist.recv(received.clone(), partner)
        request.wait()
    return tensor if partner is None else received


def takes_what_recv_returns(tensor: Tensor) -> Any:
    partner, received = partner_of_this_rank(), torch.empty_like(tensor)
    if partner is None:
        return tensor
    request = dist.isend(tensor, partner)
    received = dist.recv(received, partner)
    request.wait()
    return received


def adds_them_up(tensor: Tensor) -> Tensor:
    return tensor + with_isend(tensor)


def all_reduce_minus_its_own(tensor: Tensor) -> Tensor:
    total = tensor.clone()
    dist.all_reduce(total)
    return total - tensor


def overwrites_before_it_is_gone(tensor: Tensor) -> Tensor:
    partner = partner_of_this_rank()
    if partner is None:
        return tensor
    request = dist.isend(tensor, partner)
    dist.recv(tensor, partner)
    request.wait()
    return tensor


def in_floats(tensor: Tensor) -> Tensor:
    partner, received = partner_of_this_rank(), torch.empty(tensor.shape)
    if partner is None:
        return tensor
    request = dist.isend(tensor.float(), partner)
    dist.recv(received, partner)
    request.wait()
    return received


WRONG += [
    (
        round_a_ring_in_order,
        "It works with 2 ranks, but not with 3: each rank sends to the next rank, as in a ring",
    ),
    (with_the_one_before, "but not with 4: rank 0 ends with rank 3's tensor. Swap with its partner, rank 1"),
    (halves_of_the_world, "but not with 4: rank 0 ends with rank 2's tensor. Swap with its partner, rank 1"),
    (only_the_first_pair, "but not with 4: rank 2 receives nothing"),
    (receives_into_a_number_of_its_own, "Rank 0 returns a buffer of zeros. Receive into the buffer that you return"),
    (
        takes_what_recv_returns,
        "It returns the number 1, because recv returns the rank of the sender. Return the buffer",
    ),
    (adds_them_up, "Rank 0 returns the sum of both tensors"),
    (all_reduce_minus_its_own, "It calls the collective all_reduce"),
    (overwrites_before_it_is_gone, "gets its own tensor back. Use a second buffer"),
    (in_floats, "but fails for integers (int64)"),
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
    (both_send_first, "Deadlock: every rank calls send first, and send blocks until the other side receives"),
    (both_receive_first, "Deadlock: every rank calls recv first, so no rank can send"),
    (
        the_odd_last_rank_waits_for_rank_0,
        "but not with 3: rank 2 waits in send, but rank 0 never receives the message. Add the matching recv",
    ),
    (tags_differ, "The tags do not match:"),
]


def the_odd_last_rank_sends_to_itself(tensor: Tensor) -> Tensor:
    partner = partner_of_this_rank()
    partner = dist.get_rank() if partner is None else partner
    received = torch.empty_like(tensor)
    request = dist.isend(tensor, partner)
    dist.recv(received, partner)
    request.wait()
    return received


def waits_for_its_isend_first(tensor: Tensor) -> Tensor:
    partner, received = partner_of_this_rank(), torch.empty_like(tensor)
    if partner is None:
        return tensor
    request = dist.isend(tensor, partner)
    request.wait()
    dist.recv(received, partner)
    return received


def the_odd_last_rank_returns_none(tensor: Tensor) -> Tensor | None:
    return None if partner_of_this_rank() is None else with_isend(tensor)


WRONG += [(the_odd_last_rank_returns_none, "Only ranks 0 and 1 have the answer")]
HANGING += [
    (
        the_odd_last_rank_sends_to_itself,
        "Exchange tensors only with the partner. A rank without a partner returns its own tensor",
    ),
    (
        waits_for_its_isend_first,
        "Deadlock: wait() right after isend blocks until the message is received",
    ),
]
