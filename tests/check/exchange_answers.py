"""Answers to the exercise `exchange`: right ones, and wrong ones with words of the sentence that names the mistake.

Without pytest, since the ranks import this file.
"""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


def the_other() -> int:
    return 1 - int(dist.get_rank())


# right


def rank_0_sends_first(tensor: Tensor) -> Tensor:
    received = torch.zeros_like(tensor)
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
        dist.recv(received, 1)
    else:
        dist.recv(received, 0)
        dist.send(tensor, 0)
    return received


def rank_1_sends_first_in_place(tensor: Tensor) -> None:
    mine = tensor.clone()
    if dist.get_rank() == 1:
        dist.send(mine, 0)
        dist.recv(tensor, 0)
    else:
        dist.recv(tensor, 1)
        dist.send(mine, 1)


def isend_then_recv(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    request = dist.isend(tensor, the_other())
    dist.recv(received, the_other())
    request.wait()
    return received


def irecv_then_send(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    request = dist.irecv(received, the_other())
    dist.send(tensor, the_other())
    request.wait()
    return received


def batched(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    operations = [dist.P2POp(dist.isend, tensor, the_other()), dist.P2POp(dist.irecv, received, the_other())]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    return received


def send_in_a_thread(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    thread = threading.Thread(target=dist.send, args=(tensor, the_other()))
    thread.start()
    dist.recv(received)
    thread.join()
    return received


def with_a_barrier_and_row_by_row(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    for row, room in zip(tensor.split(100_000), received.split(100_000), strict=True):
        request = dist.irecv(room, the_other())
        dist.send(row, the_other())
        request.wait()
    dist.barrier()
    return received


def in_place_and_returned_with_a_tag(tensor: Tensor) -> Tensor:
    mine = tensor.clone()
    request = dist.isend(mine, dst=the_other(), tag=7)
    dist.recv(tensor, src=the_other(), tag=7)
    request.wait()
    return tensor


class Exchanger:
    """An object that can be called, and a method."""

    def __call__(self, tensor: Tensor) -> Tensor:
        return irecv_then_send(tensor)

    def method(self, tensor: Tensor) -> Tensor:
        return isend_then_recv(tensor)


RIGHT = [
    rank_0_sends_first,
    rank_1_sends_first_in_place,
    isend_then_recv,
    irecv_then_send,
    batched,
    send_in_a_thread,
    with_a_barrier_and_row_by_row,
    in_place_and_returned_with_a_tag,
    Exchanger(),
    Exchanger().method,
]


# of learners who have read only the lesson


def world_minus_rank(tensor: Tensor) -> Tensor:
    other = dist.get_world_size() - 1 - dist.get_rank()
    buffer = tensor.detach().clone()
    work = dist.isend(buffer, dst=other)
    dist.recv(tensor, src=other)
    work.wait()
    return tensor


def both_in_the_background(tensor: Tensor) -> Tensor:
    received = torch.zeros_like(tensor)
    works = [dist.irecv(received, src=the_other()), dist.isend(tensor, dst=the_other())]
    [work.wait() for work in works]
    return received


def in_place_by_a_batch(tensor: Tensor) -> None:
    mine = tensor.clone()
    both = [dist.P2POp(dist.irecv, tensor, the_other()), dist.P2POp(dist.isend, mine, the_other())]
    for work in dist.batch_isend_irecv(both):
        work.wait()


RIGHT += [world_minus_rank, both_in_the_background, in_place_by_a_batch]


# wrong


def both_receive_into_what_they_send(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
        dist.recv(tensor, 1)
    else:
        dist.recv(tensor, 0)
        dist.send(tensor, 0)
    return tensor


def returns_its_own(tensor: Tensor) -> Tensor:
    irecv_then_send(tensor)
    return tensor


def says_nothing(tensor: Tensor) -> Tensor:
    return tensor


def gathers(tensor: Tensor) -> Tensor:
    gathered = [torch.empty_like(tensor) for _ in range(2)]
    dist.all_gather(gathered, tensor)
    return gathered[the_other()]


def broadcasts_in_turn(tensor: Tensor) -> Tensor:
    buffers = [tensor.clone(), tensor.clone()]
    dist.broadcast(buffers[0], 0)
    dist.broadcast(buffers[1], 1)
    return buffers[the_other()]


def subtracts_from_the_sum(tensor: Tensor) -> Tensor:
    total = tensor.clone()
    dist.all_reduce(total)
    return total - tensor


def only_floats(tensor: Tensor) -> Tensor:
    received = torch.zeros(tensor.shape)
    request = dist.irecv(received, the_other())
    dist.send(tensor, the_other())
    request.wait()
    return received


def casts_to_float(tensor: Tensor) -> Tensor:
    return isend_then_recv(tensor.float()).to(tensor.dtype)


def only_120_elements(tensor: Tensor) -> Tensor:
    received = torch.zeros(120, dtype=tensor.dtype)
    request = dist.irecv(received, the_other())
    dist.send(tensor, the_other())
    request.wait()
    return received


def flattens(tensor: Tensor) -> Tensor:
    return irecv_then_send(tensor.flatten())


def only_small_ones(tensor: Tensor) -> Tensor:
    received = torch.zeros_like(tensor)
    few = received.flatten()[:1000]
    request = dist.irecv(few, the_other())
    dist.send(tensor.flatten()[:1000], the_other())
    request.wait()
    received.view(-1)[:1000] = few
    return received


def returns_a_float32(tensor: Tensor) -> Tensor:
    return irecv_then_send(tensor).float()


def isend_without_wait(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    if dist.get_rank() == 0:
        dist.isend(tensor, 1)
        dist.recv(received, 1)
    else:
        dist.recv(received, 0)
        dist.send(tensor, 0)
    return received


def irecv_without_wait(tensor: Tensor) -> Tensor:
    received = torch.zeros_like(tensor)
    dist.irecv(received, the_other())
    dist.send(tensor, the_other())
    return received


def leaves_a_message_behind(tensor: Tensor) -> Tensor:
    dist.isend(torch.zeros(1), the_other(), tag=99)
    return irecv_then_send(tensor)


def sends_twice(tensor: Tensor) -> Tensor:
    irecv_then_send(tensor)
    return irecv_then_send(tensor)


def returns_nothing(tensor: Tensor) -> None:
    irecv_then_send(tensor)


def only_rank_0_returns(tensor: Tensor) -> Tensor | None:
    received = irecv_then_send(tensor)
    return received if dist.get_rank() == 0 else None


def returns_both(tensor: Tensor) -> list[Tensor]:
    return [tensor, irecv_then_send(tensor)]


def returns_the_request(tensor: Tensor) -> object:
    request = dist.isend(tensor, the_other())
    dist.recv(torch.empty_like(tensor), the_other())
    request.wait()
    return request


def through_a_file(tensor: Tensor) -> Tensor:
    name = f"/tmp/exchange-{os.environ['MASTER_PORT']}-{dist.get_rank()}"
    torch.save(tensor, name + ".unfinished")
    os.rename(name + ".unfinished", name)
    dist.barrier()
    received: Tensor = torch.load(f"/tmp/exchange-{os.environ['MASTER_PORT']}-{the_other()}")
    dist.barrier()
    os.unlink(name)
    return received


def through_the_store(tensor: Tensor) -> Tensor:
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    store.set(f"from {dist.get_rank()}", tensor.numpy().tobytes())
    dist.barrier()
    return torch.frombuffer(bytearray(store.get(f"from {the_other()}")), dtype=tensor.dtype).view(tensor.shape)


def raises(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 1:
        raise ValueError("no idea")
    return irecv_then_send(tensor)


def dies(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 1:
        os._exit(3)
    return irecv_then_send(tensor)


def sends_to_itself(tensor: Tensor) -> Tensor:
    dist.send(tensor, dist.get_rank())
    return tensor


class RightTheFirstTime:
    """It keeps its buffer from call to call."""

    def __init__(self) -> None:
        self.received: Tensor | None = None

    def __call__(self, tensor: Tensor) -> Tensor:
        if self.received is None:
            self.received = irecv_then_send(tensor)
        else:
            irecv_then_send(tensor)
        return self.received


def in_the_same_buffer_at_the_same_time(tensor: Tensor) -> Tensor:
    request = dist.isend(tensor, the_other())
    dist.recv(tensor, the_other())
    request.wait()
    return tensor


def changes_it_before_it_has_left(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    request = dist.isend(tensor, the_other())
    tensor.zero_()
    dist.recv(received, the_other())
    request.wait()
    return received


def now_and_then_zeros(tensor: Tensor) -> Tensor:
    received = irecv_then_send(tensor)
    return received * (random.Random(int(tensor.flatten()[0])).random() < 0.7)


WRONG = [
    (both_receive_into_what_they_send, "gets its own tensor back. Use a second buffer"),
    (returns_its_own, "ends with its own tensor. Return the received tensor"),
    (says_nothing, "No rank sends or receives anything"),
    (gathers, "calls the collective all_gather"),
    (broadcasts_in_turn, "calls the collective broadcast"),
    (subtracts_from_the_sum, "calls the collective all_reduce"),
    (only_floats, "but fails for integers (int64): mismatched send and recv: the tensors differ in size or dtype"),
    (casts_to_float, "but fails for integers (int64)"),
    (only_120_elements, "but fails for"),
    (flattens, "but fails for a two-dimensional tensor: it returns a tensor of shape [28]. Return one of shape [4, 7]"),
    (only_small_ones, "but fails for a large tensor"),
    (returns_a_float32, "It works for a tensor of shape [120], float32, but fails for integers (int64)"),
    (leaves_a_message_behind, "never waits for its isend"),
    (sends_twice, "Too much is communicated: rank 0 sends more than its tensor. Send the tensor once"),
    (returns_nothing, "returns None and does not change its tensor"),
    (only_rank_0_returns, "Only rank 0 has the answer"),
    (returns_both, "It returns a list of length 2. Return a tensor"),
    (returns_the_request, "returns an object of type"),
    (through_a_file, "too little is communicated"),
    (through_the_store, "too little is communicated"),
    (raises, "Rank 1 of 2 raised ValueError: no idea"),
    (dies, "A rank exited before it returned an answer. Return the answer, and do not call"),
    (sends_to_itself, "sends to itself"),
    (RightTheFirstTime(), "The first call is right, but the next one is not"),
    (in_the_same_buffer_at_the_same_time, "gets its own tensor back. Use a second buffer"),
    (changes_it_before_it_has_left, "It changes the tensor of isend before wait()"),
    (now_and_then_zeros, "zeros"),
]


def one_way(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
        return tensor
    received = torch.zeros_like(tensor)
    dist.recv(received, 0)
    return received


def isends_to_itself(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    request = dist.isend(tensor, 1)
    dist.recv(received, 0)
    request.wait()
    return received


WRONG += [
    (one_way, "Rank 0 receives nothing"),
    (isends_to_itself, "the other rank is 1 - rank"),
]


def changes_what_is_on_its_way(tensor: Tensor) -> Tensor:
    other, received = 1 - dist.get_rank(), torch.empty_like(tensor)
    request = dist.isend(tensor, other)
    dist.recv(received, other)
    tensor.zero_()
    request.wait()
    return received


def receives_into_more_than_is_sent(tensor: Tensor) -> Tensor:
    other, received = 1 - dist.get_rank(), torch.zeros(tensor.numel() + 1, dtype=tensor.dtype)
    request = dist.isend(tensor, other)
    dist.recv(received, other)
    request.wait()
    return received[:-1].view(tensor.shape)


WRONG += [
    (changes_what_is_on_its_way, "It changes the tensor of isend before wait()"),
    (receives_into_more_than_is_sent, "Shape mismatch between send and recv: rank 0 sends [120] float32"),
]


def takes_what_recv_returns(tensor: Tensor) -> Any:
    request = dist.isend(tensor, the_other())
    received = dist.recv(torch.empty_like(tensor), the_other())
    request.wait()
    return received


def waits_for_the_second_only(tensor: Tensor) -> Tensor:
    received = torch.zeros_like(tensor)
    request = dist.irecv(received, the_other())
    request = dist.isend(tensor, the_other())
    request.wait()
    return received


def adds_them_up(tensor: Tensor) -> Tensor:
    return tensor + irecv_then_send(tensor)


def swaps_only_ones_name(tensor: Tensor) -> Tensor:
    received = irecv_then_send(tensor)
    tensor, received = received, tensor
    return received


def the_buffer_is_a_view(tensor: Tensor) -> Tensor:
    """What it receives into is what it sends."""
    received = tensor.view_as(tensor)
    request = dist.isend(tensor, the_other())
    dist.recv(received, the_other())
    request.wait()
    return received


def one_element_at_a_time(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    for place in range(tensor.numel()):
        request = dist.isend(tensor.flatten()[place].clone(), the_other())
        one = torch.empty((), dtype=tensor.dtype)
        dist.recv(one, the_other())
        request.wait()
        received.view(-1)[place] = one
    return received


WRONG += [
    (
        takes_what_recv_returns,
        "It returns the number 1, because recv returns the rank of the sender. Return the buffer",
    ),
    (waits_for_the_second_only, "never waits for its irecv"),
    (adds_them_up, "Rank 0 returns the sum of both tensors"),
    (swaps_only_ones_name, "Rank 0 ends with its own tensor. Return the received tensor"),
    (the_buffer_is_a_view, "gets its own tensor back. Use a second buffer"),
    (one_element_at_a_time, "It sends too many small messages. Send the whole tensor, or large parts of it"),
]


# hanging


def with_two_tags(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    request = dist.isend(tensor, the_other(), tag=1)
    dist.recv(received, the_other(), tag=2)
    request.wait()
    return received


def sleeps(tensor: Tensor) -> Tensor:
    time.sleep(1)
    return irecv_then_send(tensor)


def asks_again_and_again(tensor: Tensor) -> Tensor:
    while dist.get_rank() >= 0:
        pass
    return tensor


def both_send_first(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    dist.send(tensor, the_other())
    dist.recv(received, the_other())
    return received


def both_wait_for_their_isend_at_once(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    dist.isend(tensor, the_other()).wait()
    dist.irecv(received, the_other()).wait()
    return received


def both_receive_first(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    dist.recv(received, the_other())
    dist.send(tensor, the_other())
    return received


def rank_1_never_sends(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
        dist.recv(received, 1)
    else:
        dist.recv(received, 0)
    return received


def rank_1_never_receives(tensor: Tensor) -> Tensor:
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
    return tensor


def loops_for_ever(tensor: Tensor) -> Tensor:
    while True:
        time.sleep(0.001)


HANGING = [
    (irecv_without_wait, "never waits for its irecv"),
    (isend_without_wait, "never waits for its isend"),
    (both_send_first, "Deadlock: every rank calls send first, and send blocks until the other side receives"),
    (
        both_wait_for_their_isend_at_once,
        "Deadlock: wait() right after isend blocks until the message is received",
    ),
    (both_receive_first, "Deadlock: every rank calls recv first, so no rank can send"),
    (rank_1_never_sends, "waits in recv for a message from rank 1 that is never sent"),
    (rank_1_never_receives, "but rank 1 never receives the message. Add the matching recv"),
    (loops_for_ever, "does not return"),
    (with_two_tags, "The tags do not match: rank 0 sends with tag 1, but rank 1 receives with tag 2. Use the same tag"),
    (
        sleeps,
        "The trials together take longer than 3 seconds, which is the limit of this check. Wait in a blocking call "
        "instead of sleeping",
    ),
    (asks_again_and_again, "It does not return: rank 0 is at exchange_answers.py line"),
]


def rank_0_receives_twice(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    if dist.get_rank() == 0:
        dist.recv(received, 1)
        dist.recv(received, 1)
    else:
        dist.send(tensor, 0)
        dist.send(tensor, 0)
        dist.recv(received, 0)
    return received


HANGING += [(rank_0_receives_twice, "Rank 1 waits in recv for a message from rank 0 that is never sent")]


def waits_for_half_of_the_batch(tensor: Tensor) -> Tensor:
    received = torch.empty_like(tensor)
    batch = [dist.P2POp(dist.isend, tensor, the_other()), dist.P2POp(dist.irecv, received, the_other())]
    dist.batch_isend_irecv(batch)[0].wait()
    return received


def forgets_to_return(tensor: Tensor) -> None:
    sending = dist.isend(tensor, the_other())
    dist.recv(torch.empty_like(tensor), the_other())
    sending.wait()


WRONG += [
    (
        waits_for_half_of_the_batch,
        "It waits for only 1 of the 2 handles of batch_isend_irecv. Call wait() on each of them",
    ),
    (forgets_to_return, "Change the tensor in place, or return what was received"),
]
