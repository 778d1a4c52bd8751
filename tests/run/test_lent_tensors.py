"""What goes on in the background may be left alone where nothing is written, and its tensors may not be changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import WorkersStuck, launch

Function = Callable[[int, int], Any]
LARGE = 1 << 18  # elements: their way takes a moment


def root_of_a_broadcast(rank: int, world_size: int) -> list[float]:
    tensor = torch.full((3,), float(rank + 1))
    work = dist.broadcast(tensor, 0, async_op=True)
    if rank != 0 and work is not None:
        work.wait()
    dist.barrier()
    sent = tensor.tolist()
    tensor.zero_()  # which all have by now
    return sent


def told_that_its_message_has_come(rank: int, world_size: int) -> float:
    tensor, answer = torch.ones(1000), torch.zeros(1)
    if rank == 0:
        work = dist.isend(tensor, 1)
        dist.recv(answer, 1)
        tensor.zero_()
        assert work is not None
        work.wait()
        return 1000.0
    dist.recv(tensor, 0)
    dist.send(answer, 0)
    return tensor.sum().item()


def asked_until_it_was_complete(rank: int, world_size: int) -> float:
    tensor = torch.ones(1)
    work = dist.all_reduce(tensor, async_op=True)
    while work is not None and not work.is_completed():
        time.sleep(0.001)
    tensor /= world_size
    assert work is not None
    work.wait()
    return tensor.item()


def trained_with_uneven_batches(rank: int, world_size: int) -> int:
    """DDP's join starts collectives that nobody has to wait for."""
    model = DistributedDataParallel(nn.Linear(2, 2))
    with model.join():
        for _ in range(2 + rank):
            model(torch.ones(1, 2)).sum().backward()
    return rank


RIGHT: dict[Function, list[object]] = {
    root_of_a_broadcast: [[1.0] * 3, [1.0] * 3],
    told_that_its_message_has_come: [1000.0, 1000.0],
    asked_until_it_was_complete: [1.0, 1.0],
    trained_with_uneven_batches: [0, 1],
}


@pytest.mark.no_second_try
@pytest.mark.parametrize("function", RIGHT, ids=lambda function: function.__name__)
def test_nothing_is_said_where_nobody_can_be_harmed(function: Function) -> None:
    assert list(launch(function, 2, quiet=True)) == RIGHT[function]


def test_a_send_that_was_let_go_is_named_whatever_became_of_its_tensor() -> None:
    def change(rank: int, world_size: int) -> None:
        tensor = torch.ones(LARGE)
        store: Any = dist.distributed_c10d._get_default_store()
        if rank == 0:
            dist.isend(tensor, 1)  # nothing keeps its handle
            tensor.zero_()
            store.set("let go", "")
        else:
            store.wait(["let go"])
            dist.recv(tensor, 0)

    with pytest.raises(
        WorkersStuck, match=r"rank 0 dropped the Work handle of its isend \(.*\) before the send completed"
    ) as stuck:
        launch(change, 2, quiet=True)
    (isend,) = stuck.value.results.events.of(0)
    assert (isend.waited, isend.end, isend.remark) == (None, None, "let go")
