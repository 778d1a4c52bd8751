import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def gather_each_in_turn(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [torch.empty_like(tensor) for _ in range(n)]
    for sender in range(n):
        if sender == rank:
            parts[rank].copy_(tensor)
            for other in range(n):
                if other != rank:
                    dist.send(tensor, other)
        else:
            dist.recv(parts[sender], sender)
    return parts
right(gather_each_in_turn, "every rank in turn sends to all")


def gather_on_0_then_broadcast(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [tensor.clone() if r == rank else torch.empty_like(tensor) for r in range(n)]
    if rank == 0:
        for r in range(1, n):
            dist.recv(parts[r], r)
        for r in range(1, n):
            for part in parts:
                dist.send(part, r)
    else:
        dist.send(tensor, 0)
        for part in parts:
            dist.recv(part, 0)
    return parts
right(gather_on_0_then_broadcast, "gather, then everything to everybody, own part included")


def gather_all_isends_and_irecvs(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [torch.zeros_like(tensor) for _ in range(n)]
    parts[rank] = tensor.clone()
    others = [r for r in range(n) if r != rank]
    works = [dist.isend(tensor, r) for r in others] + [dist.irecv(parts[r], r) for r in others]
    for w in works:
        w.wait()
    return parts
right(gather_all_isends_and_irecvs, "everything at once, then all waits")


def gather_own_tensor_is_in_the_list(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = {rank: tensor}
    for shift in range(1, n):
        to, source = (rank + shift) % n, (rank - shift) % n
        parts[source] = torch.empty_like(tensor)
        work = dist.isend(tensor, to)
        dist.recv(parts[source], source)
        work.wait()
    return [parts[r] for r in range(n)]
right(gather_own_tensor_is_in_the_list, "shifts round the circle, a dict; its own tensor itself is in the list")


def gather_ring_of_batches(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [torch.empty_like(tensor) for _ in range(n)]
    parts[rank].copy_(tensor)
    for step in range(n - 1):
        out, room = parts[(rank - step) % n], parts[(rank - step - 1) % n]
        ops = [dist.P2POp(dist.isend, out, (rank + 1) % n), dist.P2POp(dist.irecv, room, (rank - 1) % n)]
        for w in dist.batch_isend_irecv(ops):
            w.wait()
    return parts
right(gather_ring_of_batches, "a ring, each passes on what came last")


def gather_pass_a_growing_stack(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    table = torch.stack([tensor] * n)
    if rank > 0:
        dist.recv(table[:rank], rank - 1)
    if rank < n - 1:
        dist.send(table[: rank + 1], rank + 1)
        dist.recv(table, rank + 1)
    if rank > 0:
        dist.send(table, rank - 1)
    return list(table)
right(gather_pass_a_growing_stack, "one table that grows on the way up and comes back whole; list of its rows")


def gather_lower_rank_sends_first(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = []
    for other in range(n):
        part = tensor.clone()
        if rank < other:
            dist.send(tensor, other)
            dist.recv(part, other)
        elif rank > other:
            dist.recv(part, other)
            dist.send(tensor, other)
        parts.append(part)
    return parts
right(gather_lower_rank_sends_first, "pairs in the order of ranks, blocking; the lower one sends first")


def fetch(like, src):
    room = torch.empty_like(like)
    dist.recv(room, src)
    return room


def gather_comprehension_with_helper(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    works = [dist.isend(tensor, r) for r in range(n) if r != rank]
    parts = [tensor.clone() if r == rank else fetch(tensor, r) for r in range(n)]
    [w.wait() for w in works]
    return parts
right(gather_comprehension_with_helper, "list comprehensions and a helper")


def gather_one_room_for_all(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [torch.empty_like(tensor)] * n
    for sender in range(n):
        if sender == rank:
            parts[rank].copy_(tensor)
            [dist.send(tensor, r) for r in range(n) if r != rank]
        else:
            dist.recv(parts[sender], sender)
    return parts
wrong(gather_one_room_for_all, "the list has the same tensor N times", "same tensor, * n, room for each")


def gather_on_rank_0_only(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.send(tensor, 0)
        return [tensor.clone()]
    parts = [tensor.clone()]
    for r in range(1, n):
        part = torch.empty_like(tensor)
        dist.recv(part, r)
        parts.append(part)
    return parts
wrong(gather_on_rank_0_only, "only rank 0 has the list", "every rank, gather, broadcast")


def gather_by_the_collective(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return parts
wrong(gather_by_the_collective, "calls all_gather", "messages only")


def gather_as_objects(tensor):
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, tensor)
    return parts
wrong(gather_as_objects, "calls all_gather_object", "messages only")


def gather_own_part_first(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [tensor.clone()]
    works = [dist.isend(tensor, r) for r in range(n) if r != rank]
    for r in range(n):
        if r != rank:
            part = torch.empty_like(tensor)
            dist.recv(part, r)
            parts.append(part)
    [w.wait() for w in works]
    return parts
wrong(gather_own_part_first, "its own tensor first, whatever its rank", "order of ranks, own first")


def gather_in_order_of_arrival_in_the_ring(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts, passing = [tensor.clone()], tensor.clone()
    for _ in range(n - 1):
        room = torch.empty_like(tensor)
        w = dist.isend(passing, (rank + 1) % n)
        dist.recv(room, (rank - 1) % n)
        w.wait()
        parts.append(room)
        passing = room
    return parts
wrong(gather_in_order_of_arrival_in_the_ring, "ring order: mine, the one before, the one before that", "order of ranks")


def gather_without_its_own(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [torch.zeros_like(tensor) for _ in range(n)]
    works = [dist.isend(tensor, r) for r in range(n) if r != rank]
    for r in range(n):
        if r != rank:
            dist.recv(parts[r], r)
    [w.wait() for w in works]
    return parts
wrong(gather_without_its_own, "its own place stays zero", "own tensor, place, zeros")


def gather_only_the_others(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    others, parts = [r for r in range(n) if r != rank], []
    works = [dist.isend(tensor, r) for r in others]
    for r in others:
        parts.append(torch.empty_like(tensor))
        dist.recv(parts[-1], r)
    [w.wait() for w in works]
    return parts
wrong(gather_only_the_others, "one element too few: itself is missing", "length, own tensor missing")


def gather_everybody_sends_first(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [tensor.clone() for _ in range(n)]
    for r in range(n):
        if r != rank:
            dist.send(tensor, r)
    for r in range(n):
        if r != rank:
            dist.recv(parts[r], r)
    return parts
wrong(gather_everybody_sends_first, "all send first: deadlock", "all in send, nobody receives")


def gather_appends_one_buffer(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    buffer, parts = torch.empty_like(tensor), []
    works = [dist.isend(tensor, r) for r in range(n) if r != rank]
    for r in range(n):
        if r == rank:
            parts.append(tensor.clone())
        else:
            dist.recv(buffer, r)
            parts.append(buffer)
    [w.wait() for w in works]
    return parts
wrong(gather_appends_one_buffer, "the same receive buffer is appended again and again", "same buffer, clone")


def gather_isends_unwaited(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    for r in range(n):
        if r != rank:
            dist.isend(tensor, r)
    parts = [tensor.clone() for _ in range(n)]
    for r in range(n):
        if r != rank:
            dist.recv(parts[r], r)
    return parts
wrong(gather_isends_unwaited, "nobody waits for the isends", "wait, isend")


def gather_irecvs_unwaited(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [tensor.clone() for _ in range(n)]
    for r in range(n):
        if r != rank:
            dist.irecv(parts[r], r)
    for r in range(n):
        if r != rank:
            dist.send(tensor, r)
    return parts
wrong(gather_irecvs_unwaited, "nobody waits for the irecvs", "wait, irecv")


def gather_rooms_of_float32(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [torch.zeros(tensor.shape) for _ in range(n)]
    works = [dist.isend(tensor, r) for r in range(n) if r != rank]
    for r in range(n):
        if r != rank:
            dist.recv(parts[r], r)
    parts[rank] = tensor.clone()
    [w.wait() for w in works]
    return parts
wrong(gather_rooms_of_float32, "rooms are float32 whatever comes", "dtype")


def gather_passes_the_callers_tensor_round(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [None] * n
    for step in range(n):
        parts[(rank - step) % n] = tensor.clone()
        if n > 1:
            copy = tensor.clone()
            w = dist.isend(copy, (rank + 1) % n)
            dist.recv(tensor, (rank - 1) % n)
            if step == n - 2:
                tensor += 0
            w.wait()
        if step == n - 2:
            parts[(rank - n + 1) % n] = tensor.clone()
            break
    return parts
wrong(gather_passes_the_callers_tensor_round, "receives into the caller's tensor, which is another one afterwards", "leave tensor as it was, changed")


def gather_then_sends_only_the_last_part(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [tensor.clone() for _ in range(n)]
    if rank == 0:
        for r in range(1, n):
            dist.recv(parts[r], r)
            dist.send(parts[r], r)
    else:
        dist.send(tensor, 0)
        dist.recv(parts[rank], 0)
    return parts
wrong(gather_then_sends_only_the_last_part, "rank 0 sends each rank its own part back, not the list", "the list, other ranks, scatter")


def gather_two_ranks(tensor):
    if dist.get_world_size() == 1:
        return [tensor.clone()]
    rank, got = dist.get_rank(), torch.empty_like(tensor)
    w = dist.isend(tensor, 1 - rank)
    dist.recv(got, 1 - rank)
    w.wait()
    return [tensor.clone(), got] if rank == 0 else [got, tensor.clone()]
wrong(gather_two_ranks, "works on two ranks only", "world size")


def gather_forgets_the_last_rank(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    parts = [tensor.clone() for _ in range(n)]
    for sender in range(n - 1):
        if sender == rank:
            [dist.send(tensor, r) for r in range(n) if r != rank]
        else:
            dist.recv(parts[sender], sender)
    return parts
wrong(gather_forgets_the_last_rank, "the last rank's turn never comes", "last rank, range")


def gather_returns_the_sum(tensor):
    rank, n = dist.get_rank(), dist.get_world_size()
    total, works = tensor.clone(), [dist.isend(tensor, r) for r in range(n) if r != rank]
    for r in range(n):
        if r != rank:
            part = torch.empty_like(tensor)
            dist.recv(part, r)
            total += part
    [w.wait() for w in works]
    return total
wrong(gather_returns_the_sum, "adds up instead of collecting", "list, sum")
