import os
import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


import functools
import json

from ddp_lessons.train.board_group import from_bytes, to_bytes


def board_four_lines(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    total = torch.zeros_like(tensor)
    for other in range(world_size):
        total += from_bytes(board.get(str(other)), like=tensor)
    tensor.copy_(total)
right(board_four_lines, "the four lines")


def board_sum_of_a_list(board, tensor, rank, world_size):
    board.set(f"from {rank}", to_bytes(tensor))
    notes = [board.get(f"from {r}") for r in range(world_size)]
    tensor.copy_(sum(from_bytes(note, tensor) for note in notes))
right(board_sum_of_a_list, "sum() over a generator")


def board_reduce(board, tensor, rank, world_size):
    board.set(f"note{rank}", to_bytes(tensor.clone()))
    parts = (from_bytes(board.get(f"note{r}"), like=tensor) for r in range(world_size))
    tensor.copy_(functools.reduce(torch.add, parts))
    return tensor
right(board_reduce, "functools.reduce; returns it, too")


def board_own_part_from_memory(board, tensor, rank, world_size):
    mine = tensor.clone()
    board.set(str(rank), to_bytes(mine))
    tensor.zero_()
    for r in range(world_size):
        tensor += mine if r == rank else from_bytes(board.get(str(r)), like=mine)
right(board_own_part_from_memory, "does not read its own note, but adds in the order of ranks")


def board_waits_first(board, tensor, rank, world_size):
    names = [f"{r}" for r in range(world_size)]
    board.set(names[rank], to_bytes(tensor))
    board.wait(names)
    first, *others = [from_bytes(board.get(name), like=tensor) for name in names]
    total = first.clone()
    for other in others:
        total = total + other
    tensor.copy_(total)
right(board_waits_first, "wait for all names, then read")


def board_in_words(board, tensor, rank, world_size):
    board.set(f"{rank}", json.dumps(tensor.tolist()))
    total = torch.zeros_like(tensor)
    for r in range(world_size):
        total.add_(torch.tensor(json.loads(board.get(f"{r}")), dtype=tensor.dtype).view_as(tensor))
    tensor.copy_(total)
right(board_in_words, "numbers as text instead of bytes: Python writes floats so that they come back exactly")


def board_from_the_end_of_a_list(board, tensor, rank, world_size):
    board.set(str(-rank), to_bytes(tensor))
    stack = [from_bytes(board.get(str(-r)), like=tensor) for r in reversed(range(world_size))]
    total = stack.pop()
    while stack:
        total = total + stack.pop()
    tensor.copy_(total)
right(board_from_the_end_of_a_list, "reads backwards, adds in the order of ranks; odd names")


def board_name_only(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    tensor = sum(from_bytes(board.get(str(r)), like=tensor) for r in range(world_size))
wrong(board_name_only, "the local name gets a new tensor", "in place, copy_, name")


def board_returns_the_sum(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    return sum(from_bytes(board.get(str(r)), like=tensor) for r in range(world_size))
wrong(board_returns_the_sum, "returns it; what is returned does not count", "in tensor itself, copy_, return")


def board_mine_first(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    for r in range(world_size):
        if r != rank:
            tensor += from_bytes(board.get(str(r)), like=tensor)
wrong(board_mine_first, "begins with its own: another order on each rank, other bits", "order of the ranks, bits, own first")


def board_from_me_round(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    total = torch.zeros_like(tensor)
    for step in range(world_size):
        total += from_bytes(board.get(str((rank + step) % world_size)), like=tensor)
    tensor.copy_(total)
wrong(board_from_me_round, "goes round from its own rank on", "order of the ranks, bits")


def board_own_counted_twice(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    for r in range(world_size):
        tensor += from_bytes(board.get(str(r)), like=tensor)
wrong(board_own_counted_twice, "its own is in the tensor and in the note", "own twice, zeros")


def board_own_forgotten(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    total = torch.zeros_like(tensor)
    for r in range(world_size):
        if r != rank:
            total += from_bytes(board.get(str(r)), like=tensor)
    tensor.copy_(total)
wrong(board_own_forgotten, "adds up the others only", "own, missing")


def board_last_rank_forgotten(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    tensor.copy_(sum((from_bytes(board.get(str(r)), like=tensor) for r in range(world_size - 1)), torch.zeros_like(tensor)))
wrong(board_last_rank_forgotten, "range to world_size - 1", "last rank, range")


def board_one_name_for_all(board, tensor, rank, world_size):
    board.set("tensor", to_bytes(tensor))
    tensor.copy_(sum(from_bytes(board.get("tensor"), like=tensor) for _ in range(world_size)))
wrong(board_one_name_for_all, "all write to the same note", "name, overwritten, same note")


def board_looks_without_waiting(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    total = torch.zeros_like(tensor)
    for r in range(world_size):
        if board.check([str(r)]):
            total += from_bytes(board.get(str(r)), like=tensor)
    tensor.copy_(total)
wrong(board_looks_without_waiting, "leaves out who is late", "late, wait, get, check")


def board_sleeps_then_looks(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    time.sleep(0.2)
    there = [r for r in range(world_size) if board.check([str(r)])]
    tensor.copy_(sum(from_bytes(board.get(str(r)), like=tensor) for r in there))
wrong(board_sleeps_then_looks, "gives the others 0.2 seconds", "late, sleep, get waits")


def board_adds_before_it_writes(board, tensor, rank, world_size):
    total = tensor.clone()
    for r in range(rank):
        total += from_bytes(board.get(str(r)), like=tensor)
    board.set(str(rank), to_bytes(total))
    tensor.copy_(total)
wrong(board_adds_before_it_writes, "only from the ranks before; what they wrote is a sum already", "every rank, later ranks, write first")


def board_reads_before_it_writes(board, tensor, rank, world_size):
    parts = [from_bytes(board.get(str(r)), like=tensor) for r in range(world_size)]
    board.set(str(rank), to_bytes(tensor))
    tensor.copy_(sum(parts))
wrong(board_reads_before_it_writes, "all wait for notes that nobody has written", "write first, get waits, standstill")


def board_whole_numbers_by_add(board, tensor, rank, world_size):
    flat = tensor.view(-1)
    for i, number in enumerate(flat.tolist()):
        board.add(f"sum {i}", int(number))
    board.add("arrived", 1)
    while board.add("arrived", 0) < world_size:
        time.sleep(0.01)
    for i in range(len(flat)):
        flat[i] = board.add(f"sum {i}", 0)
wrong(board_whole_numbers_by_add, "add knows whole numbers only: fractions are lost", "int, floats, add")


def board_mean(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    total = sum(from_bytes(board.get(str(r)), like=tensor) for r in range(world_size))
    tensor.copy_(total / world_size)
wrong(board_mean, "the mean", "sum, not the mean")


def board_as_float32(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor.float()))
    total = sum(from_bytes(board.get(str(r)), like=tensor.float()) for r in range(world_size))
    tensor.copy_(total)
wrong(board_as_float32, "everything through float32: doubles and large whole numbers lose digits", "dtype, float32, digits")


def board_only_rank_0_adds(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    if rank == 0:
        tensor.copy_(sum(from_bytes(board.get(str(r)), like=tensor) for r in range(world_size)))
wrong(board_only_rank_0_adds, "a reduce: the others keep their own", "every rank, rank 0 only")


def board_two_ranks(board, tensor, rank, world_size):
    board.set(str(rank), to_bytes(tensor))
    a = from_bytes(board.get("0"), like=tensor)
    b = from_bytes(board.get("1"), like=tensor)
    tensor.copy_(a + b)
wrong(board_two_ranks, "two ranks only", "world_size, all ranks")


def board_in_order_of_arrival(board, tensor, rank, world_size):
    ticket = board.add("tickets", 1)
    board.set(f"note {ticket}", to_bytes(tensor))
    tensor.copy_(sum(from_bytes(board.get(f"note {t}"), like=tensor) for t in range(1, world_size + 1)))
wrong(board_in_order_of_arrival, "adds in the order of arrival, which changes from run to run (the same on all ranks, but not the ranks')", "order of the ranks, arrival")


def board_calls_torch(board, tensor, rank, world_size):
    dist.all_reduce(tensor)
wrong(board_calls_torch, "calls all_reduce, which has nothing to do with the board", "board, set, get")
