"""Answers to the exercise `pass_the_token`: right ones, and wrong ones with words of their sentences."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


def places() -> tuple[int, int, int, int]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    return rank, world_size, (rank + 1) % world_size, (rank - 1) % world_size


# right


def in_place(token: Tensor) -> None:
    rank, world_size, after, before = places()
    if rank != 0:
        dist.recv(token, before)
    token += 1
    if world_size > 1:
        dist.send(token, after)
    if rank == 0 and world_size > 1:
        dist.recv(token, before)


def in_a_new_tensor(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if world_size == 1:
        return token + 1
    if rank == 0:
        dist.send(token + 1, after)
        back = torch.zeros(1, dtype=torch.int64)
        dist.recv(back, before)
        return back
    got = torch.zeros(1, dtype=torch.int64)
    dist.recv(got, before)
    got = got + 1
    dist.send(got, after)
    return got


def with_isend_and_recv_from_anyone(token: Tensor) -> Tensor:
    rank, world_size, after, _ = places()
    if world_size == 1:
        return token.add_(1)
    got = torch.empty_like(token)
    if rank == 0:
        request = dist.isend(token + 1, after)
        dist.recv(got)
        request.wait()
        return got
    dist.recv(got)
    got += 1
    dist.isend(got, dst=after).wait()
    return got


def as_a_number(token: Tensor) -> int:
    in_place(token)
    return int(token.item())


def with_irecv_posted_first(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if world_size == 1:
        return token + 1
    got = torch.empty_like(token)
    coming = dist.irecv(got, before)
    if rank == 0:
        dist.send(token + 1, after)
        coming.wait()
        return got
    coming.wait()
    sent = got + 1
    dist.send(sent, after)
    return sent


RIGHT = [in_place, in_a_new_tensor, with_isend_and_recv_from_anyone, as_a_number, with_irecv_posted_first]


# of learners who have read only the lesson


def with_if_and_else(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if world_size == 1:
        return token + 1
    if rank == 0:
        token.add_(1)
        dist.send(token, dst=after)
        dist.recv(token, src=before)
    else:
        dist.recv(token, src=before)
        token.add_(1)
        dist.send(token, dst=after)
    return token


def with_handles(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if world_size == 1:
        return token + 1
    mine = torch.zeros_like(token)
    if rank > 0:
        dist.irecv(mine, before).wait()
    else:
        mine.copy_(token)
    mine += 1
    work = dist.isend(mine.clone(), after)
    if rank == 0:
        dist.irecv(mine, before).wait()
    work.wait()
    return mine


def a_tensor_made_of_a_number(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    number = token.item()
    if rank > 0:
        dist.recv(token, before)
        number = token.item()
    number += 1
    if world_size > 1:
        dist.send(torch.tensor([number]), after)
    if rank == 0 and world_size > 1:
        dist.recv(token, before)
        number = token.item()
    return torch.tensor([number])


RIGHT += [with_if_and_else, with_handles, a_tensor_made_of_a_number]


# wrong


def backwards(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if rank != 0:
        dist.recv(token, after)
    token += 1
    if world_size > 1:
        dist.send(token, before)
        if rank == 0:
            dist.recv(token, after)
    return token


def rank_0_does_not_add(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if rank == 0:
        if world_size > 1:
            dist.send(token, after)
            dist.recv(token, before)
        return token
    dist.recv(token, before)
    token += 1
    dist.send(token, after)
    return token


def rank_0_adds_at_the_end(token: Tensor) -> Tensor:
    token = rank_0_does_not_add(token)
    return token + 1 if dist.get_rank() == 0 else token


def rank_0_adds_twice(token: Tensor) -> Tensor:
    in_place(token)
    return token + 1 if dist.get_rank() == 0 else token


def does_not_come_back(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if rank > 0:
        dist.recv(token, before)
    token += 1
    if rank < world_size - 1:
        dist.send(token, after)
    return token


def adds_after_sending(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if rank > 0:
        dist.recv(token, before)
        dist.send(token, after)
        return token + 1
    token = token + 1
    if world_size > 1:
        dist.send(token, after)
        dist.recv(token, before)
    return token


def returns_what_it_was_given(token: Tensor) -> Tensor:
    in_place(token.clone())
    return token


def calculates_it_from_a_broadcast(token: Tensor) -> Tensor:
    dist.broadcast(token, 0)
    added: int = dist.get_world_size() if dist.get_rank() == 0 else dist.get_rank() + 1
    return token + added


def rank_0_tells_everyone(token: Tensor) -> Tensor:
    rank, world_size, _, _ = places()
    if rank == 0:
        for other in range(1, world_size):
            dist.send(token + other + 1, other)
        return token + world_size
    dist.recv(token, 0)
    return token


def rank_0_sends_again_and_again(token: Tensor) -> Tensor:
    rank, world_size, _, _ = places()
    for other in range(1, world_size):
        if rank == 0:
            dist.send(token + other, other)
            dist.recv(token, other)
            token -= other
        elif rank == other:
            dist.recv(token, 0)
            token += 1
            dist.send(token, 0)
    return token + world_size if rank == 0 else token


def passes_it_twice(token: Tensor) -> Tensor:
    copy = token.clone()
    in_place(copy)
    in_place(token)
    return token


def only_two_ranks(token: Tensor) -> Tensor:
    rank, _, _, _ = places()
    if rank == 0:
        token += 1
        dist.send(token, 1)
        dist.recv(token, 1)
    elif rank == 1:
        dist.recv(token, 0)
        token += 1
        dist.send(token, 0)
    return token


def not_alone(token: Tensor) -> Tensor:
    rank, _, after, before = places()
    if rank > 0:
        dist.recv(token, before)
    token += 1
    dist.send(token, after)
    if rank == 0:
        dist.recv(token, before)
    return token


def as_float(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    token = token.float()
    if rank > 0:
        dist.recv(token, before)
    token += 1
    if world_size > 1:
        dist.send(token, after)
        if rank == 0:
            dist.recv(token, before)
    return token.long()


def float_buffer(token: Tensor) -> Tensor:
    rank, _, after, before = places()
    buffer = torch.zeros(1)
    if rank == 0:
        dist.send(token + 1, after)
        dist.recv(buffer, before)
    else:
        dist.recv(buffer, before)
        buffer += 1
        dist.send(buffer, after)
    return buffer


def only_rank_0_returns(token: Tensor) -> Tensor | None:
    copy = token.clone()
    in_place(copy)
    return copy if dist.get_rank() == 0 else None


def returns_nothing(token: Tensor) -> None:
    in_place(token.clone())


def through_the_store(token: Tensor) -> Tensor:
    store = dist.distributed_c10d._get_default_store()
    rank, world_size, _, _ = places()
    key = f"token {os.environ['MASTER_PORT']}"
    dist.barrier()
    if rank == 0:
        store.set(key, str(token.item()))
    dist.barrier()
    token.fill_(int(store.get(key)) + (world_size if rank == 0 else rank + 1))
    dist.barrier()
    return token


def last_does_not_wait(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if rank > 0:
        dist.recv(token, before)
    token += 1
    if world_size > 1:
        request = dist.isend(token, after)
        if rank == 0:
            received = torch.empty_like(token)
            dist.recv(received, before)
            request.wait()
            return received
        if rank < world_size - 1:
            request.wait()
        else:
            globals()["kept"] = request
    return token


def raises(token: Tensor) -> Tensor:
    raise IndexError("there is no ring")


WRONG = [
    (backwards, "sends the token to rank 2. Send it to the next rank, 1"),
    (rank_0_does_not_add, "Rank 0 sends the token without adding 1"),
    (rank_0_adds_at_the_end, "Rank 0 sends the token without adding 1"),
    (
        rank_0_adds_twice,
        "Rank 0 returns 1785, but the right token is 1784. On each rank, add 1 once, just before the send",
    ),
    (does_not_come_back, "Rank 0 returns the token that it sent"),
    (adds_after_sending, "Rank 1 sends the token on unchanged"),
    (
        returns_what_it_was_given,
        "Rank 0 returns its own initial value. Return the token that it received from the last rank",
    ),
    (calculates_it_from_a_broadcast, "calls the collective broadcast"),
    (rank_0_tells_everyone, "Rank 1 sends nothing"),
    (rank_0_sends_again_and_again, "Rank"),
    (passes_it_twice, "Rank 0 sends more than one message. Send the token only once, to rank 1"),
    (only_two_ranks, "It works with 2 ranks, but not with 3"),
    (
        not_alone,
        "It works with several ranks, but not with one rank: a rank sends to itself or receives from itself, "
        "which torch refuses. When world_size is 1, skip the communication",
    ),
    (as_float, "but fails for a token that a float would round"),
    (
        float_buffer,
        "Mismatched send and recv: the tensors differ in size or dtype. Receive into torch.empty_like(tensor), "
        "or into a part of it",
    ),
    (only_rank_0_returns, "Only rank 0 has the answer"),
    (returns_nothing, "returns None and does not change"),
    (through_the_store, "sends nothing, so the token stops there. On every rank, send the token to the next rank"),
    (last_does_not_wait, "never waits for its isend"),
    (raises, "Both ranks raised IndexError: there is no ring"),
]


def returns_what_came(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if world_size == 1:
        return token + 1
    if rank == 0:
        dist.send(token + 1, after)
        dist.recv(token, before)
    else:
        dist.recv(token, before)
        dist.send(token + 1, after)
    return token


WRONG += [(returns_what_came, "on, but returns")]


def adds_its_rank(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if rank > 0:
        dist.recv(token, before)
    token += rank
    if world_size > 1:
        dist.send(token, after)
        if rank == 0:
            dist.recv(token, before)
    return token


def rank_0_adds_again_when_it_is_back(token: Tensor) -> Tensor:
    in_place(token)
    if dist.get_rank() == 0:
        token += 1
    return token


def everybody_adds_to_its_own(token: Tensor) -> Tensor:
    """Each one sends its own token at once, and takes what comes."""
    _, world_size, after, before = places()
    if world_size == 1:
        return token + 1
    got = torch.empty_like(token)
    request = dist.isend(token + 1, after)
    dist.recv(got, before)
    request.wait()
    return got


def takes_what_recv_returns(token: Tensor) -> Any:
    rank, world_size, after, before = places()
    if world_size == 1:
        return token + 1
    if rank == 0:
        dist.send(token + 1, after)
        return dist.recv(token, before)
    dist.recv(token, before)
    token += 1
    dist.send(token, after)
    return token


def the_last_sends_nothing_back(token: Tensor) -> Tensor:
    """Rank 0 works out what it would have got."""
    rank, world_size, after, before = places()
    if rank > 0:
        dist.recv(token, before)
    token += 1
    if rank < world_size - 1:
        dist.send(token, after)
    return token + world_size - 1 if rank == 0 else token


def adds_to_a_copy(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if rank > 0:
        dist.recv(token, before)
    token + 1
    if world_size > 1:
        dist.send(token, after)
        if rank == 0:
            dist.recv(token, before)
    return token


WRONG += [
    (adds_its_rank, "Rank 0 sends the token without adding 1"),
    (
        rank_0_adds_again_when_it_is_back,
        "Rank 0 returns 1785, but the right token is 1784. On each rank, add 1 once, just before the send",
    ),
    (everybody_adds_to_its_own, "Rank 1 sends a wrong token"),
    (
        takes_what_recv_returns,
        "Rank 0 returns the number 1, because recv returns the rank of the sender. Return the buffer",
    ),
    (the_last_sends_nothing_back, "Rank 1 sends nothing, so the token stops there"),
    (adds_to_a_copy, "Rank 0 sends the token without adding 1"),
]


# hanging


def nobody_begins(token: Tensor) -> Tensor:
    _, _, after, before = places()
    dist.recv(token, before)
    token += 1
    dist.send(token, after)
    return token


def everybody_begins(token: Tensor) -> Tensor:
    _, _, after, before = places()
    token += 1
    dist.send(token, after)
    dist.recv(token, before)
    return token


def rank_0_waits_in_vain(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if rank > 0:
        dist.recv(token, before)
    token += 1
    if rank < world_size - 1:
        dist.send(token, after)
    if rank == 0 and world_size > 1:
        dist.recv(token, before)
    return token


def nobody_takes_the_last(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    if rank > 0:
        dist.recv(token, before)
    token += 1
    if world_size > 1:
        dist.send(token, after)
    return token


HANGING = [
    (nobody_begins, "Deadlock: every rank calls recv first, so no rank can send"),
    (everybody_begins, "Deadlock: every rank calls send first, and send blocks until the other side receives"),
    (rank_0_waits_in_vain, "waits in recv for a message from rank 1 that is never sent"),
    (
        nobody_takes_the_last,
        "Rank 1 waits in send, but rank 0 never receives the message. Add the matching recv",
    ),
]


def rank_0_waits_first(token: Tensor) -> Tensor:
    _, _, after, before = places()
    dist.recv(token, before)
    token += 1
    dist.send(token, after)
    return token


HANGING += [(rank_0_waits_first, "Deadlock: every rank calls recv first, so no rank can send")]


def goes_round_twice(token: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    for _ in range(2 if world_size > 1 else 0):
        if rank > 0:
            dist.recv(token, before)
        token += 1
        dist.send(token, after)
        if rank == 0:
            dist.recv(token, before)
    return token


def sends_a_new_tensor_and_returns_nothing(token: Tensor) -> Tensor | None:
    rank, world_size, after, before = places()
    if world_size == 1:
        return token + 1
    if rank == 0:
        dist.send(token + 1, after)
    dist.recv(token, before)
    if rank == 0:
        return token
    dist.send(token + 1, after)
    return None


WRONG += [
    (goes_round_twice, "Rank 0 sends 2 messages. Send the token once on each rank"),
    (
        sends_a_new_tensor_and_returns_nothing,
        "Rank 1 returns None, and its tensor holds 1783, the token that it received. Return the token that it "
        "sent on, 1784",
    ),
]
