"""Ranks of a launch that live on machines of their own: what goes over the cable, and what a wrong set-up says."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from ddp_lessons.machines.anchors import rules_here
from nights import nightly
from places import here
from torch._C._distributed_c10d import TCPStore

from ddp_lessons.machines import Attempt, Machines

pytestmark = nightly


@pytest.fixture(scope="module")
def two() -> Iterator[Machines]:
    with here(Machines(2)) as machines:
        if not rules_here():
            pytest.skip("only root can move a rank to another machine")
        yield machines


def join_and_add(
    rank: int,
    world_size: int,
    interface: str = "eth0",
    address: str = "10.77.0.1",
    port: str = "29500",
    timeout: float = 3,
) -> float:
    os.environ.update(GLOO_SOCKET_IFNAME=interface, MASTER_ADDR=address, MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=world_size, timeout=timedelta(seconds=timeout))
    total = torch.full((1_000_000,), float(rank + 1))
    dist.all_reduce(total)
    return float(total[0])


def received(rank: int, world_size: int) -> int:
    """The bytes that came over this machine's cable while the ranks added up 4 MB."""

    def count() -> int:
        with open("/proc/thread-self/net/dev", encoding="ascii") as counters:
            return next(int(line.split()[1]) for line in counters if "eth0:" in line)

    before = count()
    join_and_add(rank, world_size)
    return count() - before


def test_ranks_are_where_they_should_be_and_get_the_sum(two: Machines) -> None:
    attempt = two.launch(lambda rank, size: (os.uname().nodename, join_and_add(rank, size)))
    assert attempt.ended_well
    assert [attempt.lines(machine)[-1] for machine in (0, 1)] == [f"returned ('machine{n}', 3.0)" for n in (0, 1)]


def test_what_they_send_goes_over_the_cable(two: Machines) -> None:
    attempt = two.launch(received)
    numbers = [int(attempt.lines(machine)[-1].split()[-1]) for machine in (0, 1)]
    assert all(4_000_000 <= number < 6_000_000 for number in numbers)


def test_an_interface_that_there_is_not_is_named_at_once(two: Machines) -> None:
    attempt = two.launch(join_and_add, "eth7")
    complaint = attempt.complaint(0)
    assert complaint
    assert "eth7" in complaint.line


def test_on_loopback_they_never_meet(two: Machines) -> None:
    attempt = two.launch(join_and_add, "lo", "10.77.0.1", "29500", 0.5)
    assert not attempt.ended_well
    complaint = attempt.complaint(1) or attempt.complaint(0)
    assert complaint


@pytest.mark.parametrize(
    ("address", "port"), [("10.77.0.99", "29500"), ("10.77.0.1", "29501")], ids=["address", "port"]
)
def test_nobody_at_that_address_or_port_is_said_when_the_time_is_up(two: Machines, address: str, port: str) -> None:
    attempt = two.launch(call_on_rank_1, address, port)
    complaint = attempt.complaint(1)
    assert complaint
    assert address in complaint.line
    assert port in complaint.line
    assert complaint.seconds > 1


def call_on_rank_1(rank: int, world_size: int, address: str, port: str) -> None:
    """Rank 0 listens where it should, rank 1 calls there or elsewhere."""
    if rank == 0:
        store = TCPStore("10.77.0.1", 29500, is_master=True, wait_for_workers=False)
        time.sleep(3)
        del store
    else:
        TCPStore(address, int(port), is_master=False, timeout=timedelta(seconds=1.5))


def add_until_cut(rank: int, world_size: int, timeout: float) -> None:
    join_and_add(rank, world_size, timeout=timeout)
    print("joined", flush=True)
    while True:
        dist.all_reduce(torch.ones(1))
        time.sleep(0.05)


def test_a_cable_that_is_pulled_out_is_noticed_when_the_timeout_is_over() -> None:
    attempt = cut_in_the_middle(timeout=2)
    for machine in (0, 1):
        complaint = attempt.complaint(machine)
        assert complaint
        assert complaint.seconds > 2  # a second after the beginning it was cut
    (cut,) = attempt.happened
    assert (cut.machine, cut.line) == (1, "the network link is down")


def cut_in_the_middle(timeout: float) -> Attempt:
    import threading

    with here(Machines(2)) as machines:
        if not rules_here():
            pytest.skip("only root can move a rank to another machine")
        cutter = threading.Timer(1.5, machines.cut, [1])
        cutter.start()
        attempt = machines.launch(add_until_cut, timeout)
        cutter.join()
    return attempt
