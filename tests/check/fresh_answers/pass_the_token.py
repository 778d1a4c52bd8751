import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def token_plain_in_place(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.recv(token, rank - 1)
    token += 1
    if n > 1:
        dist.send(token, (rank + 1) % n)
        if rank == 0:
            dist.recv(token, n - 1)
    return token
right(token_plain_in_place, "in place, as short as it gets")


def token_new_tensors(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    if rank == 0:
        dist.send(token + 1, 1)
        back = torch.empty_like(token)
        dist.recv(back, n - 1)
        return back
    got = torch.empty_like(token)
    dist.recv(got, rank - 1)
    mine = got + 1
    dist.send(mine, 0 if rank == n - 1 else rank + 1)
    return mine
right(token_new_tensors, "never changes what it was given")


def token_loop_over_turns(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    for turn in range(n):
        after = (turn + 1) % n
        if rank == turn:
            token += 1
            if n > 1:
                dist.send(token, after)
        elif rank == after:
            dist.recv(token, turn)
    return token
right(token_loop_over_turns, "everybody walks through all turns")


def token_rank_0_listens_early(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token.add_(1)
    if rank == 0:
        back = torch.empty_like(token)
        handle = dist.irecv(back, n - 1)
        dist.send(token + 1, 1)
        handle.wait()
        return back
    dist.recv(token, rank - 1)
    dist.send(token.add_(1), (rank + 1) % n)
    return token
right(token_rank_0_listens_early, "irecv before the round begins")


def token_isend_and_wait(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank:
        dist.irecv(token, rank - 1).wait()
    token.add_(1)
    if n > 1:
        dist.isend(token, (rank + 1) % n).wait()
    if n > 1 and not rank:
        dist.irecv(token, n - 1).wait()
    return token
right(token_isend_and_wait, "only isend and irecv, each waited for at once")


def token_from_anyone(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    if rank != 0:
        dist.recv(token)
    token += 1
    dist.send(token, (rank + 1) % n)
    if rank == 0:
        dist.recv(token)
    return token
right(token_from_anyone, "recv without src: only the one before ever sends to me")


def take(token, src):
    room = torch.zeros_like(token)
    dist.recv(room, src)
    return room


def token_with_helper_and_negative_rank(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    before, after = (rank - 1) % n, (rank + 1) % n
    mine = (token if rank == 0 else take(token, before)) + 1
    if after != rank:
        dist.send(mine, after)
    return take(token, before) if rank == 0 and n > 1 else mine
right(token_with_helper_and_negative_rank, "a helper function, neighbors by modulo")


def token_tags_are_the_sender(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n > 1:
        if rank > 0:
            dist.recv(token, rank - 1, tag=rank - 1)
        token += 1
        dist.send(token, (rank + 1) % n, tag=rank)
        if rank == 0:
            dist.recv(token, n - 1, tag=n - 1)
        return token
    token += 1
    return token
right(token_tags_are_the_sender, "with tags")


def token_alone_sends_to_itself(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.recv(token, rank - 1)
    token += 1
    dist.send(token, (rank + 1) % n)
    if rank == 0:
        dist.recv(token, n - 1)
    return token
wrong(token_alone_sends_to_itself, "one rank sends to itself", "one rank, nobody to send to, itself")


def token_never_comes_home(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.recv(token, rank - 1)
    token += 1
    if rank + 1 < n:
        dist.send(token, rank + 1)
    return token
wrong(token_never_comes_home, "the last rank does not send, rank 0 ends with its own 1", "last rank, send to rank 0, came back")


def token_last_sends_but_rank_0_is_gone(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.recv(token, rank - 1)
    token += 1
    if n > 1:
        dist.send(token, (rank + 1) % n)
    return token
wrong(token_last_sends_but_rank_0_is_gone, "rank 0 never receives the token: the last waits", "rank 0, receive, last rank waits in send")


def token_rank_0_adds_twice(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    if rank == 0:
        dist.send(token + 1, 1)
        dist.recv(token, n - 1)
        return token + 1
    dist.recv(token, rank - 1)
    token += 1
    dist.send(token, (rank + 1) % n)
    return token
wrong(token_rank_0_adds_twice, "rank 0 adds 1 once more when it is back", "one too many, rank 0 adds once")


def token_rank_0_does_not_add(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    if rank == 0:
        dist.send(token, 1)
        dist.recv(token, n - 1)
        return token
    dist.recv(token, rank - 1)
    token += 1
    dist.send(token, (rank + 1) % n)
    return token
wrong(token_rank_0_does_not_add, "rank 0 passes the token on without adding", "one too few, rank 0 adds 1")


def token_returned_as_received(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    if rank == 0:
        dist.send(token + 1, 1)
        dist.recv(token, n - 1)
    else:
        dist.recv(token, rank - 1)
        dist.send(token + 1, (rank + 1) % n)
    return token
wrong(token_returned_as_received, "ranks other than 0 return what they received, not what they sent", "as they sent it on, one too few")


def token_everybody_sends_first(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    dist.send(token + 1, (rank + 1) % n)
    dist.recv(token, (rank - 1) % n)
    return token
wrong(token_everybody_sends_first, "all send first: deadlock", "all send, nobody receives")


def token_everybody_receives_first(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    dist.recv(token, (rank - 1) % n)
    token += 1
    dist.send(token, (rank + 1) % n)
    return token
wrong(token_everybody_receives_first, "also rank 0 receives first: nobody begins", "rank 0 begins, all receive")


def token_without_modulo(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    if rank > 0:
        dist.recv(token, rank - 1)
    token += 1
    dist.send(token, rank + 1)
    if rank == 0:
        dist.recv(token, n - 1)
    return token
wrong(token_without_modulo, "the last rank sends to a rank that does not exist", "last rank, rank 0, modulo")


def token_for_two_ranks(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    if rank == 0:
        dist.send(token + 1, 1)
        dist.recv(token, 1)
        return token
    dist.recv(token, 0)
    token += 1
    dist.send(token, 0)
    return token
wrong(token_for_two_ranks, "works on two ranks only", "world size, neighbor, rank before")


def token_hard_coded_four(token):
    rank = dist.get_rank()
    if rank > 0:
        dist.recv(token, rank - 1)
    token += 1
    dist.send(token, (rank + 1) % 4)
    if rank == 0:
        dist.recv(token, 3)
    return token
wrong(token_hard_coded_four, "world size 4 written down", "get_world_size")


def token_by_broadcast_and_arithmetic(token):
    dist.broadcast(token, src=0)
    return token + (dist.get_world_size() if dist.get_rank() == 0 else dist.get_rank() + 1)
wrong(token_by_broadcast_and_arithmetic, "computes the answer, no message goes round", "send one message, collective")


def token_only_computed(token):
    return token + (dist.get_rank() or dist.get_world_size())
wrong(token_only_computed, "no message at all, and the token of other ranks is only room", "receive, send, room")


def token_in_a_float_room(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    room = torch.zeros(1)
    if rank == 0:
        dist.send(token + 1, 1)
        dist.recv(room, n - 1)
        return room
    dist.recv(room, rank - 1)
    room += 1
    dist.send(room, (rank + 1) % n)
    return room
wrong(token_in_a_float_room, "receives whole numbers into a float32", "dtype, type of the buffer")


def token_counts_while_it_travels(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    if rank > 0:
        dist.recv(token, rank - 1)
    handle = dist.isend(token, (rank + 1) % n)
    token += 1
    handle.wait()
    if rank == 0:
        dist.recv(token, n - 1)
    return token
wrong(token_counts_while_it_travels, "adds 1 between isend and wait", "before wait, changed, add before sending")


def token_the_other_way_round(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    if rank > 0:
        dist.recv(token, (rank + 1) % n)
    token += 1
    dist.send(token, (rank - 1) % n)
    if rank == 0:
        dist.recv(token, 1)
    return token
wrong(token_the_other_way_round, "goes round backwards: 0, 3, 2, 1", "next rank, direction, sends to the rank before")


def token_two_rounds(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    for _ in range(2):
        if rank > 0:
            dist.recv(token, rank - 1)
        token += 1
        dist.send(token, (rank + 1) % n)
        if rank == 0:
            dist.recv(token, n - 1)
    return token
wrong(token_two_rounds, "goes round twice", "once, one message each")


def token_alone_unchanged(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token
    if rank > 0:
        dist.recv(token, rank - 1)
    token += 1
    dist.send(token, (rank + 1) % n)
    if rank == 0:
        dist.recv(token, n - 1)
    return token
wrong(token_alone_unchanged, "with one rank nothing is added", "one rank, add 1")


def token_not_waited_for(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    if rank > 0:
        dist.recv(token, rank - 1)
    token += 1
    dist.send(token, (rank + 1) % n)
    if rank == 0:
        dist.irecv(token, n - 1)
        time.sleep(0.05)
    return token
wrong(token_not_waited_for, "rank 0 sleeps instead of waiting for its irecv", "wait, irecv")


def token_returned_by_rank_0_only(token):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return token + 1
    if rank == 0:
        dist.send(token + 1, 1)
        dist.recv(token, n - 1)
        return token
    dist.recv(token, rank - 1)
    dist.send(token + 1, (rank + 1) % n)
wrong(token_returned_by_rank_0_only, "the others return nothing", "None, others return the token as sent")
