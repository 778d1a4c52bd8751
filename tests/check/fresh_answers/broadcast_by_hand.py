import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def broadcast_star(tensor):
    if dist.get_rank() > 0:
        dist.recv(tensor, 0)
        return
    for other in range(1, dist.get_world_size()):
        dist.send(tensor, other)
right(broadcast_star, "the lesson's pattern, in place, returns None")


def broadcast_chain(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.recv(tensor, rank - 1)
    if rank + 1 < n:
        dist.send(tensor, rank + 1)
right(broadcast_chain, "each passes on to the next")


def broadcast_binary_tree(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.recv(tensor, (rank - 1) // 2)
    for child in (2 * rank + 1, 2 * rank + 2):
        if child < n:
            dist.send(tensor, child)
    return tensor
right(broadcast_binary_tree, "a binary tree")


def broadcast_doubling(tensor):
    rank, n, known = dist.get_rank(), dist.get_world_size(), 1
    while known < n:
        if rank < known and rank + known < n:
            dist.send(tensor, rank + known)
        elif known <= rank < 2 * known:
            dist.recv(tensor, rank - known)
        known *= 2
right(broadcast_doubling, "as many again know it after each round")


def broadcast_isend_all_wait_all(tensor):
    if dist.get_rank() == 0:
        handles = [dist.isend(tensor, r) for r in range(dist.get_world_size()) if r != 0]
        for h in handles:
            h.wait()
    else:
        dist.recv(tensor, src=0)
    return tensor
right(broadcast_isend_all_wait_all, "all isends at once, then the waits")


def broadcast_returns_new_tensor(tensor):
    if dist.get_rank() == 0:
        for other in reversed(range(1, dist.get_world_size())):
            dist.send(tensor, other)
        return tensor.clone()
    received = torch.empty_like(tensor)
    dist.recv(received, 0)
    return received
right(broadcast_returns_new_tensor, "leaves the input alone and returns the answer, last rank first")


def broadcast_one_batch(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    ops = [dist.P2POp(dist.isend, tensor, r) for r in range(1, n)] if rank == 0 else [dist.P2POp(dist.irecv, tensor, 0)]
    for work in dist.batch_isend_irecv(ops) if n > 1 else ():
        work.wait()
right(broadcast_one_batch, "batch_isend_irecv, nothing with one rank")


def broadcast_from_anyone(tensor):
    if dist.get_rank():
        assert dist.recv(tensor) == 0
    else:
        [dist.send(tensor, r) for r in range(1, dist.get_world_size())]
    return tensor
right(broadcast_from_anyone, "recv without src, looks at who it was")


def broadcast_is_the_call(tensor):
    dist.broadcast(tensor, src=0)
wrong(broadcast_is_the_call, "calls the collective", "messages only, send, recv")


def broadcast_by_all_reduce_of_zeros(tensor):
    if dist.get_rank() > 0:
        tensor.zero_()
    dist.all_reduce(tensor)
wrong(broadcast_by_all_reduce_of_zeros, "a collective in place of messages", "messages only, all_reduce")


def broadcast_includes_itself(tensor):
    if dist.get_rank() > 0:
        dist.recv(tensor, 0)
        return
    for other in range(dist.get_world_size()):
        dist.send(tensor, other)
wrong(broadcast_includes_itself, "rank 0 sends to itself, too", "itself, range(1")


def broadcast_forgets_the_last(tensor):
    if dist.get_rank() > 0:
        dist.recv(tensor, 0)
        return
    for other in range(1, dist.get_world_size() - 1):
        dist.send(tensor, other)
wrong(broadcast_forgets_the_last, "the last rank gets nothing", "last rank, range")


def broadcast_to_rank_1_only(tensor):
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
    elif dist.get_rank() == 1:
        dist.recv(tensor, 0)
wrong(broadcast_to_rank_1_only, "works for two ranks only", "other ranks, world size")


def broadcast_listens_to_the_neighbor(tensor):
    rank = dist.get_rank()
    if rank > 0:
        dist.recv(tensor, rank - 1)
        return
    for other in range(1, dist.get_world_size()):
        dist.send(tensor, other)
wrong(broadcast_listens_to_the_neighbor, "rank 0 sends to all, but rank 2 waits for rank 1", "src, receives from the wrong rank")


def broadcast_received_and_lost(tensor):
    if dist.get_rank() > 0:
        received = torch.empty_like(tensor)
        dist.recv(received, 0)
        tensor = received
        return
    for other in range(1, dist.get_world_size()):
        dist.send(tensor, other)
wrong(broadcast_received_and_lost, "gives the local name a new tensor, returns nothing", "name, in place, return")


def broadcast_isend_unwaited(tensor):
    if dist.get_rank() > 0:
        dist.recv(tensor, 0)
        return
    for other in range(1, dist.get_world_size()):
        dist.isend(tensor, other)
wrong(broadcast_isend_unwaited, "handles are thrown away", "wait, isend")


def broadcast_irecv_unwaited(tensor):
    if dist.get_rank() > 0:
        dist.irecv(tensor, 0)
        return tensor
    for other in range(1, dist.get_world_size()):
        dist.send(tensor, other)
    return tensor
wrong(broadcast_irecv_unwaited, "looks into the tensor before it has come", "wait, irecv")


def broadcast_from_the_last_rank(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank < n - 1:
        dist.recv(tensor, n - 1)
        return
    for other in range(n - 1):
        dist.send(tensor, other)
wrong(broadcast_from_the_last_rank, "wrong root", "rank 0, root, last rank")


def broadcast_everybody_sends_to_everybody(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    for other in range(n):
        if other != rank:
            dist.send(tensor, other)
    if rank > 0:
        dist.recv(tensor, 0)
wrong(broadcast_everybody_sends_to_everybody, "all send first: deadlock", "only rank 0 sends, nobody receives")


def broadcast_into_a_float_room(tensor):
    if dist.get_rank() > 0:
        received = torch.zeros(tensor.shape)
        dist.recv(received, 0)
        return received
    for other in range(1, dist.get_world_size()):
        dist.send(tensor, other)
    return tensor
wrong(broadcast_into_a_float_room, "receives everything as float32", "dtype, type")


def broadcast_ring_that_closes(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.recv(tensor, rank - 1)
    if n > 1:
        dist.send(tensor, (rank + 1) % n)
wrong(broadcast_ring_that_closes, "the last one sends to rank 0, who does not receive", "last rank, rank 0 does not receive")


def broadcast_for_four_ranks(tensor):
    if dist.get_rank() > 0:
        dist.recv(tensor, 0)
    else:
        for other in (1, 2, 3):
            dist.send(tensor, other)
wrong(broadcast_for_four_ranks, "world size hard-coded", "world size")


def broadcast_with_one_sided_tag(tensor):
    if dist.get_rank() > 0:
        dist.recv(tensor, 0)
        return
    for other in range(1, dist.get_world_size()):
        dist.send(tensor, other, tag=other)
wrong(broadcast_with_one_sided_tag, "sent with a tag, asked for without", "tag")


def broadcast_sends_one_part_each(tensor):
    if dist.get_rank() > 0:
        dist.recv(tensor, 0)
        return
    for other in range(1, dist.get_world_size()):
        dist.send(tensor[other : other + 1].contiguous(), other)
wrong(broadcast_sends_one_part_each, "takes broadcast for scatter: sends element number r to rank r", "scatter, whole tensor, size")


def broadcast_does_nothing_on_rank_0(tensor):
    if dist.get_rank() > 0:
        dist.recv(tensor, 0)
    return tensor
wrong(broadcast_does_nothing_on_rank_0, "believes that recv fetches; nobody sends", "rank 0 has to send, nobody sends")
