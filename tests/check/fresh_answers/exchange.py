import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def exchange_rank_1_receives_first(tensor):
    other = 1 - dist.get_rank()
    received = torch.empty_like(tensor)
    if other == 1:
        dist.send(tensor, other)
        dist.recv(received, other)
    else:
        dist.recv(received, other)
        dist.send(tensor, other)
    return received
right(exchange_rank_1_receives_first, "cure 1, an order; asks about the other rank")


def exchange_isend_recv_wait(tensor):
    other, got = 1 - dist.get_rank(), torch.zeros_like(tensor)
    h = dist.isend(tensor, other)
    dist.recv(got, other)
    h.wait()
    return got
right(exchange_isend_recv_wait, "cure 2")


def exchange_irecv_first_then_blocking_send(tensor):
    got = tensor.clone()
    handle = dist.irecv(got, src=1 - dist.get_rank())
    dist.send(tensor, dst=1 - dist.get_rank())
    handle.wait()
    return got
right(exchange_irecv_first_then_blocking_send, "irecv, then a blocking send; the room is a clone")


def exchange_both_in_background(tensor):
    other = (dist.get_rank() + 1) % 2
    got = torch.empty_like(tensor)
    for work in [dist.irecv(got, other), dist.isend(tensor, other)]:
        work.wait()
    return got
right(exchange_both_in_background, "isend and irecv, a loop of waits")


def exchange_batch_in_one_expression(tensor):
    other, got = 1 - dist.get_rank(), torch.empty_like(tensor)
    [w.wait() for w in dist.batch_isend_irecv([dist.P2POp(dist.irecv, got, other), dist.P2POp(dist.isend, tensor, other)])]
    return got
right(exchange_batch_in_one_expression, "cure 3, receive named first, waits in a list comprehension")


def exchange_clone_travels_and_tensor_is_filled(tensor):
    other = 1 - dist.get_rank()
    handle = dist.isend(tensor.clone(), other)
    dist.recv(tensor, other)
    handle.wait()
    return tensor
# a copy travels, so nothing is touched between isend and wait (the temporary lives in the handle)


def exchange_kept_clone_travels_and_tensor_is_filled(tensor):
    other = 1 - dist.get_rank()
    copy = tensor.clone()
    handle = dist.isend(copy, other)
    dist.recv(tensor, other)
    handle.wait()
    return tensor
right(exchange_kept_clone_travels_and_tensor_is_filled, "sends a copy and receives into the given tensor (the text does not say to leave it)")


def exchange_with_a_tag_per_sender(tensor):
    me = dist.get_rank()
    other = 1 - me
    got = torch.empty_like(tensor)
    handle = dist.isend(tensor, other, tag=me)
    dist.recv(got, other, tag=other)
    handle.wait()
    return got
right(exchange_with_a_tag_per_sender, "tags: each message carries its sender's number")


def exchange_receive_from_anyone(tensor):
    got = torch.empty_like(tensor)
    handle = dist.isend(tensor, 1 - dist.get_rank())
    dist.recv(got)
    handle.wait()
    return got
right(exchange_receive_from_anyone, "recv without src: there is only one other")


def exchange_in_two_turns(tensor):
    rank, got = dist.get_rank(), torch.empty_like(tensor)
    for turn in (0, 1):
        if rank == turn:
            dist.send(tensor, 1 - rank)
        else:
            dist.recv(got, turn)
    return got
right(exchange_in_two_turns, "a loop over whose turn it is")


class Letter:
    def __init__(self, tensor):
        self.out, self.room = tensor.contiguous(), torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)

    def swap(self, other):
        jobs = [dist.irecv(self.room, other), dist.isend(self.out, other)]
        while jobs:
            jobs.pop().wait()
        return self.room


def exchange_by_a_class(tensor):
    return Letter(tensor).swap(1 - dist.get_rank())
right(exchange_by_a_class, "a class, room from shape and dtype, contiguous copy")


def exchange_both_send_first(tensor):
    other, got = 1 - dist.get_rank(), torch.empty_like(tensor)
    dist.send(tensor, other)
    dist.recv(got, other)
    return got
wrong(exchange_both_send_first, "both ranks send first: deadlock", "both send, nobody receives, order or isend")


def exchange_both_receive_first(tensor):
    other, got = 1 - dist.get_rank(), torch.empty_like(tensor)
    dist.recv(got, other)
    dist.send(tensor, other)
    return got
wrong(exchange_both_receive_first, "both ranks receive first: deadlock", "both recv, nobody sends")


def exchange_isend_waited_for_at_once(tensor):
    other, got = 1 - dist.get_rank(), torch.empty_like(tensor)
    dist.isend(tensor, other).wait()
    dist.recv(got, other)
    return got
wrong(exchange_isend_waited_for_at_once, "isend().wait() is a send: deadlock", "wait, isend, nobody receives")


def exchange_returns_what_it_sent(tensor):
    other, got = 1 - dist.get_rank(), torch.empty_like(tensor)
    h = dist.isend(tensor, other)
    dist.recv(got, other)
    h.wait()
    return tensor
wrong(exchange_returns_what_it_sent, "returns its own tensor", "own tensor returned, not the other's")


def exchange_irecv_not_waited_for(tensor):
    other, got = 1 - dist.get_rank(), torch.zeros_like(tensor)
    dist.irecv(got, other)
    dist.send(tensor, other)
    return got
wrong(exchange_irecv_not_waited_for, "the irecv is never waited for", "wait, irecv, handle")


def exchange_isend_not_waited_for(tensor):
    other, got = 1 - dist.get_rank(), torch.zeros_like(tensor)
    dist.isend(tensor, other)
    dist.recv(got, other)
    return got
wrong(exchange_isend_not_waited_for, "the isend is never waited for, against the text", "wait, isend, handle")


def exchange_forgets_to_return(tensor):
    other, got = 1 - dist.get_rank(), torch.zeros_like(tensor)
    h = dist.isend(tensor, other)
    dist.recv(got, other)
    h.wait()
wrong(exchange_forgets_to_return, "no return", "None, return")


def exchange_by_all_gather(tensor):
    room = [torch.empty_like(tensor) for _ in range(2)]
    dist.all_gather(room, tensor)
    return room[1 - dist.get_rank()]
wrong(exchange_by_all_gather, "a collective; the text says messages only", "all_gather, messages only")


def exchange_sum_minus_mine(tensor):
    total = tensor.clone()
    dist.all_reduce(total)
    return total - tensor
wrong(exchange_sum_minus_mine, "a collective, and rounding for floats", "all_reduce, messages only")


def exchange_room_always_float32(tensor):
    other, got = 1 - dist.get_rank(), torch.zeros(tensor.shape)
    h = dist.isend(tensor, other)
    dist.recv(got, other)
    h.wait()
    return got
wrong(exchange_room_always_float32, "the receive buffer is float32 whatever comes", "dtype, type of the buffer")


def exchange_room_for_four(tensor):
    other, got = 1 - dist.get_rank(), torch.zeros(4)
    h = dist.isend(tensor, other)
    dist.recv(got, other)
    h.wait()
    return got
wrong(exchange_room_for_four, "room for four floats, as in the lesson's example", "shape, size of the buffer")


def exchange_only_rank_0_sends(tensor):
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
        return tensor
    got = torch.empty_like(tensor)
    dist.recv(got, 0)
    return got
wrong(exchange_only_rank_0_sends, "one direction only", "rank 0 own tensor, rank 1 sends nothing")


def exchange_sends_to_itself(tensor):
    rank, got = dist.get_rank(), torch.empty_like(tensor)
    h = dist.isend(tensor, rank)
    dist.recv(got, rank)
    h.wait()
    return got
wrong(exchange_sends_to_itself, "takes its own rank for the other's", "itself, own rank, dst")


def exchange_sleeps_instead_of_waiting(tensor):
    other, got = 1 - dist.get_rank(), torch.empty_like(tensor)
    dist.isend(tensor, other)
    dist.irecv(got, other)
    time.sleep(0.1)
    return got
wrong(exchange_sleeps_instead_of_waiting, "hopes that a tenth of a second is enough", "wait, sleep")


def exchange_sends_twice_to_be_sure(tensor):
    other, got = 1 - dist.get_rank(), torch.empty_like(tensor)
    for _ in range(2):
        h = dist.isend(tensor, other)
        dist.recv(got, other)
        h.wait()
    return got
wrong(exchange_sends_twice_to_be_sure, "sends its tensor twice", "once, two messages")


def exchange_receives_into_the_tensor_under_way(tensor):
    other = 1 - dist.get_rank()
    h = dist.isend(tensor, other)
    dist.recv(tensor, other)
    h.wait()
    return tensor
wrong(exchange_receives_into_the_tensor_under_way, "overwrites the tensor between isend and wait", "changed before wait, same tensor, own buffer")


def exchange_tags_do_not_match(tensor):
    rank, got = dist.get_rank(), torch.empty_like(tensor)
    h = dist.isend(tensor, 1 - rank, tag=rank)
    dist.recv(got, 1 - rank, tag=rank)
    h.wait()
    return got
wrong(exchange_tags_do_not_match, "receives with its own tag, nobody sends that", "tag")


def exchange_waits_only_for_the_first_of_the_batch(tensor):
    other, got = 1 - dist.get_rank(), torch.empty_like(tensor)
    ops = [dist.P2POp(dist.isend, tensor, other), dist.P2POp(dist.irecv, got, other)]
    dist.batch_isend_irecv(ops)[0].wait()
    return got
wrong(exchange_waits_only_for_the_first_of_the_batch, "only one of two handles is waited for", "wait, every handle, irecv")


def exchange_returns_the_handles_result(tensor):
    other, got = 1 - dist.get_rank(), torch.empty_like(tensor)
    h = dist.isend(tensor, other)
    answer = dist.recv(got, other)
    h.wait()
    return answer
wrong(exchange_returns_the_handles_result, "takes what recv returns for the tensor", "recv returns the rank, buffer")
