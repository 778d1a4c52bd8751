import os
import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def swap_even_sends_first(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    partner = rank + 1 if rank % 2 == 0 else rank - 1
    if partner == n:
        return tensor
    got = torch.empty_like(tensor)
    if rank % 2 == 0:
        dist.send(tensor, partner)
        dist.recv(got, partner)
    else:
        dist.recv(got, partner)
        dist.send(tensor, partner)
    return got
right(swap_even_sends_first, "cure 1, even ranks send first")


def swap_isend(tensor):
    partner = dist.get_rank() ^ 1
    if partner >= dist.get_world_size():
        return tensor.clone()
    got = torch.zeros_like(tensor)
    h = dist.isend(tensor, partner)
    dist.recv(got, partner)
    h.wait()
    return got
right(swap_isend, "partner by xor, cure 2, the last returns a copy")


def swap_irecv(tensor):
    rank = dist.get_rank()
    partner = rank + 1 - 2 * (rank % 2)
    if partner < dist.get_world_size():
        got = tensor.clone()
        h = dist.irecv(got, partner)
        dist.send(tensor, partner)
        h.wait()
        return got
    return tensor
right(swap_irecv, "arithmetic for the partner, irecv first")


def swap_batch(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    pairs = {r: r + 1 for r in range(0, n - 1, 2)}
    pairs |= {b: a for a, b in pairs.items()}
    if rank not in pairs:
        return tensor
    got = torch.empty_like(tensor)
    ops = [dist.P2POp(dist.isend, tensor, pairs[rank]), dist.P2POp(dist.irecv, got, pairs[rank])]
    for w in dist.batch_isend_irecv(ops):
        w.wait()
    return got
right(swap_batch, "a dict of pairs, batch_isend_irecv")


def swap_smaller_sends_first(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    low = rank // 2 * 2
    if low + 1 == n:
        return tensor
    got = torch.empty_like(tensor)
    for sender, receiver in ((low, low + 1), (low + 1, low)):
        if rank == sender:
            dist.send(tensor, receiver)
        else:
            dist.recv(got, sender)
    return got
right(swap_smaller_sends_first, "two messages of a pair written as a loop")


def swap_with_tags_and_two_handles(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank == n - 1 and n % 2 == 1:
        return tensor
    partner, got = (rank + 1, rank - 1)[rank % 2], torch.empty_like(tensor)
    handles = dist.irecv(got, partner, tag=partner), dist.isend(tensor, partner, tag=rank)
    [h.wait() for h in handles]
    return got
right(swap_with_tags_and_two_handles, "tags by sender, both in the background")


def swap_as_found(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    partner = rank + 1 if rank % 2 == 0 else rank - 1
    if partner == n:
        return tensor
    got = torch.empty_like(tensor)
    dist.send(tensor, partner)
    dist.recv(got, partner)
    return got
wrong(swap_as_found, "unchanged: both send first", "both send, nobody receives, deadlock")


def swap_both_receive_first(tensor):
    partner = dist.get_rank() ^ 1
    if partner == dist.get_world_size():
        return tensor
    got = torch.empty_like(tensor)
    dist.recv(got, partner)
    dist.send(tensor, partner)
    return got
wrong(swap_both_receive_first, "both receive first", "both recv, nobody sends")


def swap_rank_0_sends_first(tensor):
    rank, partner = dist.get_rank(), dist.get_rank() ^ 1
    if partner == dist.get_world_size():
        return tensor
    got = torch.empty_like(tensor)
    if rank == 0:
        dist.send(tensor, partner)
        dist.recv(got, partner)
    else:
        dist.recv(got, partner)
        dist.send(tensor, partner)
    return got
wrong(swap_rank_0_sends_first, "only rank 0 sends first: 2 and 3 both receive", "ranks 2 and 3, even, both recv")


def swap_of_two_ranks(tensor):
    if dist.get_world_size() == 1:
        return tensor
    rank, got = dist.get_rank(), torch.empty_like(tensor)
    h = dist.isend(tensor, 1 - rank)
    dist.recv(got, 1 - rank)
    h.wait()
    return got
wrong(swap_of_two_ranks, "partner is 1 - rank: two ranks only", "partner, more than two ranks, invalid rank")


def swap_in_a_circle(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return tensor
    got = torch.empty_like(tensor)
    h = dist.isend(tensor, (rank + 1) % n)
    dist.recv(got, (rank - 1) % n)
    h.wait()
    return got
wrong(swap_in_a_circle, "a ring, not pairs", "pairs, partner, ring")


def swap_forgets_the_odd_last(tensor):
    partner, got = dist.get_rank() ^ 1, torch.empty_like(tensor)
    h = dist.isend(tensor, partner)
    dist.recv(got, partner)
    h.wait()
    return got
wrong(swap_forgets_the_odd_last, "an odd last rank sends to nobody", "last rank, odd, partner does not exist")


def swap_last_gets_zeros(tensor):
    partner, got = dist.get_rank() ^ 1, torch.zeros_like(tensor)
    if partner < dist.get_world_size():
        h = dist.isend(tensor, partner)
        dist.recv(got, partner)
        h.wait()
    return got
wrong(swap_last_gets_zeros, "the odd last rank returns zeros, not its own", "last rank, its own")


def swap_last_gets_none(tensor):
    partner, got = dist.get_rank() ^ 1, torch.zeros_like(tensor)
    if partner == dist.get_world_size():
        return None
    h = dist.isend(tensor, partner)
    dist.recv(got, partner)
    h.wait()
    return got
wrong(swap_last_gets_none, "the odd last rank returns None", "last rank, its own, None")


def swap_nobody_if_odd(tensor):
    if dist.get_world_size() % 2:
        return tensor
    partner, got = dist.get_rank() ^ 1, torch.zeros_like(tensor)
    h = dist.isend(tensor, partner)
    dist.recv(got, partner)
    h.wait()
    return got
wrong(swap_nobody_if_odd, "with an odd number of ranks nobody swaps", "odd, only the last")


def swap_first_half_with_second(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    half = n // 2
    if n % 2 and rank == n - 1 or n == 1:
        return tensor
    partner, got = (rank + half if rank < half else rank - half), torch.empty_like(tensor)
    h = dist.isend(tensor, partner)
    dist.recv(got, partner)
    h.wait()
    return got
wrong(swap_first_half_with_second, "pairs 0 with 2, 1 with 3", "partner, 0 with 1")


def swap_by_all_gather(tensor):
    n, partner = dist.get_world_size(), dist.get_rank() ^ 1
    room = [torch.empty_like(tensor) for _ in range(n)]
    dist.all_gather(room, tensor)
    return room[partner] if partner < n else tensor
wrong(swap_by_all_gather, "a collective", "messages only, all_gather")


def swap_unwaited(tensor):
    partner, got = dist.get_rank() ^ 1, torch.zeros_like(tensor)
    if partner == dist.get_world_size():
        return tensor
    dist.isend(tensor, partner)
    dist.irecv(got, partner)
    return got
wrong(swap_unwaited, "no waits", "wait, irecv, isend")


def swap_isend_waits_at_once(tensor):
    partner, got = dist.get_rank() ^ 1, torch.zeros_like(tensor)
    if partner == dist.get_world_size():
        return tensor
    h = dist.isend(tensor, partner)
    h.wait()
    dist.recv(got, partner)
    return got
wrong(swap_isend_waits_at_once, "waits for the isend before it receives", "wait, before recv, both send")


def swap_into_the_tensor_under_way(tensor):
    partner = dist.get_rank() ^ 1
    if partner == dist.get_world_size():
        return tensor
    h = dist.isend(tensor, partner)
    dist.recv(tensor, partner)
    h.wait()
    return tensor
wrong(swap_into_the_tensor_under_way, "receives into the tensor that is being sent", "before wait, changed, buffer")


def swap_room_of_float32(tensor):
    partner, got = dist.get_rank() ^ 1, torch.zeros(tensor.shape)
    if partner == dist.get_world_size():
        return tensor
    h = dist.isend(tensor, partner)
    dist.recv(got, partner)
    h.wait()
    return got
wrong(swap_room_of_float32, "room of float32", "dtype")


def swap_one_way(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank % 2 == 0:
        if rank + 1 < n:
            dist.send(tensor, rank + 1)
        return tensor
    got = torch.empty_like(tensor)
    dist.recv(got, rank - 1)
    return got
wrong(swap_one_way, "only the even ranks send", "both, odd ranks send, own tensor")


def swap_sleeping_order(tensor):
    rank, partner, got = dist.get_rank(), dist.get_rank() ^ 1, torch.empty_like(tensor)
    if partner == dist.get_world_size():
        return tensor
    if rank % 2:
        time.sleep(0.1)
    dist.send(tensor, partner)
    dist.recv(got, partner)
    return got
wrong(swap_sleeping_order, "lets the odd rank sleep; send waits all the same", "sleep, both send, order")
