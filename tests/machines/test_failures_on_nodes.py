"""What a local launch names, a launch on nodes names too, with the node; and it leaves nothing there."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator

import cloudpickle  # type: ignore[import-untyped]
import psutil
import pytest
import torch
import torch.distributed as dist
from catalog.failures_on_nodes import Case, Pair, cases, outcome, pairs, processes_on
from nights import by_day, nightly
from places import here, reconnect
from processes import eventually, when_a_launch_waits

from ddp_lessons import WorkerFailed, WorkersStuck, launch
from ddp_lessons.machines import Machines, SlurmOnMachines
from ddp_lessons.run.nodes.hosts import NodeLost
from ddp_lessons.run.nodes.node_group import connected, disconnect

cloudpickle.register_pickle_by_value(sys.modules[__name__])

LOST = "ranks 2 and 3 of 4 on machine1 were lost together with the connection to machine1"


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with here(Machines(2)) as machines:
        assert works(machines)
        assert processes_on(machines)  # or nobody would see one that is left
        yield machines
        disconnect(machines)


def works(machines: Machines) -> bool:
    return list(launch(where, 4, on=machines)) == ["machine0"] * 2 + ["machine1"] * 2


def where(rank: int, world_size: int) -> str:
    return socket.gethostname()


def kill_its_parent(rank: int, world_size: int, generation: int) -> None:
    dist.barrier()
    if rank == 2:
        psutil.Process().parents()[generation].kill()
    time.sleep(600)


def meet_without_end(rank: int, world_size: int) -> None:
    while True:
        dist.all_reduce(torch.ones(1))


def check_message_and_rest(pair: Pair) -> None:
    assert pair.is_same, f"{pair.here.message}\n\n{pair.there.message}"
    assert pair.names_node is not False, pair.there.message
    assert pair.there.is_alive
    assert pair.there.left == 0


@pytest.mark.parametrize("case", by_day(cases(), 2), ids=lambda case: case.name)
def test_it_is_named_as_here_with_the_node_and_nothing_is_left(machines: Machines, case: Case) -> None:
    check_message_and_rest(Pair(case, outcome(case), outcome(case, machines, lambda: processes_on(machines))))


@nightly
@pytest.mark.parametrize("kind", ["hosts", "slurm"])
def test_so_it_is_over_ssh_and_in_a_slurm(kind: str) -> None:
    here(SlurmOnMachines(2) if kind == "slurm" else Machines(2))
    names = ["one_returned", "different_shapes", "raises", "is_killed", "leaves_a_child", "is_interrupted"]
    found = list(pairs(kind, names))
    for pair in found:
        check_message_and_rest(pair)
    assert sorted(pair.case.name for pair in found) == sorted(names)


@nightly
@pytest.mark.parametrize(
    ("generation", "why"),
    [(0, "the process that forks ranks has ended"), (1, "its command exited with status -9")],
)
def test_what_started_the_ranks_there_is_named_if_it_dies_and_the_next_launch_starts_another(
    machines: Machines, generation: int, why: str
) -> None:
    before = processes_on(machines)
    with pytest.raises(WorkerFailed) as caught:
        launch(kill_its_parent, 4, generation, on=machines)
    headline, last, *_ = str(caught.value).splitlines()
    assert (headline, last) == (LOST, f"  Last output: lost the connection to machine1: {why}")
    assert eventually(lambda: not processes_on(machines) - before)
    assert works(machines)


@nightly
def test_a_link_that_is_cut_stops_the_ranks_and_the_next_launch_works(machines: Machines) -> None:
    """The notebook still reaches both nodes, but they don't reach each other."""
    when_a_launch_waits(lambda: machines.cut(1), after_seconds=2.0)
    with pytest.raises(WorkersStuck, match="rank 3 on machine1   waits in all_reduce"):
        launch(meet_without_end, 4, on=machines, timeout_seconds=5)
    with pytest.raises(WorkerFailed, match="machine1 raised ConnectionError: machine1 did not reach rank 0 at 10"):
        launch(where, 4, on=machines, timeout_seconds=3)
    reconnect(machines, 1)
    assert works(machines)


@nightly
@pytest.mark.parametrize("seconds", [0.0, 1.0])  # while the ranks start, and when they have
def test_a_node_that_is_switched_off_is_named_until_it_is_on_again(seconds: float) -> None:
    with here(Machines(2)) as two:
        connected(two)
        when_a_launch_waits(lambda: two.power_off(1), seconds)
        begin = time.monotonic()
        with pytest.raises(WorkerFailed) as caught:
            launch(lambda rank, world_size: time.sleep(600), 4, on=two)
        assert time.monotonic() - begin < 15  # what waits for a connection between nodes gives up after 20 s
        assert str(caught.value).splitlines()[0] == LOST
        assert "Next: check whether machine1 is up" in str(caught.value)
        with pytest.raises(NodeLost, match="machine1 can't start ranks"):
            launch(where, 4, on=two)
        two.power_on(1)
        assert works(two)
        disconnect(two)
