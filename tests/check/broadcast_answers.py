"""Answers to the exercise `broadcast_by_hand`: right ones, and wrong ones with words of their sentences."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


# right


def star(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        for other in range(1, dist.get_world_size()):
            dist.send(tensor, other)
    else:
        dist.recv(tensor, 0)
    return tensor


def star_backwards_in_place(tensor: Tensor) -> None:
    if dist.get_rank() == 0:
        for other in reversed(range(1, dist.get_world_size())):
            dist.send(tensor, other)
    else:
        dist.recv(tensor)


def star_with_isend_in_a_new_tensor(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        for request in [dist.isend(tensor, other) for other in range(1, dist.get_world_size())]:
            request.wait()
        return tensor
    received = torch.empty_like(tensor)
    dist.irecv(received, 0).wait()
    return received


def chain(tensor: Tensor) -> Tensor:
    rank = dist.get_rank()
    if rank > 0:
        dist.recv(tensor, rank - 1)
    if rank < dist.get_world_size() - 1:
        dist.send(tensor, rank + 1)
    return tensor


def chain_the_other_way(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.recv(tensor, (rank + 1) % world_size)
    if rank != 1 and world_size > 1:
        dist.send(tensor, (rank - 1) % world_size)
    return tensor


def doubling_tree(tensor: Tensor) -> Tensor:
    rank, world_size, have = dist.get_rank(), dist.get_world_size(), 1
    while have < world_size:
        if rank < have and rank + have < world_size:
            dist.send(tensor, rank + have)
        elif have <= rank < 2 * have:
            dist.recv(tensor, rank - have)
        have *= 2
    return tensor


def heap_tree_in_pieces(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    for piece in tensor.view(-1).split(50_000):
        if rank > 0:
            dist.recv(piece, (rank - 1) // 2)
        for child in (2 * rank + 1, 2 * rank + 2):
            if child < world_size:
                dist.send(piece, child)
    return tensor


def scatter_then_ring(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if world_size == 1:
        return tensor
    pieces = list(tensor.view(-1).tensor_split(world_size))
    if rank == 0:
        for other in range(1, world_size):
            dist.send(pieces[other], other)
    else:
        dist.recv(pieces[rank], 0)
    for step in range(world_size - 1):
        request = dist.isend(pieces[(rank - step) % world_size], (rank + 1) % world_size)
        dist.recv(pieces[(rank - step - 1) % world_size], (rank - 1) % world_size)
        request.wait()
    return tensor


def as_an_object(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        for other in range(1, dist.get_world_size()):
            dist.send(torch.tensor([tensor.numel()]), other)
            dist.send(tensor, other)
        return tensor
    count = torch.zeros(1, dtype=torch.int64)
    dist.recv(count, 0)
    received = torch.empty(int(count.item()), dtype=tensor.dtype)
    dist.recv(received, 0)
    return received.view(tensor.shape)


def in_groups_of_two(tensor: Tensor) -> Tensor:
    groups = [dist.new_group([0, other]) for other in range(1, dist.get_world_size())]
    if dist.get_rank() == 0:
        for other, group in enumerate(groups, start=1):
            dist.send(tensor, other, group=group)
    else:
        dist.recv(tensor, 0, group=groups[dist.get_rank() - 1])
    return tensor


RIGHT = [
    star,
    star_backwards_in_place,
    star_with_isend_in_a_new_tensor,
    chain,
    chain_the_other_way,
    doubling_tree,
    heap_tree_in_pieces,
    scatter_then_ring,
    as_an_object,
    in_groups_of_two,
    functools.partial(star),
]


# of learners who have read only the lesson


def a_handle_for_each(tensor: Tensor) -> None:
    if dist.get_rank() == 0:
        for work in [dist.isend(tensor, dst) for dst in range(1, dist.get_world_size())]:
            work.wait()
    else:
        dist.irecv(tensor, 0).wait()


def from_anyone_who_has_it(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.recv(tensor)
    for other in (2 * rank + 1, 2 * rank + 2):
        if other < world_size:
            dist.send(tensor, other)
    return tensor


def as_the_scatter_of_the_lesson(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        for dst in reversed(range(dist.get_world_size())):
            if dst != 0:
                dist.send(tensor, dst=dst, tag=dst)
        return tensor
    received = torch.empty_like(tensor)
    dist.recv(received, src=0, tag=dist.get_rank())
    return received


RIGHT += [a_handle_for_each, from_anyone_who_has_it, as_the_scatter_of_the_lesson]


# wrong


def calls_broadcast(tensor: Tensor) -> Tensor:
    dist.broadcast(tensor, 0)
    return tensor


def calls_broadcast_async(tensor: Tensor) -> Tensor:
    dist.broadcast(tensor, src=0, async_op=True).wait()
    return tensor


def calls_broadcast_of_objects(tensor: Tensor) -> Tensor:
    objects = [tensor]
    dist.broadcast_object_list(objects, src=0)
    return objects[0]


def adds_up_zeros(tensor: Tensor) -> Tensor:
    if dist.get_rank() > 0:
        tensor.zero_()
    dist.all_reduce(tensor)
    return tensor


def scatters(tensor: Tensor) -> Tensor:
    copies = [tensor.clone() for _ in range(dist.get_world_size())] if dist.get_rank() == 0 else None
    dist.scatter(tensor, copies, src=0)
    return tensor


def only_to_rank_1(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        if dist.get_world_size() > 1:
            dist.send(tensor, 1)
    elif dist.get_rank() == 1:
        dist.recv(tensor, 0)
    return tensor


def from_the_last_rank(tensor: Tensor) -> Tensor:
    last = dist.get_world_size() - 1
    if dist.get_rank() == last:
        for other in range(last):
            dist.send(tensor, other)
    else:
        dist.recv(tensor, last)
    return tensor


def everyone_passes_on_its_own(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    received = tensor.clone()
    if rank > 0:
        dist.recv(received, rank - 1)
    if rank < world_size - 1:
        dist.send(tensor, rank + 1)
    return received


def round_the_whole_ring(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if world_size == 1:
        return tensor
    if rank > 0:
        dist.recv(tensor, rank - 1)
    dist.send(tensor, (rank + 1) % world_size)
    if rank == 0:
        dist.recv(tensor, world_size - 1)
    return tensor


def everyone_to_everyone(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    received = [tensor.clone() for _ in range(world_size)]
    others = [other for other in range(world_size) if other != rank]
    requests = [dist.isend(tensor, other) for other in others]
    requests += [dist.irecv(received[other], other) for other in others]
    for request in requests:
        request.wait()
    return received[0]


def sends_it_twice(tensor: Tensor) -> Tensor:
    star(tensor)
    return star(tensor)


def returns_the_old_one(tensor: Tensor) -> Tensor:
    mine = tensor.clone()
    star(tensor)
    return mine


def returns_nothing(tensor: Tensor) -> None:
    star(tensor.clone())


def only_the_others_return(tensor: Tensor) -> Tensor | None:
    received = star(tensor.clone())
    tensor.zero_()
    return received if dist.get_rank() > 0 else None


def isends_and_leaves(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        for other in range(1, dist.get_world_size()):
            KEPT.append(dist.isend(tensor, other))
    else:
        dist.recv(tensor, 0)
    return tensor


KEPT: list[object] = []


def irecvs_and_leaves(tensor: Tensor) -> Tensor:
    if dist.get_rank() > 0:
        KEPT.append(dist.irecv(tensor, 0))
        return tensor
    return star(tensor)


def only_floats(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        return star(tensor)
    received = torch.zeros(tensor.shape)
    dist.recv(received, 0)
    return received


def first_ten_elements(tensor: Tensor) -> Tensor:
    star(tensor.view(-1)[:120])
    return tensor


def only_rows(tensor: Tensor) -> Tensor:
    for row in tensor.view(tensor.shape[0], -1)[:-1]:
        star(row)
    return tensor


def from_a_seed(tensor: Tensor) -> Tensor:
    from ddp_lessons.check.judging.exercise_trials import of_every_kind

    fitting = [t for t in of_every_kind() if torch.equal(t.tensor(dist.get_rank()), tensor)]
    return fitting[0].tensor(0)


def changes_it_before_it_has_left(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        answer = tensor.clone()
        requests = [dist.isend(tensor, other) for other in range(1, dist.get_world_size())]
        tensor.zero_()
        for request in requests:
            request.wait()
        return answer
    dist.recv(tensor, 0)
    return tensor


def at_most_four_ranks(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    for source, target in ((0, 1), (0, 2), (1, 3)):
        if target < world_size and rank == source:
            dist.send(tensor, target)
        if target < world_size and rank == target:
            dist.recv(tensor, source)
    return tensor


def fails_with_three(tensor: Tensor) -> Tensor:
    world_size = dist.get_world_size()
    if world_size & (world_size - 1):
        raise ValueError("world size is no power of two")
    return doubling_tree(tensor)


WRONG = [
    (calls_broadcast, "It calls the collective broadcast. Use only messages: send, recv, isend and irecv"),
    (calls_broadcast_async, "It calls the collective broadcast. Use only messages: send, recv, isend and irecv"),
    (calls_broadcast_of_objects, "calls the collective broadcast_object_list"),
    (adds_up_zeros, "calls the collective all_reduce"),
    (scatters, "calls the collective scatter"),
    (only_to_rank_1, "It works with 2 ranks, but not with 3: rank 2 receives nothing and still has"),
    (from_the_last_rank, "Every rank ends with rank 1's tensor. Send rank 0's tensor"),
    (
        everyone_passes_on_its_own,
        "It works with 2 ranks, but not with 3: rank 2 ends with rank 1's tensor. Rank 1 must "
        "forward rank 0's tensor, not its own",
    ),
    (round_the_whole_ring, "Too much is communicated: rank 0 receives its own tensor. On rank 0, only send"),
    (everyone_to_everyone, "Too much is communicated: rank 0 receives its own tensor. On rank 0, only send"),
    (
        sends_it_twice,
        "Too much is communicated: rank 1 receives more than one tensor. Send the tensor to each rank once",
    ),
    (returns_the_old_one, "Rank 1 ends with its own tensor"),
    (returns_nothing, "It returns None and does not change its tensor"),
    (only_the_others_return, "Rank 0 does not keep its own tensor"),
    (isends_and_leaves, "never waits for its isend"),
    (irecvs_and_leaves, "never waits for its irecv"),
    (only_floats, "but fails for integers (int64)"),
    (first_ten_elements, "but fails for a length not divisible by world_size"),
    (from_a_seed, "Too little is communicated: rank 1 does not receive the whole tensor. Send all of it to every rank"),
    (changes_it_before_it_has_left, "It changes the tensor of isend before wait()"),
    (at_most_four_ranks, "It works with 4 ranks, but not with 5"),
    (fails_with_three, "but not with 3: all 3 ranks raised ValueError: world size is no power of two"),
]


def to_itself_too(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        for rank in range(dist.get_world_size()):
            dist.send(tensor, rank)
    else:
        dist.recv(tensor, 0)
    return tensor


def not_to_the_last(tensor: Tensor) -> None:
    last = dist.get_world_size() - 1
    if dist.get_rank() == 0:
        for rank in range(1, last):
            dist.send(tensor, rank)
    elif dist.get_rank() < last:
        dist.recv(tensor, 0)


WRONG += [
    (to_itself_too, "Skip the rank itself, and copy its own tensor"),
    (not_to_the_last, "Check the range of the loop"),
]


def the_list_of_a_scatter(tensor: Tensor) -> Tensor:
    """Each rank gets a part."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    parts = list(tensor.flatten().tensor_split(world_size))
    if rank == 0:
        for dst in range(1, world_size):
            dist.send(parts[dst].contiguous(), dst)
    else:
        received = torch.empty_like(parts[rank])
        dist.recv(received, 0)
        parts[rank].copy_(received)
    return tensor


def everyone_keeps_the_sum(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        for dst in range(1, world_size):
            dist.send(tensor, dst)
        return tensor
    received = torch.empty_like(tensor)
    dist.recv(received, 0)
    tensor += received
    return tensor


def takes_what_recv_returns(tensor: Tensor) -> Any:
    if dist.get_rank() == 0:
        for dst in range(1, dist.get_world_size()):
            dist.send(tensor, dst)
        return tensor
    return dist.recv(tensor, 0)


def the_last_one_is_left_out_of_two(tensor: Tensor) -> Tensor:
    """range(1, world_size - 1) reaches the last but one."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        for dst in range(1, world_size - 1):
            dist.send(tensor, dst)
    elif rank < world_size - 1:
        dist.recv(tensor, 0)
    return tensor


def a_ring_that_comes_back(tensor: Tensor) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if world_size == 1:
        return tensor
    if rank:
        dist.recv(tensor, rank - 1)
    dist.send(tensor, (rank + 1) % world_size)
    if rank == 0:
        dist.recv(torch.empty_like(tensor), world_size - 1)
    return tensor


def as_a_list_of_numbers(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        for dst in range(1, dist.get_world_size()):
            dist.send_object_list([tensor.tolist()], dst)
        return tensor
    box: list[Any] = [None]
    dist.recv_object_list(box, 0)
    return torch.tensor(box[0])


WRONG += [
    (the_list_of_a_scatter, "Rank 1 receives only a part of rank 0's tensor. Send the whole tensor to every rank"),
    (everyone_keeps_the_sum, "Rank 1 ends with the sum of its own tensor and rank 0's"),
    (takes_what_recv_returns, "recv returns the rank of the sender"),
    (the_last_one_is_left_out_of_two, "If there is a loop, check its range"),
    (a_ring_that_comes_back, "Too much is communicated: rank 0 receives its own tensor. On rank 0, only send"),
    (
        as_a_list_of_numbers,
        "Too much is communicated: rank 1 receives more than one tensor. Send the tensor to each rank once",
    ),
]


# hanging


def number_by_number(tensor: Tensor) -> Tensor:
    for number in tensor.view(-1):
        star(number)
    return tensor


def everyone_receives(tensor: Tensor) -> Tensor:
    dist.recv(tensor, 0 if dist.get_rank() else None)
    return star(tensor)


def rank_0_sends_too_often(tensor: Tensor) -> Tensor:
    star(tensor)
    if dist.get_rank() == 0 and dist.get_world_size() > 1:
        dist.send(tensor, 1)
    return tensor


def everyone_waits_for_rank_1(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        for other in range(2, dist.get_world_size()):
            dist.send(tensor, other)
    else:
        dist.recv(tensor, 0)
    return tensor


HANGING = [
    (only_rows, "Rank 1 receives only a part of rank 0's tensor"),
    (everyone_receives, "Deadlock: every rank calls recv first, so no rank can send"),
    (
        rank_0_sends_too_often,
        "Rank 0 waits in send, but rank 1 never receives the message. Add the matching recv",
    ),
    (everyone_waits_for_rank_1, "Rank 1 waits in recv for a message from rank 0 that is never sent"),
    (number_by_number, "It sends too many small messages"),
]


def everybody_receives(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        for dst in range(1, dist.get_world_size()):
            dist.send(tensor, dst)
    dist.recv(tensor, 0)
    return tensor


def sends_to_itself_too(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        for dst in range(dist.get_world_size()):
            dist.send(tensor, dst)
    else:
        dist.recv(tensor, 0)
    return tensor


HANGING += [
    (everybody_receives, "Skip the rank itself, and copy its own tensor"),
    (sends_to_itself_too, "Skip the rank itself, and copy its own tensor"),
]


def only_to_rank_1_in_place(tensor: Tensor) -> Any:
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
    elif dist.get_rank() == 1:
        dist.recv(tensor, 0)


def waits_for_the_rank_before(tensor: Tensor) -> Any:
    if dist.get_rank():
        dist.recv(tensor, dist.get_rank() - 1)
    else:
        for other in range(1, dist.get_world_size()):
            dist.send(tensor, other)


WRONG += [(only_to_rank_1_in_place, "not with 3: rank 2 receives nothing and still has its own tensor")]
HANGING += [
    (
        waits_for_the_rank_before,
        "Rank 2 waits for a message from rank 1, which has returned. Receive from rank 0, which sends to rank 2",
    ),
]
