"""Right and wrong answers to the exercises with messages, roots and groups: lessons 2, 3 and 11."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


def places() -> tuple[int, int, int, int]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    return rank, world_size, (rank + 1) % world_size, (rank - 1) % world_size


def traded(tensor: Tensor, partner: int) -> Tensor:
    received = torch.empty_like(tensor)
    request = dist.isend(tensor, partner)
    dist.recv(received, partner)
    request.wait()
    return received


# exchange


def rank_1_sends_first_in_place(tensor: Tensor) -> None:
    mine = tensor.clone()
    if dist.get_rank() == 1:
        dist.send(mine, 0)
        dist.recv(tensor, 0)
    else:
        dist.recv(tensor, 1)
        dist.send(mine, 1)


def isend_then_recv_from_anyone(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    request = dist.isend(tensor, 1 - dist.get_rank(), tag=7)
    dist.recv(received, tag=7)
    request.wait()
    return received


def in_a_batch(tensor: Tensor) -> Tensor:
    other, received = 1 - dist.get_rank(), torch.empty_like(tensor)
    both = [dist.P2POp(dist.isend, tensor, other), dist.P2POp(dist.irecv, received, other)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return received


def row_by_row_with_a_barrier(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    for row, buffer in zip(tensor.split(100_000), received.split(100_000), strict=True):
        request = dist.irecv(buffer, 1 - dist.get_rank())
        dist.send(row, 1 - dist.get_rank())
        request.wait()
    dist.barrier()
    return received


def sleeps_instead_of_waiting(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    dist.isend(tensor, 1 - dist.get_rank())
    dist.irecv(received, 1 - dist.get_rank())
    time.sleep(0.05)
    return received


# swap


def the_odd_rank_receives_first(tensor: Tensor) -> Tensor:
    rank, received = dist.get_rank(), tensor.clone()
    if rank % 2:
        dist.recv(received, rank - 1)
        dist.send(tensor, rank - 1)
    elif rank + 1 < dist.get_world_size():
        dist.send(tensor, rank + 1)
        dist.recv(received, rank + 1)
    return received


def all_in_place(tensor: Tensor) -> None:
    if dist.get_rank() ^ 1 < dist.get_world_size():
        tensor.copy_(traded(tensor, dist.get_rank() ^ 1))


def swap_as_given(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    partner = rank + 1 if rank % 2 == 0 else rank - 1
    if partner == world_size:
        return tensor
    received = torch.empty_like(tensor)
    dist.send(tensor, partner)
    dist.recv(received, partner)
    return received


def the_last_one_returns_none(tensor: Tensor) -> Tensor | None:
    return traded(tensor, dist.get_rank() ^ 1) if dist.get_rank() ^ 1 < dist.get_world_size() else None


# pass_the_token


def token_in_place(token: Tensor) -> None:
    rank, world_size, after, before = places()
    if rank:
        dist.recv(token, before)
    token += 1
    if world_size > 1:
        dist.send(token, after)
        if rank == 0:
            dist.recv(token, before)


def token_as_a_number(token: Tensor) -> int:
    token_in_place(token)
    return int(token)


def rank_0_sends_to_everyone(token: Tensor) -> Tensor:
    rank, world_size, _, _ = places()
    for other in range(1, world_size):
        if rank == 0:
            dist.send(token + other + 1, other)
        elif rank == other:
            dist.recv(token, 0)
    return token if rank else token + world_size


def token_goes_round_twice(token: Tensor) -> Tensor:
    token_in_place(token.clone())
    token_in_place(token)
    return token


# broadcast_by_hand


def star(tensor: Tensor) -> None:
    for other in range(1, dist.get_world_size()):
        if dist.get_rank() == 0:
            dist.send(tensor, other)
        elif dist.get_rank() == other:
            dist.recv(tensor)


def scattered_and_passed_round(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    pieces = tensor.view(-1).tensor_split(world_size)
    for other in range(1, world_size):
        if rank == 0:
            dist.send(pieces[other], other)
        elif rank == other:
            dist.recv(pieces[rank], 0)
    for step in range(world_size - 1):
        request = dist.isend(pieces[(rank - step) % world_size], after)
        dist.recv(pieces[(rank - step - 1) % world_size], before)
        request.wait()
    return tensor


def comes_back_to_rank_0(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if rank:
        dist.recv(tensor, before)
    if world_size > 1:
        dist.send(tensor, after)
        if rank == 0:
            dist.recv(tensor, before)
    return tensor


# all_gather_by_hand


def each_to_each(tensor: Tensor) -> list[Tensor]:
    rank, world_size, _, _ = places()
    gathered = [tensor if source == rank else torch.empty_like(tensor) for source in range(world_size)]
    others = [other for other in range(world_size) if other != rank]
    requests = [dist.isend(tensor, other) for other in others]
    for request in [*requests, *(dist.irecv(gathered[other], other) for other in others)]:
        request.wait()
    return gathered


def round_a_ring_stacked(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    gathered = torch.stack([tensor] * world_size)
    for step in range(world_size - 1):
        request = dist.isend(gathered[(rank - step) % world_size], after)
        dist.recv(gathered[(rank - step - 1) % world_size], before)
        request.wait()
    return gathered


def gathered_and_broadcast(tensor: Tensor) -> tuple[Tensor, ...]:
    rank, world_size, _, _ = places()
    gathered = torch.stack([tensor] * world_size)
    if rank:
        dist.send(tensor, 0)
        dist.recv(gathered, 0)
    else:
        for other in range(1, world_size):
            dist.recv(gathered[other], other)
        for other in range(1, world_size):
            dist.send(gathered, other)
    return tuple(gathered)


def in_one_buffer(tensor: Tensor) -> list[Tensor]:
    buffer = torch.empty_like(tensor)
    return [
        tensor if source == dist.get_rank() else buffer.copy_(one) for source, one in enumerate(each_to_each(tensor))
    ]


def changes_its_tensor(tensor: Tensor) -> list[Tensor]:
    gathered = [one.clone() for one in each_to_each(tensor)]
    tensor += 1
    return gathered


def everything_twice(tensor: Tensor) -> list[Tensor]:
    each_to_each(tensor)
    return each_to_each(tensor)


# share_best


def objects_in_place(score: float, tensor: Tensor) -> None:
    offers: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(offers, (score, tensor))
    tensor.copy_(max(offers, key=lambda offer: offer[0])[1])


def only_with_messages(score: float, tensor: Tensor) -> Tensor:
    """The better of two goes up the chain, and the best one down again."""
    rank, world_size, _, _ = places()
    best, mine = torch.tensor([score], dtype=torch.float64), tensor.clone()
    if rank:
        before, theirs = torch.empty_like(best), torch.empty_like(tensor)
        dist.recv(before, rank - 1)
        dist.recv(theirs, rank - 1)
        best, mine = (before, theirs) if before >= best else (best, mine)
    if rank + 1 < world_size:
        dist.send(best, rank + 1)
        dist.send(mine, rank + 1)
        dist.recv(mine, rank + 1)
    if rank:
        dist.send(mine, rank - 1)
    return mine


def share_best_as_given(score: float, tensor: Tensor) -> Tensor:
    scores = torch.zeros(dist.get_world_size(), dtype=torch.float64)
    scores[dist.get_rank()] = score
    best = int(scores.argmax())
    dist.broadcast(tensor, src=best)
    return tensor


def the_larger_of_each_element(score: float, tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor


# sum_of_half


def both_groups() -> list[Any]:
    return [dist.new_group(range(first, dist.get_world_size(), 2)) for first in (0, 1)]


def only_members_make_their_group(tensor: Tensor) -> Tensor:
    half = range(dist.get_rank() % 2, dist.get_world_size(), 2)
    dist.all_reduce(tensor, group=dist.new_group(half, use_local_synchronization=True))
    return tensor


def two_sums_over_all_ranks(tensor: Tensor) -> Tensor:
    both = torch.stack([torch.zeros_like(tensor)] * 2)
    both[dist.get_rank() % 2] = tensor
    dist.all_reduce(both)
    return both[dist.get_rank() % 2]


def sum_of_half_as_given(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    my_half = dist.new_group(range(rank % 2, world_size, 2))
    dist.all_reduce(tensor, group=my_half)
    return tensor


def odd_ranks_call_the_even_group(tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor, group=both_groups()[0])
    return tensor


RIGHT: dict[str, list[Any]] = {
    "exchange": [rank_1_sends_first_in_place, isend_then_recv_from_anyone, in_a_batch, row_by_row_with_a_barrier],
    "swap": [the_odd_rank_receives_first, all_in_place],
    "pass_the_token": [token_in_place, token_as_a_number],
    "broadcast_by_hand": [star, scattered_and_passed_round],
    "all_gather_by_hand": [each_to_each, round_a_ring_stacked, gathered_and_broadcast],
    "share_best": [objects_in_place, only_with_messages],
    "sum_of_half": [only_members_make_their_group, two_sums_over_all_ranks],
}
WRONG: dict[str, list[Any]] = {
    "exchange": [(sleeps_instead_of_waiting, "Your function never waits for its isend")],
    "swap": [
        (swap_as_given, "Deadlock, no rank can make progress."),
        (the_last_one_returns_none, "returns None, but other ranks return a tensor"),
    ],
    "pass_the_token": [
        (rank_0_sends_to_everyone, "to the next rank"),
        (token_goes_round_twice, "The ranks communicate too much"),
    ],
    "broadcast_by_hand": [(comes_back_to_rank_0, "and not to rank 0")],
    "all_gather_by_hand": [
        (in_one_buffer, "are the same tensor object"),
        (changes_its_tensor, "the given tensor has changed"),
        (everything_twice, "The ranks communicate too much"),
    ],
    "share_best": [(share_best_as_given, "root"), (the_larger_of_each_element, "Find the highest of all scores")],
    "sum_of_half": [
        (sum_of_half_as_given, "group"),
        (odd_ranks_call_the_even_group, "does not end up with the sum over its half"),
    ],
}
