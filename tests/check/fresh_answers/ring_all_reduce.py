import time

import torch
import torch.distributed as dist
from torch import nn

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


from ddp_lessons.train.point_to_point import send_and_receive


def turn(tensor, first, second):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    chunks = list(tensor.view(-1).tensor_split(world_size))
    for one_step in (first, second):
        for step in range(world_size - 1):
            one_step(step, rank, chunks, (rank + 1) % world_size, (rank - 1) % world_size)


def rs(step, rank, chunks, after, before):
    outgoing, mine = chunks[(rank - step) % len(chunks)], chunks[(rank - step - 1) % len(chunks)]
    room = torch.empty_like(mine)
    send_and_receive(outgoing, after, room, before)
    mine += room


def ag(step, rank, chunks, after, before):
    n = len(chunks)
    send_and_receive(chunks[(rank + 1 - step) % n], after, chunks[(rank - step) % n], before)


def ring_as_in_the_frame(tensor):
    turn(tensor, rs, ag)
right(ring_as_in_the_frame, "four lines and two")


def rs_negative(step, rank, chunks, after, before):
    room = torch.zeros_like(chunks[rank - step - 1])
    send_and_receive(chunks[rank - step], after, room, before)
    chunks[rank - step - 1].add_(room)


def ag_after(step, rank, chunks, after, before):
    send_and_receive(chunks[after - step], after, chunks[rank - step], before)


def ring_negative_indices_instead_of_modulo(tensor):
    turn(tensor, rs_negative, ag_after)
right(ring_negative_indices_instead_of_modulo, "negative indices count from the end; after - step for rank + 1 - step")


def rs_batch(step, rank, chunks, after, before):
    n = len(chunks)
    mine = chunks[(before - step) % n]
    room = mine.clone()
    ops = [dist.P2POp(dist.isend, chunks[(rank - step) % n], after), dist.P2POp(dist.irecv, room, before)]
    for w in dist.batch_isend_irecv(ops):
        w.wait()
    mine += room


def ag_isend(step, rank, chunks, after, before):
    n = len(chunks)
    w = dist.isend(chunks[(rank - step + 1) % n], after)
    dist.recv(chunks[(rank - step) % n], before)
    w.wait()


def ring_with_calls_of_lesson_2(tensor):
    turn(tensor, rs_batch, ag_isend)
right(ring_with_calls_of_lesson_2, "batch_isend_irecv and isend in place of send_and_receive")


def swap_in_order(rank, outgoing, after, incoming, before):
    if rank % 2 == 0:
        dist.send(outgoing, after)
        dist.recv(incoming, before)
    else:
        dist.recv(incoming, before)
        dist.send(outgoing, after)


def rs_even_odd(step, rank, chunks, after, before):
    n = len(chunks)
    room = torch.empty_like(chunks[(rank - step - 1) % n])
    swap_in_order(rank, chunks[(rank - step) % n], after, room, before)
    chunks[(rank - step - 1) % n] += room


def ag_even_odd(step, rank, chunks, after, before):
    n = len(chunks)
    swap_in_order(rank, chunks[(rank + 1 - step) % n], after, chunks[(rank - step) % n], before)


def ring_even_send_first(tensor):
    turn(tensor, rs_even_odd, ag_even_odd)
right(ring_even_send_first, "blocking: even ranks send first, odd ones receive first")


def ring_in_one_loop(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = tensor.view(-1).tensor_split(n)
    for step in range(2 * (n - 1)):
        out, into = chunks[(rank - step) % n], chunks[(rank - step - 1) % n]
        room = torch.empty_like(into)
        send_and_receive(out, (rank + 1) % n, room, (rank - 1) % n)
        into.copy_(into + room if step < n - 1 else room)
right(ring_in_one_loop, "both halves in one loop: in step n - 1 the index has gone on by itself")


def ring_padded(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    flat = tensor.view(-1)
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % n)])
    rows = list(padded.view(n, -1)) if len(padded) else [padded] * n
    for step in range(n - 1):
        rs(step, rank, rows, (rank + 1) % n, (rank - 1) % n)
    for step in range(n - 1):
        ag(step, rank, rows, (rank + 1) % n, (rank - 1) % n)
    flat.copy_(padded[: len(flat)])
right(ring_padded, "padded with zeros, cut off again (the lesson calls it right)")


class Ring:
    def __init__(self, tensor):
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        self.parts = tensor.view(-1).tensor_split(self.n)

    def step(self, k, add):
        mine, received = self.parts[(self.rank - k) % self.n], self.parts[(self.rank - k - 1) % self.n]
        old = received.clone()
        send_and_receive(mine, (self.rank + 1) % self.n, received, (self.rank - 1) % self.n)
        if add:
            received.add_(old)


def ring_by_a_class(tensor):
    ring = Ring(tensor)
    for k in range(2 * ring.n - 2):
        ring.step(k, add=k < ring.n - 1)
right(ring_by_a_class, "receives into the chunk and adds what had been there")


def ring_of_whole_tensors_passed_on(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    passing = tensor.clone()
    for _ in range(n - 1):
        arrived = torch.empty_like(tensor)
        send_and_receive(passing, (rank + 1) % n, arrived, (rank - 1) % n)
        tensor += arrived
        passing = arrived
wrong(ring_of_whole_tensors_passed_on, "whole tensors travel", "bytes, chunks, whole tensor")


def ring_is_the_call(tensor):
    dist.all_reduce(tensor)
wrong(ring_is_the_call, "calls all_reduce", "messages, collective")


def ring_through_rank_0(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
        return
    got = torch.empty_like(tensor)
    for r in range(1, n):
        dist.recv(got, r)
        tensor += got
    for r in range(1, n):
        dist.send(tensor, r)
wrong(ring_through_rank_0, "a star", "rank 0, neighbors, bytes")


def do_nothing(step, rank, chunks, after, before):
    pass


def ring_first_half_only(tensor):
    turn(tensor, rs, do_nothing)
wrong(ring_first_half_only, "stops after the reduce_scatter", "second half, all_gather, one finished chunk")


def ring_adds_in_the_second_half_too(tensor):
    turn(tensor, rs, rs)
wrong(ring_adds_in_the_second_half_too, "adds in the second half, too, from the first chunk again", "finished, too large, not added")


def rs_no_add(step, rank, chunks, after, before):
    n = len(chunks)
    send_and_receive(chunks[(rank - step) % n], after, chunks[(rank - step - 1) % n], before)


def ring_overwrites_instead_of_adding(tensor):
    turn(tensor, rs_no_add, ag)
wrong(ring_overwrites_instead_of_adding, "what arrives overwrites the chunk", "add, overwritten, room of its own")


def rs_forward(step, rank, chunks, after, before):
    n = len(chunks)
    room = torch.empty_like(chunks[(rank + step - 1) % n])
    send_and_receive(chunks[(rank + step) % n], after, room, before)
    chunks[(rank + step - 1) % n] += room


def ring_next_chunk_instead_of_last(tensor):
    turn(tensor, rs_forward, ag)
wrong(ring_next_chunk_instead_of_last, "sends chunk rank + step: a chunk that it has not added to", "which chunk, rank - step, just added")


def rs_room_of_outgoing(step, rank, chunks, after, before):
    n = len(chunks)
    room = torch.empty_like(chunks[(rank - step) % n])
    send_and_receive(chunks[(rank - step) % n], after, room, before)
    chunks[(rank - step - 1) % n] += room


def ring_room_as_large_as_what_it_sends(tensor):
    turn(tensor, rs_room_of_outgoing, ag)
wrong(ring_room_as_large_as_what_it_sends, "the room has the size of the chunk sent; sizes may differ", "size, room, does not divide")


def rs_new_tensor(step, rank, chunks, after, before):
    n = len(chunks)
    room = torch.empty_like(chunks[(rank - step - 1) % n])
    send_and_receive(chunks[(rank - step) % n], after, room, before)
    chunks[(rank - step - 1) % n] = chunks[(rank - step - 1) % n] + room


def ring_new_tensors_in_the_list(tensor):
    turn(tensor, rs_new_tensor, ag)
wrong(ring_new_tensors_in_the_list, "puts a new tensor into the list: the tensor itself is not changed", "view, in place, +=, new tensor")


def ag_same_as_first(step, rank, chunks, after, before):
    n = len(chunks)
    send_and_receive(chunks[(rank - step) % n], after, chunks[(rank - step - 1) % n], before)


def ring_second_half_begins_with_its_own_number(tensor):
    turn(tensor, rs, ag_same_as_first)
wrong(ring_second_half_begins_with_its_own_number, "the second half begins with chunk rank, not with the finished one", "rank + 1, finished chunk")


def rs_blocking(step, rank, chunks, after, before):
    n = len(chunks)
    room = torch.empty_like(chunks[(rank - step - 1) % n])
    dist.send(chunks[(rank - step) % n], after)
    dist.recv(room, before)
    chunks[(rank - step - 1) % n] += room


def ring_all_send_first(tensor):
    turn(tensor, rs_blocking, ag)
wrong(ring_all_send_first, "blocking sends round the circle: deadlock", "all in send, send_and_receive")


def ring_one_step_too_many(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = list(tensor.view(-1).tensor_split(n))
    for half in (rs, ag):
        for step in range(n if n > 1 else 0):
            half(step, rank, chunks, (rank + 1) % n, (rank - 1) % n)
wrong(ring_one_step_too_many, "n steps in each half: the sum is right all the same, but two messages too many (2 tensors per rank, not 2 (N - 1) / N)", "n - 1, one step too many, bytes")


def ring_mean(tensor):
    turn(tensor, rs, ag)
    tensor /= dist.get_world_size()
wrong(ring_mean, "divides: a mean, and whole numbers cannot", "sum, not the mean")


def rs_float(step, rank, chunks, after, before):
    n = len(chunks)
    room = torch.zeros(len(chunks[(rank - step - 1) % n]))
    send_and_receive(chunks[(rank - step) % n], after, room, before)
    chunks[(rank - step - 1) % n] += room


def ring_room_of_float32(tensor):
    turn(tensor, rs_float, ag)
wrong(ring_room_of_float32, "the room is float32 for whole numbers, too", "dtype, type")


def ring_cut_by_chunk(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = list(tensor.view(-1).chunk(n))
    for half in (rs, ag):
        for step in range(n - 1):
            half(step, rank, chunks, (rank + 1) % n, (rank - 1) % n)
wrong(ring_cut_by_chunk, "chunk(n) may make fewer than n", "chunk, tensor_split, sizes that do not divide")


def ring_loses_the_remainder(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    size = tensor.numel() // n
    chunks = [tensor.view(-1)[r * size : (r + 1) * size] for r in range(n)]
    for half in (rs, ag):
        for step in range(n - 1):
            half(step, rank, chunks, (rank + 1) % n, (rank - 1) % n)
wrong(ring_loses_the_remainder, "numel // n: the remainder is never added up", "remainder, sizes that do not divide")


def ring_in_a_copy(tensor):
    copy = tensor.clone()
    turn(copy, rs, ag)
wrong(ring_in_a_copy, "the sum is in a copy", "in place, clone, unchanged")


def ag_no_modulo(step, rank, chunks, after, before):
    send_and_receive(chunks[rank + 1 - step], after, chunks[rank - step], before)


def ring_without_modulo(tensor):
    turn(tensor, rs, ag_no_modulo)
wrong(ring_without_modulo, "rank + 1 is out of the list on the last rank", "index, modulo, last rank")


def rs_unwaited(step, rank, chunks, after, before):
    n = len(chunks)
    room = torch.zeros_like(chunks[(rank - step - 1) % n])
    dist.isend(chunks[(rank - step) % n], after)
    dist.irecv(room, before)
    chunks[(rank - step - 1) % n] += room


def ring_without_waits(tensor):
    turn(tensor, rs_unwaited, ag)
wrong(ring_without_waits, "adds before it has come", "wait, irecv")


def ring_both_library_halves(tensor):
    n, flat = dist.get_world_size(), tensor.view(-1)
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % n)])
    mine = padded.new_zeros(len(padded) // n)
    dist.reduce_scatter(mine, list(padded.chunk(n)))
    dist.all_gather_into_tensor(padded, mine)
    flat.copy_(padded[: len(flat)])
wrong(ring_both_library_halves, "collectives of the library instead of messages to neighbors", "collective, messages, by hand")
