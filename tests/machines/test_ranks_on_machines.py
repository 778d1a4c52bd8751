"""Ranks of `Machines.launch`: what is sent over the links, and what a wrong setup says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from nights import nightly
from places import here, reconnect
from processes import eventually

from ddp_lessons.machines import Machines

pytestmark = nightly


@pytest.fixture(scope="module")
def two() -> Iterator[Machines]:
    with here(Machines(2)) as machines:
        yield machines


def received() -> int:
    return int(Path("/proc/thread-self/net/dev").read_text(encoding="ascii").partition("eth0:")[2].split()[0])


def add_up(rank: int, world_size: int, interface: str = "eth0", seconds: float = 2.0, joined: str = "") -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    dist.init_process_group("gloo", rank=rank, world_size=world_size, timeout=timedelta(seconds=seconds))
    before, total = received(), torch.full((1_000_000,), rank + 1.0)
    dist.all_reduce(total)
    print(os.uname().nodename, total.unique().tolist(), received() - before)
    while joined:
        Path(joined).touch()
        dist.all_reduce(torch.ones(1))


def test_ranks_are_on_their_machines_and_what_they_send_goes_over_the_link(two: Machines) -> None:
    attempt = two.launch(add_up)
    assert attempt.ended_well
    for machine in (0, 1):
        name, total, count = attempt.lines(machine)[-1].split()
        assert (name, total) == (f"machine{machine}", "[3.0]")
        assert 4_000_000 <= int(count) < 6_000_000  # a million numbers of four bytes


@pytest.mark.parametrize(("interface", "said"), [("eth7", "address for: eth7"), ("lo", "Connection refused")])
def test_a_wrong_interface_is_named_and_no_rank_joins(two: Machines, interface: str, said: str) -> None:
    attempt = two.launch(add_up, interface, 0.8)
    assert attempt.statuses == (1, 1)
    assert attempt.has(said), attempt


def test_a_link_that_is_cut_is_noticed_when_the_timeout_is_over(two: Machines, tmp_path: Path) -> None:
    def cut_when_joined() -> None:
        assert eventually((tmp_path / "joined").exists)
        two.cut(1)

    with ThreadPoolExecutor(1) as pool:
        cutting = pool.submit(cut_when_joined)
        attempt = two.launch(add_up, "eth0", 2.0, str(tmp_path / "joined"))
        cutting.result()
    reconnect(two, 1)
    ((machine, cut, words),) = attempt.happened
    assert (machine, words) == (1, "the network link is down")
    noticed = [complaint.seconds - cut for number in (0, 1) if (complaint := attempt.complaint(number))]
    assert noticed == [pytest.approx(3.0, abs=1.1)] * 2  # not before, and not long after
