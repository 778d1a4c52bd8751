"""`check.exchange(exchange, on=cluster)` and `same_as_one(train, on=cluster)` report what they report here."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from nights import nightly
from places import here
from processes import Doorbell
from torch import nn

from ddp_lessons import check, same_as_one
from ddp_lessons.machines import Machines
from ddp_lessons.run.nodes.hosts import NodeLost
from ddp_lessons.train.gradients import average_gradients
from ddp_lessons.train.point_to_point import exchange

pytestmark = nightly

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def nodes() -> Iterator[Machines]:
    with here(Machines(2)) as machines:
        yield machines


@pytest.fixture(autouse=True)
def progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_LESSONS_PROGRESS", "off")


def both_send_first(tensor: torch.Tensor) -> torch.Tensor:
    dist.send(tensor, 1 - dist.get_rank())
    dist.recv(tensor, 1 - dist.get_rank())
    return tensor


def raises_on_rank_1(tensor: torch.Tensor) -> torch.Tensor:
    if dist.get_rank() == 1:
        raise ValueError("not this one")
    return exchange(tensor)


def sum_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)


@pytest.mark.parametrize(
    ("one_check", "written", "passes"),
    [
        (check.exchange, exchange, True),
        (check.exchange, both_send_first, False),
        (check.exchange, raises_on_rank_1, False),
        (check.average_gradients, sum_gradients, False),
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
    bell = Doorbell(tmp_path)

    path = bell.path

    def begins(tensor: torch.Tensor) -> None:
        with open(path, "w") as opened:
            opened.write("!")
        threading.Event().wait()

    def power_off() -> None:
        bell.wait_for(2)
        machines.power_off(1)

    with here(Machines(2)) as machines:
        threading.Thread(target=power_off).start()
        with pytest.raises(NodeLost, match="rank 1 of 2 on machine1 was lost together with the connection to machine1"):
            check.exchange(begins, on=machines)
    bell.close()


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
    assert str(here) == str(there)
