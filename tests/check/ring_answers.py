"""Answers to the exercise `ring_all_reduce`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


def places() -> tuple[int, int, int, int]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    return rank, world_size, (rank + 1) % world_size, (rank - 1) % world_size


def swap(outgoing: Tensor, after: int, incoming: Tensor, before: int) -> None:
    request = dist.isend(outgoing, after)
    dist.recv(incoming, before)
    request.wait()


# right


def in_place(tensor: Tensor) -> None:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[(rank - step - 1) % world_size])
        swap(chunks[(rank - step) % world_size], after, received, before)
        chunks[(rank - step - 1) % world_size].add_(received)
    for step in range(world_size - 1):
        swap(chunks[(rank + 1 - step) % world_size], after, chunks[(rank - step) % world_size], before)


def padded_the_other_way(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    flat = tensor.flatten()
    length = -(-flat.numel() // world_size)
    padded = torch.cat([flat, flat.new_zeros(length * world_size - flat.numel())])
    chunks = list(padded.view(world_size, length))
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[0])
        swap(chunks[(rank + step) % world_size], before, received, after)
        chunks[(rank + step + 1) % world_size] += received
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[0])
        swap(chunks[(rank - 1 + step) % world_size], before, received, after)
        chunks[(rank + step) % world_size].copy_(received)
    return padded[: flat.numel()].view(tensor.shape)


def the_rest_in_the_last_chunk(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    total = tensor.clone()
    flat, length = total.view(-1), tensor.numel() // world_size
    ends = [*[length * (number + 1) for number in range(world_size - 1)], flat.numel()]
    chunks = [flat[length * number : end] for number, end in enumerate(ends)]
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[(rank - step - 1) % world_size])
        swap(chunks[(rank - step) % world_size], after, received, before)
        chunks[(rank - step - 1) % world_size] += received
    for step in range(world_size - 1):
        swap(chunks[(rank + 1 - step) % world_size], after, chunks[(rank - step) % world_size], before)
    return total


def one_way_and_back(tensor: Tensor) -> Tensor:
    """The sums to the right, what is complete to the left."""
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[(rank - step - 1) % world_size])
        swap(chunks[(rank - step) % world_size], after, received, before)
        chunks[(rank - step - 1) % world_size].add_(received)
    for step in range(world_size - 1):
        swap(chunks[(rank + 1 + step) % world_size], before, chunks[(rank + 2 + step) % world_size], after)
    return tensor


def even_ranks_send_first(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(2 * (world_size - 1)):
        outgoing, incoming = chunks[(rank - step) % world_size], chunks[(rank - step - 1) % world_size]
        received = torch.empty_like(incoming)
        if rank % 2 == 0:
            dist.send(outgoing, after)
            dist.recv(received, before)
        else:
            dist.recv(received, before)
            dist.send(outgoing, after)
        incoming.copy_(received + incoming if step < world_size - 1 else received)
    return tensor


def batched_in_another_order(tensor: Tensor) -> Tensor:
    """A ring that visits the even ranks first."""
    world_size = dist.get_world_size()
    order = [*range(0, world_size, 2), *range(1, world_size, 2)]
    place = order.index(dist.get_rank())
    after, before = order[(place + 1) % world_size], order[place - 1]
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(2 * (world_size - 1)):
        incoming = chunks[(place - step - 1) % world_size]
        received = torch.empty_like(incoming)
        operations = [
            dist.P2POp(dist.irecv, received, before),
            dist.P2POp(dist.isend, chunks[(place - step) % world_size], after),
        ]
        for request in dist.batch_isend_irecv(operations):
            request.wait()
        incoming.copy_(received + incoming if step < world_size - 1 else received)
    return tensor


def chunks_of_torch_chunk(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = list(tensor.reshape(-1).clone().chunk(world_size))
    chunks += [tensor.new_empty(0)] * (world_size - len(chunks))
    for step in range(2 * (world_size - 1)):
        received = torch.empty_like(chunks[(rank - step - 1) % world_size])
        swap(chunks[(rank - step) % world_size], after, received, before)
        is_sum = step < world_size - 1
        chunks[(rank - step - 1) % world_size] = (
            received + chunks[(rank - step - 1) % world_size] if is_sum else received
        )
    return torch.cat(chunks).view(tensor.shape)


RIGHT = [
    padded_the_other_way,
    in_place,
    the_rest_in_the_last_chunk,
    one_way_and_back,
    even_ranks_send_first,
    batched_in_another_order,
    chunks_of_torch_chunk,
]


# of learners who have read only the lesson


def with_views_of_a_copy(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    total = tensor.clone().flatten()
    chunks = total.tensor_split(world_size)
    for half in range(2):
        for step in range(world_size - 1):
            outgoing = chunks[(rank - step + half) % world_size]
            mine = chunks[(rank - step - 1 + half) % world_size]
            arrived = torch.empty_like(mine)
            swap(outgoing, after, arrived, before)
            mine.copy_(arrived) if half else mine.add_(arrived)
    return total.view_as(tensor)


def to_the_left(tensor: Tensor) -> None:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(world_size - 1):
        mine = chunks[(rank + step + 1) % world_size]
        arrived = torch.empty_like(mine)
        swap(chunks[(rank + step) % world_size], before, arrived, after)
        mine += arrived
    for step in range(world_size - 1):
        swap(chunks[(rank + step - 1) % world_size], before, chunks[(rank + step) % world_size], after)


RIGHT += [with_views_of_a_copy, to_the_left]


# wrong


def calls_all_reduce(tensor: Tensor) -> Tensor:
    dist.all_reduce(tensor)
    return tensor


def calls_reduce_scatter_and_all_gather(tensor: Tensor) -> Tensor:
    world_size = dist.get_world_size()
    flat = torch.cat([tensor.flatten(), tensor.new_zeros(-tensor.numel() % world_size)])
    mine = torch.empty_like(flat[: flat.numel() // world_size])
    dist.reduce_scatter_single(mine, flat)
    dist.all_gather_single(flat, mine)
    return flat[: tensor.numel()].view(tensor.shape)


def whole_tensors_round_the_ring(tensor: Tensor) -> Tensor:
    _, world_size, after, before = places()
    passing, total = tensor.clone(), tensor.clone()
    for _ in range(world_size - 1):
        received = torch.empty_like(tensor)
        swap(passing, after, received, before)
        total += received
        passing = received
    return total


def the_famous_tutorial(tensor: Tensor) -> Tensor:
    """Whole tensors, 2 * (world_size - 1) times."""
    rank, world_size, after, before = places()
    total = tensor.clone()
    chunks = total.view(-1).tensor_split(world_size)
    for step in range(2 * (world_size - 1)):
        received = torch.empty_like(total)
        swap(total.clone(), after, received, before)
        number = (rank - step - 1) % world_size
        theirs = received.view(-1).tensor_split(world_size)[number]
        chunks[number].copy_(chunks[number] + theirs if step < world_size - 1 else theirs)
    return total


def a_chain_there_and_back(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if world_size == 1:
        return tensor
    received = torch.empty_like(tensor)
    if rank > 0:
        dist.recv(received, before)
        tensor += received
    dist.send(tensor, after) if rank < world_size - 1 else None
    if rank < world_size - 1:
        dist.recv(tensor, before)
    if rank != world_size - 2:
        dist.send(tensor, after)
    return tensor


def everyone_to_everyone(tensor: Tensor) -> Tensor:
    rank, world_size, _, _ = places()
    others = [other for other in range(world_size) if other != rank]
    received = [torch.empty_like(tensor) for _ in others]
    requests = [dist.isend(tensor, other) for other in others]
    requests += [dist.irecv(one, other) for one, other in zip(received, others, strict=True)]
    for request in requests:
        request.wait()
    return sum(received, tensor.clone())


def through_rank_0(tensor: Tensor) -> Tensor:
    rank, world_size, _, _ = places()
    received = torch.empty_like(tensor)
    if rank == 0:
        for other in range(1, world_size):
            dist.recv(received, other)
            tensor += received
        for other in range(1, world_size):
            dist.send(tensor, other)
    else:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
    return tensor


def chunks_to_everyone(tensor: Tensor) -> Tensor:
    """As few bytes as a ring, but every rank talks to every other."""
    rank, world_size, _, _ = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    mine = chunks[rank].clone()
    for step in range(1, world_size):
        received = torch.empty_like(mine)
        swap(chunks[(rank + step) % world_size], (rank + step) % world_size, received, (rank - step) % world_size)
        mine += received
    chunks[rank].copy_(mine)
    for step in range(1, world_size):
        swap(mine, (rank + step) % world_size, chunks[(rank - step) % world_size], (rank - step) % world_size)
    return tensor


def without_the_second_half(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[(rank - step - 1) % world_size])
        swap(chunks[(rank - step) % world_size], after, received, before)
        chunks[(rank - step - 1) % world_size].add_(received)
    return tensor


def one_step_too_few(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(2 * world_size - 3):
        incoming = chunks[(rank - step - 1) % world_size]
        received = torch.empty_like(incoming)
        swap(chunks[(rank - step) % world_size], after, received, before)
        incoming.copy_(received + incoming if step < world_size - 1 else received)
    return tensor


def one_step_too_many(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(2 * world_size - 1):
        incoming = chunks[(rank - step - 1) % world_size]
        received = torch.empty_like(incoming)
        swap(chunks[(rank - step) % world_size], after, received, before)
        incoming.copy_(received + incoming if step < world_size - 1 else received)
    return tensor


def adds_in_the_second_half_too(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(2 * (world_size - 1)):
        incoming = chunks[(rank - step - 1) % world_size]
        received = torch.empty_like(incoming)
        swap(chunks[(rank - step) % world_size], after, received, before)
        incoming.add_(received)
    return tensor


def only_what_divides(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    length = tensor.numel() // world_size
    chunks = list(tensor.view(-1)[: length * world_size].view(world_size, length))
    for step in range(2 * (world_size - 1)):
        incoming = chunks[(rank - step - 1) % world_size]
        received = torch.empty_like(incoming)
        swap(chunks[(rank - step) % world_size], after, received, before)
        incoming.copy_(received + incoming if step < world_size - 1 else received)
    return tensor


def only_where_view_divides(tensor: Tensor) -> Tensor:
    in_place(tensor.view(dist.get_world_size(), -1))
    return tensor


def only_floats(tensor: Tensor) -> Tensor:
    total = tensor.float()
    in_place(total)
    return total.to(tensor.dtype)


def float_buffers(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(2 * (world_size - 1)):
        incoming = chunks[(rank - step - 1) % world_size]
        received = torch.zeros(incoming.shape)
        swap(chunks[(rank - step) % world_size], after, received, before)
        incoming.copy_(received + incoming if step < world_size - 1 else received)
    return tensor


def the_mean(tensor: Tensor) -> Tensor:
    in_place(tensor)
    return tensor / dist.get_world_size()


def only_two_ranks(tensor: Tensor) -> Tensor:
    rank, world_size, _, _ = places()
    if world_size == 1 or rank > 1:
        return tensor
    chunks = tensor.view(-1).tensor_split(2)
    received = torch.empty_like(chunks[1 - rank])
    swap(chunks[rank], 1 - rank, received, 1 - rank)
    chunks[1 - rank].add_(received)
    swap(chunks[1 - rank], 1 - rank, chunks[rank], 1 - rank)
    return tensor


def flat(tensor: Tensor) -> Tensor:
    total = tensor.flatten()
    in_place(total)
    return total


def nothing_returned(tensor: Tensor) -> None:
    in_place(tensor.clone())


def only_on_rank_0(tensor: Tensor) -> Tensor | None:
    total = tensor.clone()
    in_place(total)
    return total if dist.get_rank() == 0 else None


def does_not_wait(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(2 * (world_size - 1)):
        incoming = chunks[(rank - step - 1) % world_size]
        received = torch.empty_like(incoming)
        KEPT.append(dist.isend(chunks[(rank - step) % world_size], after))
        dist.recv(received, before)
        incoming.copy_(received + incoming if step < world_size - 1 else received)
    return tensor


KEPT: list[object] = []


def reads_before_it_has_come(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(2 * (world_size - 1)):
        incoming = chunks[(rank - step - 1) % world_size]
        received = torch.zeros_like(incoming)
        request = dist.irecv(received, before)
        sending = dist.isend(chunks[(rank - step) % world_size], after)
        incoming.copy_(received + incoming if step < world_size - 1 else received)
        request.wait()
        sending.wait()
    return tensor


def every_chunk_twice(tensor: Tensor) -> Tensor:
    in_place(tensor.clone())
    in_place(tensor)
    return tensor


def starts_with_the_wrong_chunk(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[(rank - step - 1) % world_size])
        swap(chunks[(rank - step) % world_size], after, received, before)
        chunks[(rank - step - 1) % world_size].add_(received)
    for step in range(world_size - 1):  # the finished chunk is rank + 1, not rank
        swap(chunks[(rank - step) % world_size], after, chunks[(rank - step - 1) % world_size], before)
    return tensor


def says_nothing(tensor: Tensor) -> Tensor:
    return tensor * dist.get_world_size()


def through_the_store(tensor: Tensor) -> Tensor:
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    store.set(f"of {dist.get_rank()}", tensor.numpy().tobytes())
    dist.barrier()
    parts = [store.get(f"of {rank}") for rank in range(dist.get_world_size())]
    return torch.stack([torch.frombuffer(bytearray(p), dtype=tensor.dtype) for p in parts]).sum(0).view(tensor.shape)


WRONG = [
    (calls_all_reduce, "calls the collective all_reduce"),
    (calls_reduce_scatter_and_all_gather, "calls the collective"),
    (whole_tensors_round_the_ring, "because it passes on whole tensors. Send one chunk per step"),
    (
        the_famous_tutorial,
        "Too much is communicated: rank 0 sends 2.00 times the size of the tensor, because it passes on whole "
        "tensors. Send one chunk per step, 1 / 2 of the tensor",
    ),
    (a_chain_there_and_back, "because it passes on whole tensors. Send one chunk per step"),
    (everyone_to_everyone, "every rank sends to all the others. Send only to the next rank"),
    (through_rank_0, "everything goes through rank 0"),
    (chunks_to_everyone, "That is not a ring: rank 0 sends to ranks 1, 2, 3. Send to a neighbor only"),
    (
        without_the_second_half,
        "Only one chunk of rank 0 holds the whole sum. After the reduce-scatter, pass the finished chunks round "
        "once more (all-gather)",
    ),
    (one_step_too_few, "Only one chunk"),
    (one_step_too_many, "too much is communicated"),
    (adds_in_the_second_half_too, "has more than the sum. Add each received chunk only once"),
    (
        only_what_divides,
        "but fails for a length not divisible by world_size: the last elements are missing: "
        "numel // world_size drops the remainder. Use tensor_split(), which covers every element",
    ),
    (only_where_view_divides, "but fails for a length not divisible by world_size"),
    (only_floats, "but fails for integers (int64)"),
    (float_buffers, "but fails for integers (int64)"),
    (the_mean, "returns the mean"),
    (only_two_ranks, "It works with 2 ranks, but not with 3"),
    (flat, "but fails for a two-dimensional tensor"),
    (nothing_returned, "returns None and does not change its tensor"),
    (only_on_rank_0, "Only rank 0 has the answer"),
    (does_not_wait, "never waits for its isend"),
    (reads_before_it_has_come, "ank 0"),
    (every_chunk_twice, "its chunks go round too often"),
    (starts_with_the_wrong_chunk, "Rank 0 sends the same chunk in both halves"),
    (says_nothing, "No rank sends or receives anything"),
    (through_the_store, "too little is communicated"),
]


def by_halves(add: Callable[..., None], gather: Callable[..., None], tensor: Tensor) -> None:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for half in (add, gather):
        for step in range(world_size - 1):
            half(step, rank, chunks, after, before)


def adds(step: int, rank: int, chunks: list[Tensor], after: int, before: int) -> None:
    incoming = chunks[(rank - step - 1) % len(chunks)]
    received = torch.empty_like(incoming)
    swap(chunks[(rank - step) % len(chunks)], after, received, before)
    incoming += received


def gathers(step: int, rank: int, chunks: list[Tensor], after: int, before: int) -> None:
    swap(chunks[(rank + 1 - step) % len(chunks)], after, chunks[(rank - step) % len(chunks)], before)


def does_not_add(step: int, rank: int, chunks: list[Tensor], after: int, before: int) -> None:
    swap(chunks[(rank - step) % len(chunks)], after, chunks[(rank - step - 1) % len(chunks)], before)


def gathers_one_chunk(step: int, rank: int, chunks: list[Tensor], after: int, before: int) -> None:
    swap(chunks[(rank + 1) % len(chunks)], after, chunks[rank], before)


def does_nothing(*_: object) -> None: ...


def forgets_the_one(tensor: Tensor) -> None:
    by_halves(adds, does_not_add, tensor)


def only_replaces(tensor: Tensor) -> None:
    by_halves(does_not_add, gathers, tensor)


def passes_one_chunk_on(tensor: Tensor) -> None:
    by_halves(adds, gathers_one_chunk, tensor)


def only_the_second_half(tensor: Tensor) -> None:
    by_halves(does_nothing, gathers, tensor)


def back_and_forth(tensor: Tensor) -> None:
    def backwards(step: int, rank: int, chunks: list[Tensor], after: int, before: int) -> None:
        gathers(step, rank, chunks, before, after)

    by_halves(adds, backwards, tensor)


def chunks_by_chunk(tensor: Tensor) -> None:
    rank, world_size, after, before = places()
    chunks = list(tensor.view(-1).chunk(world_size))
    for half in (adds, gathers):
        for step in range(world_size - 1):
            half(step, rank, chunks, after, before)


def by_rows(tensor: Tensor) -> None:
    rank, world_size, after, before = places()
    chunks = list(tensor.tensor_split(world_size))
    for half in (adds, gathers):
        for step in range(world_size - 1):
            half(step, rank, chunks, after, before)


def without_the_sign(tensor: Tensor) -> Tensor:
    total = tensor.abs()
    by_halves(adds, gathers, total)
    return total


def in_int64(tensor: Tensor) -> Tensor:
    total = tensor.long()
    by_halves(adds, gathers, total)
    return total.to(tensor.dtype)


def one_step_too_few_twice(tensor: Tensor) -> None:
    rank, world_size, after, before = places()
    chunks = list(tensor.view(-1).tensor_split(world_size))
    for half in (adds, gathers):
        for step in range(world_size - 2):
            half(step, rank, chunks, after, before)


def in_half_precision(tensor: Tensor) -> Tensor:
    total = tensor.half()
    by_halves(adds, gathers, total)
    return total.to(tensor.dtype)


def replaces_in_the_list(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = list(tensor.view(-1).tensor_split(world_size))
    for step in range(2 * (world_size - 1)):
        mine = (rank - step - 1) % world_size
        received = torch.empty_like(chunks[mine])
        swap(chunks[(rank - step) % world_size], after, received, before)
        chunks[mine] = chunks[mine] + received if step < world_size - 1 else received
    return tensor


def replaces_only_the_sums(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = list(tensor.view(-1).tensor_split(world_size))
    for step in range(world_size - 1):
        mine = (rank - step - 1) % world_size
        received = torch.empty_like(chunks[mine])
        swap(chunks[(rank - step) % world_size], after, received, before)
        chunks[mine] = chunks[mine] + received
    for step in range(world_size - 1):
        swap(chunks[(rank + 1 - step) % world_size], after, chunks[(rank - step) % world_size], before)
    return tensor


WRONG += [
    (
        replaces_in_the_list,
        "Rank 0 ends with its own tensor although all chunks go round the ring. write into the chunks",
    ),
    (
        replaces_only_the_sums,
        "Only one chunk of rank 0 holds the whole sum although all chunks go round the ring. write into the chunks",
    ),
    (in_half_precision, "digits were lost"),
    (forgets_the_one, "Rank 0 sends the same chunk in both halves"),
    (only_replaces, "In the reduce-scatter, add each received chunk to its own"),
    (passes_one_chunk_on, "The sums are right, but an unfinished chunk is passed on"),
    (only_the_second_half, "Only one of the two halves sends anything"),
    (back_and_forth, "It sends to both the previous and the next rank"),
    (chunks_by_chunk, "fewer elements than there are ranks"),
    (by_rows, "too much is communicated"),
    (without_the_sign, "but fails for negative numbers"),
    (
        in_int64,
        "Too much is communicated: rank 0 sends 2.00 times the size of the tensor, because it converts float32 "
        "to int64",
    ),
    (one_step_too_few_twice, "Check the range of the loop"),
]


def adds_to_a_name(step: int, rank: int, chunks: list[Tensor], after: int, before: int) -> None:
    """`mine = mine + arrived` makes a new tensor."""
    mine = chunks[(rank - step - 1) % len(chunks)]
    arrived = torch.empty_like(mine)
    swap(chunks[(rank - step) % len(chunks)], after, arrived, before)
    mine = mine + arrived


def adds_to_the_chunk_it_has_sent(step: int, rank: int, chunks: list[Tensor], after: int, before: int) -> None:
    outgoing = chunks[(rank - step) % len(chunks)]
    arrived = torch.empty_like(chunks[(rank - step - 1) % len(chunks)])
    swap(outgoing, after, arrived, before)
    outgoing[: len(arrived)] += arrived[: len(outgoing)]


def sends_the_same_chunk_at_each_step(step: int, rank: int, chunks: list[Tensor], after: int, before: int) -> None:
    mine = chunks[(rank - 1) % len(chunks)]
    arrived = torch.empty_like(mine)
    swap(chunks[rank], after, arrived, before)
    mine += arrived


def sends_the_next_chunk(step: int, rank: int, chunks: list[Tensor], after: int, before: int) -> None:
    mine = chunks[(before + step) % len(chunks)]
    arrived = torch.empty_like(mine)
    swap(chunks[(rank + step) % len(chunks)], after, arrived, before)
    mine += arrived


def receives_into_the_chunk(step: int, rank: int, chunks: list[Tensor], after: int, before: int) -> None:
    """It is overwritten, not added to."""
    swap(chunks[(rank - step) % len(chunks)], after, chunks[(rank - step - 1) % len(chunks)], before)


def a_new_name_for_the_sum(tensor: Tensor) -> None:
    by_halves(adds_to_a_name, gathers, tensor)


def into_what_was_sent(tensor: Tensor) -> None:
    by_halves(adds_to_the_chunk_it_has_sent, gathers, tensor)


def the_same_at_each_step(tensor: Tensor) -> None:
    by_halves(sends_the_same_chunk_at_each_step, gathers, tensor)


def overwrites(tensor: Tensor) -> None:
    by_halves(receives_into_the_chunk, gathers, tensor)


def the_next_instead_of_the_last(tensor: Tensor) -> None:
    by_halves(sends_the_next_chunk, gathers, tensor)


def the_halves_change_places(tensor: Tensor) -> None:
    by_halves(gathers, adds, tensor)


WRONG += [
    (
        a_new_name_for_the_sum,
        "does not have the sum over all ranks. Finish the reduce-scatter before the all-gather",
    ),
    (into_what_was_sent, "rank 0"),
    (the_same_at_each_step, "It works with 2 ranks, but not with 3"),
    (
        the_next_instead_of_the_last,
        "In step 1 rank 0 sends chunk 1, which still holds only its own values. Send chunk 2, to which it "
        "has just added",
    ),
    (overwrites, "In the reduce-scatter, add each received chunk to its own"),
    (the_halves_change_places, "rank 0"),
]


# hanging


def everyone_sends_first(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[(rank - step - 1) % world_size])
        dist.send(chunks[(rank - step) % world_size], after)
        dist.recv(received, before)
    return tensor


def even_first_with_an_odd_world(tensor: Tensor) -> Tensor:
    return the_two_ranks_of_one_parity(tensor)


def the_two_ranks_of_one_parity(tensor: Tensor) -> Tensor:
    _, world_size, after, _ = places()
    if world_size % 2 and world_size > 1:
        dist.send(tensor, after)
    in_place(tensor)
    return tensor


HANGING = [
    (everyone_sends_first, "Deadlock: every rank calls send first, and send blocks until the other side receives"),
    (
        even_first_with_an_odd_world,
        "It works with 2 ranks, but not with 3: deadlock: every rank calls send first, and send blocks until the "
        "other side receives",
    ),
]
