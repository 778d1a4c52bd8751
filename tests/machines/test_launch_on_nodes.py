"""`launch(..., on=nodes)` on nodes of namespaces, and in a job of a real Slurm.

What is said of a failure is compared with what `launch` says of the same function on this machine.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from places import here, leave_out
from processes import Program, eventually, when_a_launch_waits
from slurm_sites import allocate

from ddp_lessons import WorkerFailed, WorkersStuck, launch, tell
from ddp_lessons.machines import Machines, SlurmOnMachines
from ddp_lessons.run.nodes.hosts import NodeCommand, NodeLost, Nodes, agent_command

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module", params=["namespaces", "slurm"])
def nodes(request: pytest.FixtureRequest) -> Iterator[Nodes]:
    if request.param == "namespaces":
        with here(Machines(2)) as machines:
            yield machines
    else:
        with here(SlurmOnMachines(2)) as site, allocate(site, nodes=2, cpus_per_task=4) as cluster:
            yield cluster


def where(rank: int, world_size: int) -> tuple[str, str, int]:
    return socket.gethostname(), os.environ["LOCAL_RANK"], os.getpid()


def add_up(rank: int, world_size: int, tensor: torch.Tensor) -> torch.Tensor:
    mine = tensor * rank
    dist.all_reduce(mine)
    return mine


def print_much(rank: int, world_size: int) -> None:
    for number in range(3000):
        print(f"rank {rank} line {number}")


def raise_on_rank_2(rank: int, world_size: int) -> None:
    dist.barrier()
    if rank == 2:
        raise ValueError("not this one")
    dist.barrier()


def leave_early(rank: int, world_size: int) -> None:
    if rank != 3:
        dist.all_reduce(torch.ones(2))


def mix_up_shapes(rank: int, world_size: int) -> None:
    dist.all_reduce(torch.ones(2 + rank // 2))


def crash(rank: int, world_size: int) -> None:
    dist.barrier()
    if rank == 1:
        ctypes.string_at(0)
    dist.barrier()


def exit_with_3(rank: int, world_size: int) -> None:
    if rank == 3:
        os._exit(3)
    threading.Event().wait()


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


def join_alone(rank: int, world_size: int) -> float:
    dist.init_process_group("gloo")
    one = torch.ones(1)
    dist.all_reduce(one)
    return one.item()


def test_neighboring_ranks_share_a_node_and_know_their_number_there(nodes: Nodes) -> None:
    there = launch(where, 5, on=nodes)
    names = [(name, local) for name, local, _ in there]
    assert names == [("machine0", "0"), ("machine0", "1"), ("machine0", "2"), ("machine1", "0"), ("machine1", "1")]
    assert [launch(where, 1, on=nodes)[0][0]] == ["machine0"]


def test_each_rank_has_its_share_of_the_node_s_cores_unless_you_say_how_many(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    usable = len(os.sched_getaffinity(0)) if isinstance(nodes, Machines) else min(4, len(os.sched_getaffinity(0)))
    assert list(launch(threads, 2, on=nodes)) == [usable] * 2
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert list(launch(threads, 2, on=nodes)) == [3] * 2


def test_values_are_those_of_a_launch_here_also_large_ones(nodes: Nodes) -> None:
    large = torch.arange(3_000_000, dtype=torch.float64)
    here, there = launch(add_up, 4, large), launch(add_up, 4, large, on=nodes)
    assert all(torch.equal(one, other) for one, other in zip(here, there, strict=True))


def test_all_lines_arrive_in_order(nodes: Nodes) -> None:
    lines = launch(print_much, 3, on=nodes, quiet=True).lines
    assert lines == tuple([f"rank {rank} line {number}" for number in range(3000)] for rank in range(3))


@pytest.mark.parametrize("function", by_day([raise_on_rank_2, leave_early, mix_up_shapes, crash, exit_with_3], 1))
def test_a_failure_is_explained_as_on_this_machine_with_the_node(
    nodes: Nodes, function: Callable[[int, int], None]
) -> None:
    failures = []
    for on in (None, nodes):
        with pytest.raises((WorkerFailed, WorkersStuck)) as caught:
            launch(function, 4, on=on)
        failures.append(caught.value)
    here, there = failures
    assert type(here) is type(there)
    # who lost the connection first, and who was stopped before that, is a race here, too
    said = [_first_lines(re.sub(r" on machine[01]( and machine1)?", "", str(failure))) for failure in failures]
    assert said[0] == said[1]
    assert re.search(r"rank \d( of 4)? on machine[01] ", str(there))


def _first_lines(message: str) -> list[str]:
    return [line for line in message.splitlines() if not re.match(r"  Ranks? \d|  torchrun would", line)]


class OwnClocks:
    """The same nodes, with clocks that began at other moments."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def commands(self) -> list[NodeCommand]:
        agent, found = len(agent_command()), list(self._nodes.commands())
        shifts = [["unshare", "--time", "--monotonic", f"{1000 * number}", "--fork"] for number in range(len(found))]
        return [
            NodeCommand(one.node, [*one.command[:-agent], *shift, *one.command[-agent:]])
            for one, shift in zip(found, shifts, strict=True)
        ]


def test_calls_of_both_nodes_are_on_one_clock_and_what_was_logged_arrives(nodes: Nodes) -> None:
    check_that_they_are_on_one_clock(nodes)


@nightly
def test_so_they_are_if_the_nodes_have_clocks_of_their_own() -> None:
    with here(Machines(2)) as machines:
        if machines.run(0, "unshare --time --monotonic 1 --fork true").returncode:
            leave_out("this system has no namespaces for clocks")
        check_that_they_are_on_one_clock(OwnClocks(machines))


def check_that_they_are_on_one_clock(nodes: Nodes) -> None:
    results = launch(pass_on, 4, on=nodes)
    sent = sorted(event.begin for event in results.events if event.operation == "send")
    received = sorted(event.end or 0.0 for event in results.events if event.operation == "recv")
    error = sum(results.events.clock_errors.values())
    assert len(sent) == len(received) == 5
    assert all(end > begin - error for begin, end in zip(sent, received, strict=True))
    assert [len(rank) for rank in results.told] == [5] * 4


def has_what_ddp_imports(rank: int, world_size: int) -> bool:
    had = "torch._dynamo" in sys.modules
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    return had


@nightly
def test_what_ranks_had_to_import_is_imported_ahead_for_the_next_launch(nodes: Nodes) -> None:
    launch(has_what_ddp_imports, 2, on=nodes)
    assert list(launch(has_what_ddp_imports, 4, on=nodes)) == [True] * 4


def test_a_function_may_join_by_itself(nodes: Nodes) -> None:
    assert list(launch(join_alone, 3, on=nodes, join=False)) == [3.0] * 3


def test_an_interrupt_stops_them_within_two_seconds(nodes: Nodes) -> None:
    when_a_launch_waits(lambda: os.kill(os.getpid(), signal.SIGINT), after_seconds=1.0)
    with pytest.raises(KeyboardInterrupt, match="rank 3 on machine1"):
        launch(sleep_long, 4, on=nodes)


PLAIN_PROGRAM = """
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
    with Program(PLAIN_PROGRAM) as program:
        program.wait_until_said("sleeps", times=2)
        program.kill()
        assert eventually(lambda: not program.marked()), program.marked()


@nightly
def test_a_node_that_is_switched_off_is_named() -> None:
    with here(Machines(2)) as machines:
        launch(where, 4, on=machines)
        when_a_launch_waits(lambda: machines.power_off(1), after_seconds=1.0)
        with pytest.raises(WorkerFailed) as caught:
            launch(sleep_long, 4, on=machines)
        first = str(caught.value).splitlines()[0]
        assert first == "ranks 2 and 3 of 4 on machine1 were lost together with the connection to machine1"
        assert "Next: check whether machine1 is up" in str(caught.value)
        with pytest.raises(NodeLost, match="machine1 can't start ranks"):
            launch(where, 4, on=machines)
        machines.power_on(1)
        assert [name for name, _, _ in launch(where, 2, on=machines)] == ["machine0", "machine1"]
