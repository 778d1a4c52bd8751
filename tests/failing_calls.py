"""Functions for ranks that stay after failures: each fails in its own way, and leaves something behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from catalog.programs import collectives, failing, groups, messages
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import WorkerFailed, Workers, WorkersStuck
from ddp_lessons.run.launcher.interrupts import HeldInterrupts


def import_what_ddp_needs(rank: int, world_size: int) -> None:
    DistributedDataParallel(torch.nn.Linear(1, 1))


def main_of_rank() -> dict[str, Any]:
    return vars(sys.modules["__main__"])


def keep(rank: int, world_size: int) -> None:
    main_of_rank()["kept"] = rank * 11


def kept(rank: int, world_size: int) -> int | None:
    return main_of_rank().get("kept")


def collective_and_messages(rank: int, world_size: int) -> tuple[float, float, list[int]]:
    """What everybody should get is in plain numbers below."""
    total, received, gathered = torch.full((3,), rank + 1.0), torch.zeros(2), [-1] * world_size
    dist.all_reduce(total)
    if rank == 0:
        dist.send(torch.full((2,), 5.0), 1)
    elif rank == 1:
        dist.recv(received, 0)
    dist.all_gather_object(gathered, rank)
    return total[2].item(), received[1].item(), gathered


def all_is_right(workers: Workers) -> bool:
    world = workers.world_size
    told = list(workers.run(collective_and_messages))
    total = world * (world + 1) / 2
    return told == [(total, 5.0 if rank == 1 else 0.0, list(range(world))) for rank in range(world)]


def leaves_messages(rank: int, world_size: int) -> None:
    if rank == 0:
        main_of_rank()["work"] = dist.isend(torch.full((2,), 666.0), 1)
    elif rank == 1:
        main_of_rank()["work"] = dist.irecv(torch.zeros(2), 2)
    raise ValueError("with messages under way")


def leaves_a_collective(rank: int, world_size: int) -> None:
    if rank != 1:
        main_of_rank()["work"] = dist.all_reduce(torch.full((3,), 666.0), async_op=True)
    raise ValueError("with a collective under way")


def waits_in_a_thread(rank: int, world_size: int) -> None:
    if rank == 0:
        waiting = threading.Thread(target=dist.recv, args=(torch.zeros(1), 1), daemon=True)
        waiting.start()
        waiting.join()


def fails_in_backward(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(torch.nn.Linear(3, 3))
    main_of_rank()["model"] = model
    if rank == 1:
        raise ValueError("before backward")
    model(torch.ones(1, 3)).sum().backward()


def computes_for_ever(rank: int, world_size: int) -> None:
    while True:
        pass


def sleeps(rank: int, world_size: int) -> None:
    time.sleep(1000)


def stopped_after(seconds: float, workers: Workers, function: Callable[..., object], *args: object) -> None:
    """Run it, and press the stop button after so many seconds."""

    def stop() -> None:
        while not isinstance(getattr(signal.getsignal(signal.SIGINT), "__self__", None), HeldInterrupts):
            time.sleep(0.0005)  # it is not under way yet: the button would stop the notebook alone
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=stop, daemon=True).start()
    workers.run(function, *args)


raises, exits = failing.raises, failing.calls_sys_exit
ABANDONED: dict[Callable[..., object], type[Exception] | tuple[type[Exception], ...]] = {
    raises: WorkerFailed,
    leaves_messages: WorkerFailed,
    leaves_a_collective: WorkerFailed,
    collectives.one_returned: WorkersStuck,
    exits: WorkerFailed,
    waits_in_a_thread: WorkersStuck,
    groups.group_made_by_some: WorkersStuck,
    fails_in_backward: WorkerFailed,
    computes_for_ever: WorkersStuck,
    sleeps: WorkersStuck,
}
_OR_STUCK = (WorkerFailed, WorkersStuck)  # whether gloo aborts or hangs depends on who comes first
MISMATCHED: dict[Callable[..., object], type[Exception] | tuple[type[Exception], ...]] = {
    collectives.different_shapes: _OR_STUCK,
    collectives.different_dtypes: WorkerFailed,
    collectives.different_collectives: _OR_STUCK,
    collectives.different_roots: _OR_STUCK,
    messages.smaller_buffer: WorkerFailed,
}
