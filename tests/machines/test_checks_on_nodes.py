"""`check.exchange(exchange, on=cluster)` and `same_as_one(train, on=cluster)` report what they report here."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from nights import nightly
from places import here
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import check, same_as_one
from ddp_lessons.machines import Machines
from ddp_lessons.run.nodes.hosts import NodeLost

pytestmark = nightly

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def nodes() -> Iterator[Machines]:
    with here(Machines(2)) as machines:
        yield machines


@pytest.fixture(autouse=True)
def progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_LESSONS_PROGRESS", "off")


def exchange(tensor: torch.Tensor) -> torch.Tensor:
    received = torch.empty_like(tensor)
    peer = 1 - dist.get_rank()
    calls = [dist.P2POp(dist.isend, tensor, peer), dist.P2POp(dist.irecv, received, peer)]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    return received


def both_send_first(tensor: torch.Tensor) -> torch.Tensor:
    received = torch.empty_like(tensor)
    dist.send(tensor, 1 - dist.get_rank())
    dist.recv(received, 1 - dist.get_rank())
    return received


def keeps_its_own(tensor: torch.Tensor) -> torch.Tensor:
    exchange(tensor)
    return tensor


def raises_on_rank_1(tensor: torch.Tensor) -> torch.Tensor:
    if dist.get_rank() == 1:
        raise ValueError("not this one")
    return exchange(tensor)


class WrapsTorchs(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = DistributedDataParallel(module)

    def forward(self, *inputs: Any) -> Any:
        return self.module(*inputs)


def average_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def sum_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)


@pytest.mark.parametrize(
    ("one_check", "written", "passes"),
    [
        (check.exchange, exchange, True),
        (check.exchange, both_send_first, False),
        (check.exchange, keeps_its_own, False),
        (check.exchange, raises_on_rank_1, False),
        (check.average_gradients, average_gradients, True),
        (check.average_gradients, sum_gradients, False),
        (check.my_ddp, WrapsTorchs, False),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_check_reports_there_what_it_reports_here(
    nodes: Machines, one_check: Any, written: Callable[..., object], passes: bool
) -> None:
    here, there = one_check(written), one_check(written, on=nodes)
    assert here.passed is passes
    assert here.text == there.text


def test_its_ranks_run_on_the_nodes(nodes: Machines, tmp_path: Path) -> None:
    def leaves_its_name(tensor: torch.Tensor) -> torch.Tensor:
        (tmp_path / f"rank {dist.get_rank()} of {dist.get_world_size()} on {socket.gethostname()}").touch()
        return exchange(tensor)

    assert check.exchange(leaves_its_name, on=nodes).passed
    assert {file.name for file in tmp_path.iterdir()} == {"rank 0 of 2 on machine0", "rank 1 of 2 on machine1"}


def test_a_check_that_needs_files_of_this_machine_says_so(nodes: Machines) -> None:
    with pytest.raises(ValueError, match=r"check.save_checkpoint runs on this machine only; leave out on="):
        check.save_checkpoint(exchange, on=nodes)


def test_a_lost_node_is_no_mistake_of_the_exercise(tmp_path: Path) -> None:
    def begins(tensor: torch.Tensor) -> torch.Tensor:
        (tmp_path / "begun").touch()
        time.sleep(60)
        return exchange(tensor)

    with here(Machines(2)) as machines:

        def power_off() -> None:
            while not (tmp_path / "begun").exists():
                time.sleep(0.01)
            machines.power_off(1)

        threading.Thread(target=power_off).start()
        with pytest.raises(NodeLost, match="rank 1 of 2 on machine1 was lost together with the connection to machine1"):
            check.exchange(begins, on=machines)


def train(rank: int, world_size: int, divides: bool) -> None:
    torch.manual_seed(0)
    model, data = nn.Linear(3, 1), torch.randn(8, 4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in data:
        optimizer.zero_grad()
        model(batch[rank::world_size]).square().mean().backward()
        average_gradients(model) if divides else sum_gradients(model)
        optimizer.step()


@pytest.mark.parametrize("divides", [True, False])
def test_same_as_one_reports_there_what_it_reports_here(nodes: Machines, divides: bool) -> None:
    here, there = (same_as_one(train, divides, ranks=(1, 2, 4), on=on) for on in (None, nodes))
    assert here.same is there.same is divides
    assert (here.step, here.parameter, here.cause) == (there.step, there.parameter, there.cause)
    assert str(here) == str(there)
