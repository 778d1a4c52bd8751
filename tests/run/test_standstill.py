"""Ranks that can never move again are seen at once and told why; ranks that are slow are left alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from ddp_lessons import Workers, WorkersStuck, launch

ONE = torch.ones(1)
Function = Callable[[int, int], Any]


def stuck(function: Function, world_size: int = 2, **options: Any) -> str:
    """What is said."""
    with pytest.raises(WorkersStuck) as error:
        launch(function, world_size, **options)
    return str(error.value)


def one_never_came(rank: int, world_size: int) -> None:
    if rank != 2:
        dist.barrier()


def both_send(rank: int, world_size: int) -> None:
    dist.send(ONE, 1 - rank)


def test_it_is_seen_among_kept_ranks_whose_calls_before_went_well() -> None:
    def meet(rank: int, world_size: int) -> None:
        for _ in range(300):  # more than are looked at
            dist.all_reduce(ONE)
        dist.send(ONE, 1) if rank == 0 else dist.recv(ONE, 0)

    with Workers(2) as workers:
        workers.run(meet)
        workers.run(meet)
        with pytest.raises(
            WorkersStuck, match=r"deadlock, no rank can make progress(.|\n)*each wait for the other to receive"
        ):
            workers.run(both_send)


# --- what can still move is no standstill -----------------------------------------------------------------------------


def holds_the_lock(rank: int, world_size: int) -> None:
    if rank == 0:
        sum(range(60_000_000))
    dist.barrier()


def moves_much(rank: int, world_size: int) -> None:
    for _ in range(6):
        dist.all_reduce(torch.ones(20_000_000))


def send_late() -> None:
    time.sleep(1)
    dist.send(ONE, 1)


def waits_for_a_thread(rank: int, world_size: int) -> None:
    """The main thread waits for a message that another thread of its peer will send."""
    if rank == 0:
        threading.Thread(target=send_late).start()
        dist.recv(ONE, 1)
    else:
        dist.recv(ONE, 0)
        dist.send(ONE, 0)


@pytest.mark.no_second_try
@pytest.mark.parametrize("function", [holds_the_lock, moves_much, waits_for_a_thread])
def test_what_can_still_move_is_left_alone(function: Function) -> None:
    launch(function, 2)


# --- what the learner does besides: then only the time limit decides --------------------------------------------------


def test_what_may_still_help_is_given_until_the_time_limit_and_the_hang_is_explained() -> None:
    def in_a_thread(rank: int, world_size: int) -> None:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        one_never_came(rank, world_size)

    message = stuck(in_a_thread, 3, timeout_seconds=3)
    assert message.startswith("timeout, ranks 0 and 1 of 3 did not return within 3 seconds\n")
    assert "Rank 2 returned, possibly without calling it." in message


def with_a_dataloader(rank: int, world_size: int) -> None:
    loader = DataLoader(TensorDataset(torch.ones(8)), num_workers=1, persistent_workers=True)
    next(iter(loader))
    one_never_came(rank, world_size)


def with_an_idle_pool(rank: int, world_size: int) -> None:
    pool = ThreadPoolExecutor(2)
    pool.submit(torch.ones, 3).result()
    one_never_came(rank, world_size)


@pytest.mark.parametrize("function", [with_a_dataloader, with_an_idle_pool])
def test_what_cannot_help_holds_no_verdict_back(function: Function) -> None:
    assert stuck(function, 3, timeout_seconds=20).startswith("hang, no rank can make progress\n")
