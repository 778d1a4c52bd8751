"""`launch(..., on=nodes)` on nodes of namespaces, and in a job of a real Slurm: the same as on this machine."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from places import here, leave_out
from processes import Program, eventually, when_a_launch_waits
from slurm_sites import allocate

from ddp_lessons import launch, tell
from ddp_lessons.machines import Machines, SlurmOnMachines
from ddp_lessons.run.nodes.hosts import NodeCommand, Nodes
from ddp_lessons.run.nodes.node_group import disconnect

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module", params=["namespaces", pytest.param("slurm", marks=nightly)])
def nodes(request: pytest.FixtureRequest) -> Iterator[Nodes]:
    if request.param == "namespaces":
        with here(Machines(2)) as machines:
            yield machines
            disconnect(machines)
    else:
        with here(SlurmOnMachines(2)) as site, allocate(site, nodes=2, cpus_per_task=4) as cluster:
            yield cluster


def where(rank: int, world_size: int) -> tuple[str, str]:
    return socket.gethostname(), os.environ["LOCAL_RANK"]


def add_up(rank: int, world_size: int, tensor: torch.Tensor) -> torch.Tensor:
    mine = tensor * rank
    dist.all_reduce(mine)
    return mine


def print_much(rank: int, world_size: int) -> None:
    for number in range(3000):
        print(f"rank {rank} line {number}")


def sleep_long(rank: int, world_size: int) -> None:
    time.sleep(600)


def pass_on(rank: int, world_size: int) -> None:
    for turn in range(5):
        if rank == 0:
            dist.send(torch.ones(1), dst=world_size - 1)
        elif rank == world_size - 1:
            dist.recv(torch.ones(1), src=0)
        tell("turn", number=turn)


def threads(rank: int, world_size: int) -> int:
    return torch.get_num_threads()


def note_the_end(rank: int, world_size: int, folder: Path) -> None:
    atexit.register(lambda: (folder / f"{rank}-on-{socket.gethostname()}").touch())


def test_neighboring_ranks_share_a_node_and_know_their_number_there(nodes: Nodes) -> None:
    names = [("machine0", "0"), ("machine0", "1"), ("machine0", "2"), ("machine1", "0"), ("machine1", "1")]
    assert list(launch(where, 5, on=nodes)) == names


def test_ranks_share_the_cores_unless_you_say_how_many(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    usable = len(os.sched_getaffinity(0))
    assert list(launch(threads, 2, on=nodes)) == [usable if isinstance(nodes, Machines) else min(4, usable)] * 2
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert list(launch(threads, 2, on=nodes)) == [3] * 2


def test_values_are_those_of_a_launch_here_also_large_ones(nodes: Nodes) -> None:
    large = torch.arange(3_000_000, dtype=torch.float64)
    here, there = launch(add_up, 4, large), launch(add_up, 4, large, on=nodes)
    assert all(torch.equal(one, other) for one, other in zip(here, there, strict=True))


def test_all_lines_arrive_in_order(nodes: Nodes) -> None:
    lines = launch(print_much, 3, on=nodes, quiet=True).lines
    assert lines == tuple([f"rank {rank} line {number}" for number in range(3000)] for rank in range(3))


class OwnClocks:
    """The same nodes, with clocks that began at other moments."""

    def __init__(self, nodes: Nodes) -> None:
        self._ways = nodes.commands()

    def commands(self) -> list[NodeCommand]:
        shift = "unshare --time --monotonic {} --fork sh"
        ways = enumerate(self._ways)
        return [one._replace(command=[*one.command[:-1], *shift.format(1000 * n).split()]) for n, one in ways]


@pytest.mark.parametrize("are_shifted", by_day([False, True], 1))
def test_calls_of_both_nodes_are_on_one_clock_and_what_was_logged_arrives(nodes: Nodes, are_shifted: bool) -> None:
    if are_shifted and subprocess.run("unshare --time --monotonic 1 --fork true".split()).returncode:
        leave_out("this system has no namespaces for clocks")
    there = OwnClocks(nodes) if are_shifted else nodes
    results = launch(pass_on, 4, on=there)
    sent = sorted(event.begin for event in results.events if event.operation == "send")
    received = sorted(event.end or 0.0 for event in results.events if event.operation == "recv")
    error = sum(results.events.clock_errors.values())
    assert len(sent) == len(received) == 5
    assert error < 1
    assert all(begin - error < end < begin + 60 for begin, end in zip(sent, received, strict=True))
    assert [len(rank) for rank in results.told] == [5] * 4
    if are_shifted:
        disconnect(there)


@nightly
def test_exit_handlers_of_ranks_run_there_at_the_end(nodes: Nodes, tmp_path: Path) -> None:
    launch(note_the_end, 2, tmp_path, on=nodes)
    assert sorted(os.listdir(tmp_path)) == ["0-on-machine0", "1-on-machine1"]


def test_an_interrupt_stops_them_within_seconds(nodes: Nodes) -> None:
    launch(where, 4, on=nodes)
    begin = time.monotonic()
    when_a_launch_waits(lambda: os.kill(os.getpid(), signal.SIGINT), after_seconds=1.0)
    with pytest.raises(KeyboardInterrupt, match="rank 3 on machine1"):
        launch(sleep_long, 4, on=nodes)
    assert time.monotonic() - begin < 15
    assert list(launch(where, 2, on=nodes)) == [("machine0", "0"), ("machine1", "0")]


PROGRAM = """
import time
from ddp_lessons import launch
from ddp_lessons.machines import Machines

def sleep_long(rank, world_size):
    print("sleeps", flush=True)
    time.sleep(600)

with Machines(2) as machines:
    launch(sleep_long, 2, on=machines)
"""


@nightly
@pytest.mark.no_second_try
def test_of_a_notebook_that_is_killed_nothing_is_left() -> None:
    here(Machines(2))
    with Program(PROGRAM) as program:
        program.wait_until_said("sleeps", times=2)
        program.kill()
        assert eventually(lambda: not program.marked()), program.marked()
