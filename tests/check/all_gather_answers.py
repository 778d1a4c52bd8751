"""Answers to the exercise `all_gather_by_hand`: right ones, and wrong ones with words of their sentences."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


def places() -> tuple[int, int, list[int]]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    return rank, world_size, [other for other in range(world_size) if other != rank]


# right


def everyone_to_everyone(tensor: Tensor) -> list[Tensor]:
    rank, world_size, others = places()
    received = [torch.empty_like(tensor) for _ in range(world_size)]
    received[rank] = tensor
    requests = [dist.isend(tensor, other) for other in others]
    requests += [dist.irecv(received[other], other) for other in others]
    for request in requests:
        request.wait()
    return received


def ring(tensor: Tensor) -> tuple[Tensor, ...]:
    rank, world_size, _ = places()
    received = [tensor.clone() for _ in range(world_size)]
    for step in range(world_size - 1):
        request = dist.isend(received[(rank - step) % world_size], (rank + 1) % world_size)
        dist.recv(received[(rank - step - 1) % world_size], (rank - 1) % world_size)
        request.wait()
    return tuple(received)


def ring_the_other_way_stacked(tensor: Tensor) -> Tensor:
    rank, world_size, _ = places()
    received = torch.stack([tensor] * world_size)
    for step in range(world_size - 1):
        request = dist.irecv(received[(rank + step + 1) % world_size], (rank + 1) % world_size)
        dist.send(received[(rank + step) % world_size], (rank - 1) % world_size)
        request.wait()
    return received


def gather_then_broadcast(tensor: Tensor, root: int = 0) -> list[Tensor]:
    rank, world_size, others = places()
    root %= world_size
    everything = torch.stack([tensor] * world_size)
    if rank == root:
        for other in others:
            dist.recv(everything[other], other)
        for other in others:
            dist.send(everything, other)
    else:
        dist.send(tensor, root)
        dist.recv(everything, root)
    return list(everything)


def gather_then_broadcast_from_rank_2(tensor: Tensor) -> list[Tensor]:
    return gather_then_broadcast(tensor, 2)


def a_broadcast_from_each(tensor: Tensor) -> list[Tensor]:
    rank, world_size, others = places()
    received = []
    for source in range(world_size):
        if source == rank:
            for other in others:
                dist.send(tensor, other)
            received.append(tensor.clone())
        else:
            received.append(torch.zeros_like(tensor))
            dist.recv(received[-1], source)
    return received


def from_anyone_by_name(tensor: Tensor) -> list[Tensor]:
    rank, world_size, others = places()
    received: dict[int, Tensor] = {rank: tensor}
    requests = [dist.isend(tensor, other) for other in others]
    for _ in others:
        buffer = torch.empty_like(tensor)
        received[dist.recv(buffer)] = buffer
    for request in requests:
        request.wait()
    return [received[source] for source in range(world_size)]


def in_pairs(tensor: Tensor) -> list[Tensor]:
    rank, world_size, _ = places()
    received = [tensor.clone() for _ in range(world_size)]
    for distance in range(1, world_size):
        after, before = (rank + distance) % world_size, (rank - distance) % world_size
        operations = [dist.P2POp(dist.isend, tensor, after), dist.P2POp(dist.irecv, received[before], before)]
        for request in dist.batch_isend_irecv(operations):
            request.wait()
    return received


RIGHT = [
    everyone_to_everyone,
    ring,
    ring_the_other_way_stacked,
    gather_then_broadcast,
    gather_then_broadcast_from_rank_2,
    a_broadcast_from_each,
    from_anyone_by_name,
    in_pairs,
]


# of learners who have read only the lesson


def a_turn_for_each(tensor: Tensor) -> list[Tensor]:
    """As the lesson says it: in turn, each sends its tensor to all others."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    gathered = []
    for source in range(world_size):
        one = tensor.clone()
        if rank == source:
            for other in range(world_size):
                if other != rank:
                    dist.send(tensor, other)
        else:
            dist.recv(one, source)
        gathered.append(one)
    return gathered


def everything_in_the_background(tensor: Tensor) -> list[Tensor]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    gathered = [tensor.clone() if source == rank else torch.empty_like(tensor) for source in range(world_size)]
    others = [other for other in range(world_size) if other != rank]
    works = [dist.isend(tensor, other) for other in others]
    works += [dist.irecv(gathered[other], other) for other in others]
    for work in works:
        work.wait()
    return gathered


def its_own_tensor_in_the_list(tensor: Tensor) -> list[Tensor]:
    gathered = a_turn_for_each(tensor)
    gathered[dist.get_rank()] = tensor
    return gathered


RIGHT += [a_turn_for_each, everything_in_the_background, its_own_tensor_in_the_list]


# wrong


def calls_all_gather(tensor: Tensor) -> list[Tensor]:
    received = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(received, tensor)
    return received


def calls_all_gather_of_objects(tensor: Tensor) -> list[Tensor]:
    received: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(received, tensor)
    return received


def calls_gather_then_broadcast(tensor: Tensor) -> list[Tensor]:
    rank, world_size, _ = places()
    received = [torch.empty_like(tensor) for _ in range(world_size)]
    dist.gather(tensor, received if rank == 0 else None, dst=0)
    for one in received:
        dist.broadcast(one, 0)
    return received


def in_one_buffer(tensor: Tensor) -> list[Tensor]:
    rank, world_size, others = places()
    buffer, received = torch.empty_like(tensor), []
    for source in range(world_size):
        if source == rank:
            for other in others:
                dist.send(tensor, other)
            buffer.copy_(tensor)
        else:
            dist.recv(buffer, source)
        received.append(buffer)
    return received


def in_one_buffer_but_its_own(tensor: Tensor) -> list[Tensor]:
    rank, world_size, others = places()
    received = [torch.zeros_like(tensor)] * world_size
    received[rank] = tensor
    requests = [dist.isend(tensor, other) for other in others]
    for other in others:
        dist.recv(received[other], other)
    for request in requests:
        request.wait()
    return received


def in_order_of_arrival(tensor: Tensor) -> list[Tensor]:
    _, _, others = places()
    received = [tensor]
    requests = [dist.isend(tensor, other) for other in others]
    for _ in others:
        buffer = torch.empty_like(tensor)
        dist.recv(buffer)
        received.append(buffer)
    for request in requests:
        request.wait()
    return received


def in_order_of_arrival_sorted_once(tensor: Tensor) -> list[Tensor]:
    rank, world_size, others = places()
    received = [torch.empty_like(tensor) for _ in range(world_size)]
    received[rank] = tensor
    requests = [dist.isend(tensor, other) for other in others]
    for other in others:
        dist.recv(received[other])
    for request in requests:
        request.wait()
    return received


def without_its_own(tensor: Tensor) -> list[Tensor]:
    rank, _, _ = places()
    received = everyone_to_everyone(tensor)
    return received[:rank] + received[rank + 1 :]


def starts_with_itself(tensor: Tensor) -> list[Tensor]:
    rank, _, _ = places()
    received = everyone_to_everyone(tensor)
    return received[rank:] + received[:rank]


def zeros_for_its_own(tensor: Tensor) -> list[Tensor]:
    received = everyone_to_everyone(tensor)
    received[dist.get_rank()] = torch.zeros_like(tensor)
    return received


def receives_into_its_tensor(tensor: Tensor) -> list[Tensor]:
    rank, world_size, others = places()
    received: list[Tensor] = []
    for source in range(world_size):
        if source == rank:
            mine = tensor if rank == 0 else received[0].new_empty(0)
            mine = KEPT[-1] if rank else tensor
            for other in others:
                dist.send(mine, other)
            received.append(mine.clone())
        else:
            if source == 0:
                KEPT.append(tensor.clone())
            dist.recv(tensor, source)
            received.append(tensor.clone())
    return received


KEPT: list[Tensor] = []


def adds_one_to_its_tensor(tensor: Tensor) -> list[Tensor]:
    received = [one.clone() for one in everyone_to_everyone(tensor)]
    tensor += 1
    return received


def only_rank_0(tensor: Tensor) -> list[Tensor] | None:
    rank, _, _ = places()
    received = everyone_to_everyone(tensor)
    return received if rank == 0 else None


def returns_nothing(tensor: Tensor) -> None:
    everyone_to_everyone(tensor)


def one_after_the_other(tensor: Tensor) -> Tensor:
    return torch.cat([one.flatten() for one in everyone_to_everyone(tensor)])


def a_dict(tensor: Tensor) -> dict[int, Tensor]:
    return dict(enumerate(everyone_to_everyone(tensor)))


def the_sum(tensor: Tensor) -> Tensor:
    return sum(everyone_to_everyone(tensor), torch.zeros_like(tensor))


def flat_ones(tensor: Tensor) -> list[Tensor]:
    return [one.flatten() for one in everyone_to_everyone(tensor)]


def lists_of_numbers(tensor: Tensor) -> list[Any]:
    return [one.tolist() for one in everyone_to_everyone(tensor)]


def everything_at_every_step(tensor: Tensor) -> list[Tensor]:
    rank, world_size, _ = places()
    everything = torch.stack([tensor] * world_size)
    known = [rank]
    for _ in range(world_size - 1):
        received = torch.empty_like(everything)
        request = dist.isend(everything.clone(), (rank + 1) % world_size)
        dist.recv(received, (rank - 1) % world_size)
        request.wait()
        known = [(one - 1) % world_size for one in known]
        for one in known:
            everything[one] = received[one]
        known.append(rank)
    return list(everything)


def a_growing_list_round_the_ring(tensor: Tensor) -> list[Tensor]:
    rank, world_size, _ = places()
    known = [tensor]
    for _ in range(world_size - 1):
        received = torch.empty_like(torch.stack(known))
        request = dist.isend(torch.stack(known), (rank + 1) % world_size)
        dist.recv(received, (rank - 1) % world_size)
        request.wait()
        known = [tensor, *received]
    return [known[(rank - source) % world_size] for source in range(world_size)]


def everything_twice(tensor: Tensor) -> list[Tensor]:
    everyone_to_everyone(tensor)
    return everyone_to_everyone(tensor)


def isend_without_wait(tensor: Tensor) -> list[Tensor]:
    rank, world_size, others = places()
    received = [torch.empty_like(tensor) for _ in range(world_size)]
    received[rank] = tensor
    SENT.extend(dist.isend(tensor, other) for other in others)
    for other in others:
        dist.recv(received[other], other)
    return received


SENT: list[object] = []


def only_two_ranks(tensor: Tensor) -> list[Tensor]:
    rank, _, _ = places()
    received = [tensor.clone(), tensor.clone()]
    if rank == 0:
        dist.send(tensor, 1)
        dist.recv(received[1], 1)
    elif rank == 1:
        dist.recv(received[0], 0)
        dist.send(tensor, 0)
    return received


def only_floats(tensor: Tensor) -> list[Tensor]:
    return [one.to(tensor.dtype) for one in everyone_to_everyone(tensor.float())]


def forgets_to_pass_on(tensor: Tensor) -> list[Tensor]:
    rank, world_size, _ = places()
    received = [tensor.clone() for _ in range(world_size)]
    for step in range(world_size - 1):
        request = dist.isend(tensor, (rank + 1) % world_size)
        dist.recv(received[(rank - step - 1) % world_size], (rank - 1) % world_size)
        request.wait()
    return received


def asks_for_a_rank_too_many(tensor: Tensor) -> list[Tensor]:
    dist.send(tensor, dist.get_world_size())
    return [tensor]


WRONG = [
    (calls_all_gather, "It calls the collective all_gather. Use only messages: send, recv, isend and irecv"),
    (calls_all_gather_of_objects, "calls the collective all_gather_object"),
    (calls_gather_then_broadcast, "calls the collective gather"),
    (in_one_buffer, "All entries of the list are equal. Allocate a separate buffer for each rank"),
    (in_order_of_arrival, "list is in the wrong order"),
    (in_order_of_arrival_sorted_once, "list is in the wrong order"),
    (without_its_own, "returns a list of length 1 for 2 ranks. Put one tensor per rank into it"),
    (starts_with_itself, "list is in the wrong order"),
    (zeros_for_its_own, "Entry 0 of rank 0's list is its own tensor, which no message brings. Copy it into the list"),
    (receives_into_its_tensor, "The answer is right, but the given tensor was changed. Work on a copy"),
    (adds_one_to_its_tensor, "The answer is right, but the given tensor was changed. Work on a copy"),
    (only_rank_0, "Only rank 0 has the answer"),
    (returns_nothing, "It returns None. Return the answer, and leave the given tensor unchanged"),
    (one_after_the_other, "It returns a tensor of shape [240]. Return a list with the tensor of each rank"),
    (a_dict, "returns an object of type dict"),
    (the_sum, "It returns a tensor of shape [120]. Return a list with the tensor of each rank"),
    (flat_ones, "but fails for a two-dimensional tensor"),
    (lists_of_numbers, "It returns a list of length 2. Return a list with the tensor of each rank"),
    (everything_at_every_step, "too much is communicated"),
    (a_growing_list_round_the_ring, "too much is communicated"),
    (everything_twice, "too much is communicated"),
    (isend_without_wait, "never waits for its isend"),
    (
        only_two_ranks,
        "It works with 2 ranks, but not with 3: it returns a list of length 2 for 3 ranks. Put one tensor per "
        "rank into it",
    ),
    (only_floats, "but fails for integers (int64)"),
    (
        in_one_buffer_but_its_own,
        "It works with 2 ranks, but not with 3: entries 1 and 2 of rank 0's list are the same tensor object, as "
        "after `[buffer] * world_size`. Allocate one buffer per rank",
    ),
    (forgets_to_pass_on, "It works with 2 ranks, but not with 3: entry 1 of rank 0's list is the tensor of rank 2"),
]


def only_rank_0_gathers(tensor: Tensor) -> list[Tensor]:
    rank, world_size, others = places()
    tensors = [tensor.clone() for _ in range(world_size)]
    if rank > 0:
        dist.send(tensor, 0)
    else:
        for other in others:
            dist.recv(tensors[other], other)
    return tensors


WRONG += [(only_rank_0_gathers, "Rank 1's list repeats its own tensor")]


def appends_what_comes(tensor: Tensor) -> list[Tensor]:
    """One buffer for all that comes, and the list holds it again and again."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    gathered, buffer = [], torch.empty_like(tensor)
    for source in range(world_size):
        if rank == source:
            for other in range(world_size):
                if other != rank:
                    dist.send(tensor, other)
            gathered.append(tensor)
        else:
            dist.recv(buffer, source)
            gathered.append(buffer)
    return gathered


def only_the_neighbors(tensor: Tensor) -> list[Tensor]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    gathered = [torch.zeros_like(tensor) for _ in range(world_size)]
    gathered[rank] = tensor.clone()
    neighbors = {(rank + 1) % world_size, (rank - 1) % world_size} - {rank}
    works = [dist.isend(tensor, other) for other in neighbors]
    for other in neighbors:
        dist.recv(gathered[other], other)
    for work in works:
        work.wait()
    return gathered


def stacked_into_a_row(tensor: Tensor) -> Tensor:
    return torch.cat(a_turn_for_each(tensor))


def a_list_of_numbers(tensor: Tensor) -> Any:
    return [one.tolist() for one in a_turn_for_each(tensor)]


def with_broadcasts(tensor: Tensor) -> list[Tensor]:
    gathered = [tensor.clone() for _ in range(dist.get_world_size())]
    for source, one in enumerate(gathered):
        dist.broadcast(one, source)
    return gathered


def rank_0_gathers_and_returns(tensor: Tensor) -> list[Tensor]:
    """What rank 0 has gathered is not sent to the others."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    gathered = [tensor.clone() for _ in range(world_size)]
    if rank:
        dist.send(tensor, 0)
    else:
        for source in range(1, world_size):
            dist.recv(gathered[source], source)
    return gathered


def takes_what_recv_returns(tensor: Tensor) -> Any:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    gathered: list[Any] = []
    for source in range(world_size):
        if rank == source:
            for other in range(world_size):
                if other != rank:
                    dist.send(tensor, other)
            gathered.append(tensor)
        else:
            gathered.append(dist.recv(torch.empty_like(tensor), source))
    return gathered


WRONG += [
    (
        appends_what_comes,
        "of rank 0's list are the same tensor object, as after `[buffer] * world_size`. Allocate one buffer per rank",
    ),
    (only_the_neighbors, "but not with 4: entry 2 of rank 0's list is a buffer of zeros"),
    (stacked_into_a_row, "It returns a tensor of shape [240]. Return a list with the tensor of each rank"),
    (a_list_of_numbers, "It returns a list of length 2. Return a list with the tensor of each rank"),
    (with_broadcasts, "calls the collective broadcast"),
    (rank_0_gathers_and_returns, "Rank 1's list repeats its own tensor. Receive the tensors of the other ranks"),
    (takes_what_recv_returns, "recv returns the rank of the sender"),
]


# hanging


def with_rank_minus_one(tensor: Tensor) -> list[Tensor]:
    rank, world_size, _ = places()
    tensors = [tensor.clone() for _ in range(world_size)]
    if world_size > 1:
        request = dist.isend(tensor, 1 - rank)
        dist.recv(tensors[1 - rank], 1 - rank)
        request.wait()
    return tensors


def everyone_sends_first(tensor: Tensor) -> list[Tensor]:
    _, world_size, others = places()
    received = [tensor.clone() for _ in range(world_size)]
    for other in others:
        dist.send(tensor, other)
    for other in others:
        dist.recv(received[other], other)
    return received


def everyone_receives_first(tensor: Tensor) -> list[Tensor]:
    _, world_size, others = places()
    received = [tensor.clone() for _ in range(world_size)]
    for other in others:
        dist.recv(received[other], other)
    for other in others:
        dist.send(tensor, other)
    return received


HANGING = [
    (asks_for_a_rank_too_many, "Rank 0 sends to rank 2, but the ranks are 0 to 1. Check how that number is computed"),
    (everyone_sends_first, "Deadlock: every rank calls send first, and send blocks until the other side receives"),
    (everyone_receives_first, "Deadlock: every rank calls recv first, so no rank can send"),
    (with_rank_minus_one, "rank -1, but the ranks are 0 to 2. Check how that number is computed"),
]


def sends_back_only_what_it_got(tensor: Tensor) -> list[Tensor]:
    rank, world_size, others = places()
    gathered = [tensor.clone() for _ in range(world_size)]
    if rank == 0:
        for other in others:
            dist.recv(gathered[other], other)
            dist.send(gathered[other], other)
    else:
        dist.send(tensor, 0)
        dist.recv(gathered[rank], 0)
    return gathered


def only_rank_0_has_the_list(tensor: Tensor) -> list[Tensor]:
    rank, world_size, others = places()
    if rank:
        dist.send(tensor, 0)
        return [tensor.clone()]
    gathered = [tensor.clone() for _ in range(world_size)]
    for other in others:
        dist.recv(gathered[other], other)
    return gathered


WRONG += [
    (
        sends_back_only_what_it_got,
        "Rank 1's list repeats its own tensor. Put the received tensors into it",
    ),
    (only_rank_0_has_the_list, "Rank 1 returns a list of length 1 for 2 ranks. Put one tensor per rank into it"),
]
