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
from processes import when_a_launch_waits
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


def both_send_first(tensor: torch.Tensor) -> torch.Tensor:
    dist.send(tensor, 1 - dist.get_rank())
    dist.recv(tensor, 1 - dist.get_rank())
    return tensor


def sum_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)


@pytest.mark.parametrize(
    ("one_check", "written", "passes"),
    [
        (check.exchange, exchange, True),
        (check.exchange, both_send_first, False),
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


def test_a_lost_node_is_no_mistake_of_the_exercise() -> None:
    with here(Machines(2)) as machines:
        when_a_launch_waits(lambda: machines.power_off(1), after_seconds=1.0)
        with pytest.raises(NodeLost, match="rank 1 of 2 on machine1 was lost together with the connection to machine1"):
            check.exchange(lambda tensor: threading.Event().wait(), on=machines)


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
