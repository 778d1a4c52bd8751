"""A wait that was given a limit, and reached it, is told as the cause of all that fails after it."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly

from ddp_lessons import WorkerFailed, launch

SOON = timedelta(seconds=0.5)
LONGER_SECONDS = 1.5


def message_of(function: Any, world_size: int = 2, **options: Any) -> str:
    with pytest.raises(WorkerFailed) as failed:
        launch(function, world_size, quiet=True, **options)
    return str(failed.value)


def gives_up(rank: int) -> None:
    if rank == 0:
        work = dist.irecv(torch.zeros(1), 1)
        assert work is not None
        with pytest.raises(RuntimeError, match="Timed out"):
            work.wait(SOON)


@nightly
def test_a_connection_that_a_timeout_closed_is_told_with_the_wait_that_timed_out() -> None:
    def sleeps_afterwards(rank: int, world_size: int) -> None:
        gives_up(rank)
        if rank == 0:
            time.sleep(LONGER_SECONDS)
        dist.barrier()

    message = message_of(sleeps_afterwards)
    assert "rank 1 of 2 lost the connection" in message
    assert "The wait of rank 0 in irecv from rank 1 (test_timeouts.py line " in message
    assert "timed out after 0.5 seconds, so gloo closed the connections" in message
    assert "returned without" not in message


@nightly
def test_also_where_the_next_call_of_the_same_rank_fails() -> None:
    def goes_on(rank: int, world_size: int) -> None:
        gives_up(rank)
        if rank == 1:
            time.sleep(LONGER_SECONDS)
        dist.barrier()

    message = message_of(goes_on)
    assert "rank 0 of 2 raised" in message
    assert "The wait of rank 0 in irecv from rank 1 (test_timeouts.py line " in message


def all_reduce_in_a_group(rank: int) -> None:
    group: Any = dist.new_group(timeout=SOON)
    if rank != 1:
        dist.all_reduce(torch.ones(1), group=group)


def wait_for_an_all_reduce(rank: int) -> None:
    if rank != 1:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        assert work is not None
        work.wait(SOON)


def monitored_barrier(rank: int) -> None:
    if rank != 1:
        dist.monitored_barrier(timeout=SOON)


def receive(rank: int) -> None:
    group: Any = dist.new_group(timeout=SOON)
    if rank == 0:
        dist.recv(torch.ones(1), 1, group=group)


@pytest.mark.parametrize("call", by_day([all_reduce_in_a_group, wait_for_an_all_reduce, monitored_barrier, receive], 1))
def test_who_did_not_come_in_time_is_named(call: Any) -> None:
    def function(rank: int, world_size: int) -> None:
        call(rank)
        time.sleep(LONGER_SECONDS)

    message = message_of(function)
    assert "Timeout: rank 0 waited" in message
    assert "but rank 1 did not " in message
    assert "timeout" in message.partition("Next: ")[2]


def test_a_message_with_another_tag_is_the_cause_of_a_timeout() -> None:
    def function(rank: int, world_size: int) -> None:
        group: Any = dist.new_group(timeout=SOON)
        if rank == 0:
            dist.recv(torch.ones(1), 1, group=group, tag=1)
        else:
            dist.send(torch.ones(1), 0, group=group, tag=2)

    assert "Tag mismatch: rank 1 sends to rank 0 with tag 2" in message_of(function)


def test_who_did_not_join_in_time_is_named() -> None:
    def function(rank: int, world_size: int) -> None:
        if rank == 1:
            time.sleep(2 * LONGER_SECONDS)
        dist.init_process_group("gloo", rank=rank, world_size=world_size, timeout=SOON)

    message = message_of(function, join=False)
    assert "Timeout: rank 0 waited" in message
    assert "init_process_group, but rank 1 did not call it" in message
