"""Answers to the exercise `all_reduce_on_board`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import json
import pickle
import time
from typing import Any

import torch
import torch.distributed
from torch import Tensor

from ddp_lessons.train.board_group import from_bytes, to_bytes

dist: Any = torch.distributed


# right


def in_place(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(str(rank), to_bytes(tensor))
    notes = [board.get(str(other)) for other in range(world_size)]
    tensor.zero_()
    for note in notes:
        tensor += from_bytes(note, tensor)


def with_a_copy_of_the_sum(board: Any, tensor: Tensor, rank: int, world_size: int) -> str:
    board.set(f"of {rank}", to_bytes(tensor))
    total = from_bytes(board.get("of 0"), tensor)
    for other in range(1, world_size):
        total += from_bytes(board.get(f"of {other}"), tensor)
    tensor[:] = total
    return "what is returned does not count"


def backwards_on_every_rank(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"of {rank}", to_bytes(tensor))
    parts = [from_bytes(board.get(f"of {other}"), tensor) for other in reversed(range(world_size))]
    tensor.copy_(sum(parts[1:], parts[0]))


def rank_0_adds_up(board: Any, tensor: Tensor, rank: int, world_size: int) -> Tensor:
    if rank:
        board.set(f"part {rank}", to_bytes(tensor))
        return tensor.copy_(from_bytes(board.get("sum"), tensor))
    for other in range(1, world_size):
        tensor += from_bytes(board.get(f"part {other}"), tensor)
    board.set("sum", to_bytes(tensor))
    return tensor


def from_hand_to_hand(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    if rank:
        tensor += from_bytes(board.get(f"sum of {rank}"), tensor)
    board.set(f"sum of {rank + 1}", to_bytes(tensor))
    tensor.copy_(from_bytes(board.get(f"sum of {world_size}"), tensor))


def pickled(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", pickle.dumps(tensor))
    board.wait([f"{other}" for other in range(world_size)])
    tensor.copy_(torch.stack([pickle.loads(board.get(f"{other}")) for other in range(world_size)]).sum(0))


def polls(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(str(rank), to_bytes(tensor))
    while not board.check([str(other) for other in range(world_size)]):
        time.sleep(0.001)
    tensor.copy_(torch.stack([from_bytes(board.get(str(other)), tensor) for other in range(world_size)]).sum(0))


def waits_until_all_have_come(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"from {rank}", to_bytes(tensor))
    if board.add("come", 1) == world_size:
        board.set("all are there", "yes")
    board.wait(["all are there"])
    tensor.copy_(torch.stack([from_bytes(board.get(f"from {one}"), tensor) for one in range(world_size)]).sum(0))


def as_a_list_of_numbers(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(str(rank), json.dumps(tensor.tolist()))
    total = torch.zeros_like(tensor)
    for other in range(world_size):
        total.add_(torch.tensor(json.loads(board.get(str(other))), dtype=tensor.dtype))
    tensor.data = total


def one_element_at_a_time(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    flat = tensor.view(-1)
    parts = flat.tensor_split(min(3, len(flat)))
    for number, part in enumerate(parts):
        board.set(f"{number} of {rank}", to_bytes(part))
    for number, part in enumerate(parts):
        notes = [board.get(f"{number} of {other}") for other in range(world_size)]
        like = part.clone()
        part.zero_()
        for note in notes:
            part.add_(from_bytes(note, like))


def by_doubling_the_distance(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    """A tree up to rank 0, and its sum for all."""
    distance = 1
    while distance < world_size:
        if rank % (2 * distance) == 0 and rank + distance < world_size:
            tensor += from_bytes(board.get(f"{rank + distance} over {distance}"), tensor)
        elif rank % (2 * distance) == distance:
            board.set(f"{rank} over {distance}", to_bytes(tensor))
            break
        distance *= 2
    if rank == 0:
        board.set("sum", to_bytes(tensor))
    tensor.copy_(from_bytes(board.get("sum"), tensor))


def naps_although_get_waits(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(str(rank), to_bytes(tensor))
    time.sleep(0.01)
    tensor.copy_(torch.stack([from_bytes(board.get(str(other)), tensor) for other in range(world_size)]).sum(0))


RIGHT = [
    *(in_place, with_a_copy_of_the_sum, backwards_on_every_rank, rank_0_adds_up, from_hand_to_hand, pickled),
    *(polls, waits_until_all_have_come, as_a_list_of_numbers, one_element_at_a_time, by_doubling_the_distance),
    naps_although_get_waits,
]


# wrong


def own_only(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    tensor.copy_(from_bytes(board.get(f"{rank}"), tensor))


def without_its_own(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    others = [other for other in range(world_size) if other != rank]
    tensor.copy_(sum((from_bytes(board.get(f"{other}"), tensor) for other in others), torch.zeros_like(tensor)))


def without_the_last(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    parts = [from_bytes(board.get(f"{other}"), tensor) for other in range(world_size - 1)]
    tensor.copy_(torch.stack(parts).sum(0))


def without_the_first(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    parts = [from_bytes(board.get(f"{other}"), tensor) for other in range(1, world_size)]
    tensor.copy_(torch.stack(parts).sum(0))


def its_own_twice(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    for other in range(world_size):
        tensor += from_bytes(board.get(f"{other}"), tensor)


def the_mean(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    in_place(board, tensor, rank, world_size)
    tensor.copy_(tensor / world_size)


def one_name_for_all(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set("tensor", to_bytes(tensor))
    tensor.copy_(sum((from_bytes(board.get("tensor"), tensor) for _ in range(world_size)), torch.zeros_like(tensor)))


def over_the_group(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    dist.all_reduce(tensor)


def with_a_barrier(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    dist.all_gather_object([None] * world_size, rank)
    in_place(board, tensor, rank, world_size)


def only_two(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    other = (rank + 1) % world_size
    tensor += from_bytes(board.get(f"{other}"), tensor)


def the_tensor_itself(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", tensor)


def numbers_as_names(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(rank, to_bytes(tensor))


def asks_for_a_number(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(str(rank), to_bytes(tensor))
    tensor.copy_(sum((from_bytes(board.get(other), tensor) for other in range(world_size)), torch.zeros(1)))


def only_returned(board: Any, tensor: Tensor, rank: int, world_size: int) -> Any:
    board.set(f"{rank}", to_bytes(tensor))
    return sum(from_bytes(board.get(f"{other}"), tensor) for other in range(world_size))


def another_tensor_of_that_name(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    notes = [board.get(f"{other}") for other in range(world_size)]
    like = torch.empty_like(tensor)
    tensor = torch.stack([from_bytes(note, like) for note in notes]).sum(0)


def another_tensor_of_that_name_in_an_inner_function(board: Any, tensor: Any, rank: int, world_size: int) -> Any:
    board.set(f"{rank}", to_bytes(tensor))
    tensor = sum(from_bytes(board.get(f"{other}"), tensor) for other in range(world_size))
    return tensor


def a_loop_that_is_too_short(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    for other in range(1, world_size - 1):
        tensor += from_bytes(board.get(f"{other}"), tensor)


def only_rank_0(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    if rank == 0:
        for other in range(1, world_size):
            tensor += from_bytes(board.get(f"{other}"), tensor)


def its_own_first(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    for other in range(world_size):
        if other != rank:
            tensor += from_bytes(board.get(f"{other}"), tensor)


def round_from_its_own(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    for step in range(1, world_size):
        tensor += from_bytes(board.get(f"{(rank + step) % world_size}"), tensor)


def sleeps_and_takes_what_is_there(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    time.sleep(0.2)
    there = [f"{other}" for other in range(world_size) if board.check([f"{other}"])]
    tensor.copy_(torch.stack([from_bytes(board.get(name), tensor) for name in there]).sum(0))


def takes_what_is_there(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    there = [f"{other}" for other in range(world_size) if board.check([f"{other}"])]
    tensor.copy_(torch.stack([from_bytes(board.get(name), tensor) for name in there]).sum(0))


def one_after_the_other_by_the_clock(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    time.sleep(0.05 * rank)
    if rank:
        tensor += from_bytes(board.get("sum"), tensor)
    board.set("sum", to_bytes(tensor))
    time.sleep(0.05 * (world_size - rank))
    tensor.copy_(from_bytes(board.get("sum"), tensor))


def rank_0_adds_up_after_a_nap(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    if rank:
        board.set(f"{rank}", to_bytes(tensor))
        tensor.copy_(from_bytes(board.get("sum"), tensor))
        return
    time.sleep(0.1)
    for other in range(1, world_size):
        if board.check([f"{other}"]):
            tensor += from_bytes(board.get(f"{other}"), tensor)
    board.set("sum", to_bytes(tensor))


def adds_what_it_reads_to_a_note(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    """Two ranks read the same, and one of both sums is lost."""
    total = from_bytes(board.get("sum"), tensor) if board.check(["sum"]) else torch.zeros_like(tensor)
    board.set("sum", to_bytes(total + tensor))
    time.sleep(0.1)
    tensor.copy_(from_bytes(board.get("sum"), tensor))


def in_the_order_of_arrival(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    place = board.add("come", 1) - 1
    board.set(f"{place}", to_bytes(tensor))
    others = [one for one in range(world_size) if one != place]
    for other in others:
        tensor += from_bytes(board.get(f"{other}"), tensor)


def the_largest(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    tensor.copy_(torch.stack([from_bytes(board.get(f"{other}"), tensor) for other in range(world_size)]).amax(0))


def in_float32(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor.float()))
    like = tensor.float()
    tensor.copy_(torch.stack([from_bytes(board.get(f"{other}"), like) for other in range(world_size)]).sum(0))


def writes_what_it_has_added(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    """Rank 1 writes when it has added rank 0's already."""
    for other in range(rank):
        tensor += from_bytes(board.get(f"{other}"), tensor)
    board.set(f"{rank}", to_bytes(tensor))
    for other in range(rank + 1, world_size):
        tensor += from_bytes(board.get(f"{other}"), tensor)


def reads_its_own_name_only(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    tensor.copy_(sum((from_bytes(board.get(f"{rank}"), tensor) for _ in range(world_size)), torch.zeros_like(tensor)))


def only_the_first_element(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor[:1]))
    notes = [board.get(f"{other}") for other in range(world_size)]
    tensor.copy_(torch.stack([from_bytes(note, tensor[:1]) for note in notes]).sum(0))


def added_to_a_copy(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"{rank}", to_bytes(tensor))
    total = tensor.clone()
    for other in range(world_size):
        if other != rank:
            total += from_bytes(board.get(f"{other}"), tensor)


def all_in_the_order_of_arrival(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"note {board.add('tickets', 1)}", to_bytes(tensor))
    tensor.zero_()
    for ticket in range(1, world_size + 1):
        tensor += from_bytes(board.get(f"note {ticket}"), tensor)


WRONG = [
    (
        sleeps_and_takes_what_is_there,
        "Rank 0 returns before rank 1 has written to the store. Read with board.get(key), which waits until "
        "the key exists. A sleep or board.check() doesn't wait for it",
    ),
    (
        takes_what_is_there,
        "Rank 0 returns before rank 1 has written to the store. Read with board.get(key), which waits until "
        "the key exists. A sleep or board.check() doesn't wait for it",
    ),
    (
        one_after_the_other_by_the_clock,
        "Rank 0 returns before rank 1 has written to the store. Read with board.get(key), which waits until "
        "the key exists. A sleep or board.check() doesn't wait for it",
    ),
    (
        rank_0_adds_up_after_a_nap,
        "Rank 0 returns before rank 1 has written to the store. Read with board.get(key), which waits until "
        "the key exists. A sleep or board.check() doesn't wait for it",
    ),
    (
        adds_what_it_reads_to_a_note,
        "Rank 0 returns before rank 1 has written to the store. Read with board.get(key), which waits until "
        "the key exists. A sleep or board.check() doesn't wait for it",
    ),
    (
        in_the_order_of_arrival,
        "sums in a different order than rank 0, so the last bits differ. Sum in rank order on every rank, "
        "starting with rank 0",
    ),
    (all_in_the_order_of_arrival, "the last bits depend on which rank comes late"),
    (the_largest, "does not end with the sum"),
    (in_float32, "but fails for integers (int64): the last digits are lost, as in float32"),
    (
        writes_what_it_has_added,
        "Rank 0 adds its own tensor twice, once from `tensor` and once from the store. Add it once",
    ),
    (reads_its_own_name_only, "times. Write one key per rank, with the rank in its name, and read all of them"),
    (only_the_first_element, "does not end with the sum"),
    (added_to_a_copy, "ends with its own tensor"),
    (own_only, "ends with its own tensor"),
    (without_its_own, "Rank 0's own values are missing from its sum"),
    (
        without_the_last,
        "The values of rank 1 are missing from every sum. Loop over all ranks, range(world_size)",
    ),
    (without_the_first, "The values of rank 0 are missing from every sum"),
    (its_own_twice, "adds its own tensor twice, once from `tensor` and once from the store. Add it once"),
    (the_mean, "leave out the division"),
    (
        one_name_for_all,
        "Rank 0 sums its own tensor 2 times. Write one key per rank, with the rank in its name, and read all of them",
    ),
    (over_the_group, "It calls torch.distributed in addition to the store"),
    (with_a_barrier, "It calls torch.distributed in addition to the store"),
    (only_two, "It works with 2 ranks, but not with 3: the values of rank 2 are missing from the sum of rank 0"),
    (the_tensor_itself, "A value in the store must be bytes"),
    (numbers_as_names, "A key of the store must be a string, but this is a number"),
    (asks_for_a_number, "A key of the store must be a string, but this is a number"),
    (only_returned, "The returned value is ignored: the sum must be in `tensor`. Use `tensor.copy_(...)`"),
    (another_tensor_of_that_name, "The name `tensor` now refers to another tensor, and the caller's is unchanged"),
    (
        another_tensor_of_that_name_in_an_inner_function,
        "The name `tensor` now refers to another tensor, and the caller's is unchanged",
    ),
    (
        a_loop_that_is_too_short,
        "Rank 0 ends with its own tensor. Read the other ranks' values too, and write the sum into `tensor`",
    ),
    (
        only_rank_0,
        "`tensor` holds the sum only on rank 0, and rank 1 still has its own values. Put the sum into `tensor` "
        "on every rank",
    ),
    (
        its_own_first,
        "It works with 2 ranks, but not with 3: rank 2 sums in a different order than rank 0, so the last bits differ",
    ),
    (
        round_from_its_own,
        "It works with 2 ranks, but not with 3: rank 1 sums in a different order than rank 0, so the last bits differ",
    ),
]


def reads_what_nobody_writes(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"rank {rank}", to_bytes(tensor))
    for other in range(1, world_size + 1):
        tensor += from_bytes(board.get(f"rank {other}"), tensor)


def reads_before_it_writes(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    notes = [board.get(f"{other}") for other in range(world_size)]
    board.set(f"{rank}", to_bytes(tensor))
    tensor.copy_(sum((from_bytes(note, tensor) for note in notes), torch.zeros_like(tensor)))


def reads_the_left_one_first(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    total = from_bytes(board.get(f"{(rank - 1) % world_size}"), tensor)
    board.set(f"{rank}", to_bytes(total + tensor))


def by_other_names(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(f"rank {rank}", to_bytes(tensor))
    tensor.copy_(torch.stack([from_bytes(board.get(f"rank{other}"), tensor) for other in range(world_size)]).sum(0))


def waits_for_a_word_of_the_last(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    in_place(board, tensor, rank, world_size)
    board.wait(["all done"])


def the_sum_is_never_written(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    if rank:
        board.set(f"part {rank}", to_bytes(tensor))
        tensor.copy_(from_bytes(board.get("sum"), tensor))
    else:
        for other in range(1, world_size):
            tensor += from_bytes(board.get(f"part {other}"), tensor)


HANGING = [
    (
        reads_what_nobody_writes,
        "It waits for the key 'rank 2', which no rank writes. Read the same keys that the ranks write",
    ),
    (
        reads_before_it_writes,
        "Deadlock: every rank reads first, and board.get() waits for a key that no rank has written yet",
    ),
    (reads_the_left_one_first, "Every rank reads first"),
    (by_other_names, "It waits for the key 'rank0', which no rank writes. Read the same keys that the ranks write"),
    (
        waits_for_a_word_of_the_last,
        "It waits for the key 'all done', which no rank writes. Read the same keys that the ranks write",
    ),
    (
        the_sum_is_never_written,
        "It waits for the key 'sum', which no rank writes. Read the same keys that the ranks write",
    ),
]


def adds_whole_numbers(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    flat = tensor.view(-1)
    for place, value in enumerate(flat.tolist()):
        board.add(f"sum {place}", int(value))
    board.add("arrived", 1)
    while board.add("arrived", 0) < world_size:
        time.sleep(0.01)
    for place in range(len(flat)):
        flat[place] = board.add(f"sum {place}", 0)


def writes_whole_numbers(board: Any, tensor: Tensor, rank: int, world_size: int) -> None:
    board.set(str(rank), json.dumps([int(value) for value in tensor.flatten()]))
    notes = [torch.tensor(json.loads(board.get(str(other)))) for other in range(world_size)]
    tensor.copy_(torch.stack(notes).sum(0).view(tensor.shape))


WRONG += [
    (adds_whole_numbers, "board.add() counts in integers, so the fractions are lost"),
    (writes_whole_numbers, "The fractions are lost"),
]
