"""Ranks that outlive failures, and `%%ranks`, on nodes: the same promises as on this machine.

A node that is lost ends them, because no group of that size is possible without it.
"""

from __future__ import annotations

import os
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from failing_calls import (
    ABANDONED,
    MISMATCHED,
    all_is_right,
    computes_for_ever,
    import_what_ddp_needs,
    keep,
    kept,
    sleeps,
    stopped_after,
    waits_in_a_thread,
)
from nights import by_day, nightly
from notebook_session import Cell, NotebookSession
from places import here

from ddp_lessons import WorkerFailed, Workers
from ddp_lessons.machines import Machines
from ddp_lessons.run.nodes.hosts import NodeCommand, NodeLost

WORLD = 3
FAILURES = ABANDONED | MISMATCHED


@pytest.fixture(scope="module")
def nodes() -> Iterator[Machines]:
    with here(Machines(2)) as machines:
        yield machines


@pytest.fixture(scope="module")
def workers(nodes: Machines) -> Iterator[Workers]:
    with Workers(WORLD, standing=True, quiet=True, timeout_seconds=2, on=nodes) as workers:
        workers.run(import_what_ddp_needs, timeout_seconds=60)
        yield workers


def where(rank: int, world_size: int) -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


@pytest.mark.parametrize("failure", by_day(FAILURES, 1), ids=lambda failure: failure.__name__)
def test_after_a_failure_the_next_call_is_right(workers: Workers, failure: Callable[..., None]) -> None:
    workers.run(import_what_ddp_needs, timeout_seconds=60)
    with pytest.raises(FAILURES[failure]):
        workers.run(failure)
    assert all_is_right(workers)


def test_ranks_that_came_back_keep_their_variables(workers: Workers) -> None:
    workers.run(keep)
    with pytest.raises(WorkerFailed, match="The ranks keep their variables"):
        workers.run(lambda rank, world_size: 1 / 0)
    assert all_is_right(workers)
    assert list(workers.run(kept)) == [0, 11, 22]


@pytest.mark.parametrize("function", [sleeps, computes_for_ever, waits_in_a_thread])
@pytest.mark.parametrize("seconds", by_day([0.1, 0.001], 1))
def test_after_an_interrupt_at_any_moment_all_restart_on_their_nodes(
    workers: Workers, function: Callable[..., None], seconds: float
) -> None:
    before = list(workers.run(where))
    with pytest.raises(KeyboardInterrupt, match="All ranks were restarted, and their variables are lost"):
        stopped_after(seconds, workers, function)
    assert all_is_right(workers)
    after = list(workers.run(where))
    assert [node for node, _ in after] == [node for node, _ in before]
    assert not set(after) & set(before)


def add_up_often(rank: int, world_size: int) -> list[float]:
    sums = []
    for _ in range(100):
        total = torch.ones(1)
        dist.all_reduce(total)
        sums.append(total.item())
    return sums


@nightly
@pytest.mark.no_second_try
@pytest.mark.parametrize("kills", by_day([8, 40], 1))
def test_kills_at_any_moment_give_no_wrong_answer(nodes: Machines, kills: int) -> None:
    dice, failed = random.Random(3), 0
    with Workers(WORLD, standing=True, quiet=True, on=nodes) as workers:
        for _ in range(kills):
            node, process = dice.choice(list(workers.run(where)))
            kill = f"sleep {dice.uniform(0, 0.1):.3f}; kill -KILL {process}"
            killer = nodes.start(["sh", "-c", kill], on=[nodes.names.index(node)])
            try:
                assert list(workers.run(add_up_often)) == [[float(WORLD)] * 100] * WORLD
            except WorkerFailed:
                failed += 1
            killer.finish(10)
            try:
                workers.run(kept)
            except WorkerFailed:  # it was killed between two runs
                failed += 1
            assert all_is_right(workers)
    assert failed


RELAY = """
import os, subprocess, sys, threading, time
agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def relay(source, sink, rate):
    while data := os.read(source, 1 << 14):
        os.write(sink, data)
        time.sleep(len(data) / rate)
    os.close(sink)
back = threading.Thread(target=relay, args=(agent.stdout.fileno(), 1, 1e9))
back.start()
relay(0, agent.stdin.fileno(), float(sys.argv[1]))
back.join()
"""


class Far:
    """The same nodes over a slow line."""

    def __init__(self, nodes: Machines, bytes_per_second: float) -> None:
        self._nodes, self._rate = nodes, bytes_per_second

    def commands(self) -> list[NodeCommand]:
        relay = [sys.executable, "-c", RELAY, str(self._rate)]
        return [one._replace(command=[*relay, *one.command]) for one in self._nodes.commands()]


def size(rank: int, world_size: int, tensor: torch.Tensor) -> int:
    return len(tensor)


@nightly
def test_an_interrupt_while_a_large_argument_is_sent_leaves_the_nodes_usable(nodes: Machines) -> None:
    far = Far(nodes, 2e6)
    with Workers(2, standing=True, on=far) as workers:
        workers.run(size, torch.ones(1))
        with pytest.raises(KeyboardInterrupt, match="you stopped the ranks"):
            stopped_after(0.5, workers, size, torch.ones(25_000_000))  # takes 50 seconds for each rank
        assert list(workers.run(size, torch.ones(7))) == [7, 7]


@nightly
def test_a_node_is_not_lost_while_an_argument_takes_longer_than_its_silence(nodes: Machines) -> None:
    with Workers(2, on=Far(nodes, 1e6)) as workers:
        assert list(workers.run(size, torch.ones(4_500_000))) == [4_500_000] * 2


@nightly
@pytest.mark.parametrize("lost", by_day([0, 1], 1))
def test_without_a_node_they_end_in_a_sentence(lost: int, tmp_path: Path) -> None:
    def wait(rank: int, world_size: int) -> None:
        dist.barrier()
        (tmp_path / "begun").touch()
        sleeps(rank, world_size)

    with here(Machines(2)) as machines, Workers(4, standing=True, on=machines) as workers:

        def power_off() -> None:
            while not (tmp_path / "begun").exists():
                time.sleep(0.01)
            machines.power_off(lost)

        threading.Thread(target=power_off).start()
        with pytest.raises(WorkerFailed) as caught:
            workers.run(wait)
        headline, *_, last = str(caught.value).splitlines()
        ranks = "ranks 0 and 1" if lost == 0 else "ranks 2 and 3"
        assert headline == f"{ranks} of 4 on machine{lost} were lost together with the connection to machine{lost}"
        assert last == "  All ranks were stopped, and their variables are lost: a group needs all its nodes."
        with pytest.raises(RuntimeError, match=f"closed: lost the connection to machine{lost}"):
            workers.run(kept)
        with pytest.raises(NodeLost, match=f"machine{lost} can't start ranks"):
            Workers(4, on=machines)
        machines.power_on(lost)
        # unlike a real one, it has another MAC address now
        machines.run(1 - lost, "ip neigh flush all").check_returncode()
        with Workers(4, on=machines) as again:
            assert all_is_right(again)


# --- %%ranks ----------------------------------------------------------------------------------------------------------


def cluster(nodes: Machines) -> str:
    """A cell that defines the same nodes in another process."""
    commands = [tuple(one) for one in nodes.commands()]
    return (
        "from ddp_lessons.run.nodes.hosts import NodeCommand\n"
        f"class Cluster:\n    def commands(self): return [NodeCommand(*one) for one in {commands!r}]\n"
        "cluster = Cluster()"
    )


@pytest.fixture
def sessions(nodes: Machines) -> Iterator[tuple[NotebookSession, NotebookSession]]:
    with NotebookSession() as one, NotebookSession() as other:
        for session in (one, other):
            assert not session.run(f"%load_ext ddp_lessons\n{cluster(nodes)}").error
        yield one, other


CELLS = [
    "%%ranks\nx = torch.full((2,), rank + 1.0)\ndist.all_reduce(x)",
    "%%ranks\nx, device.type, world_size",
    "%%ranks 0,2\nprint('says', rank)\n'here'",
    "ranks['y'] = 7\nranks['x.sum() + y']",
    "%%ranks\nif rank == 1:\n    raise ValueError('not this one')\ndist.barrier()",
    "%%ranks\nx",
    "%%ranks\nif rank != 1:\n    dist.barrier()",
    "%%ranks\nimport sys\nsys.exit(3)",
    "%%ranks\nopen('nowhere.txt').mode\n",
    "%%ranks\nunknown",
    "%%ranks --timeout 0.5\nimport time\nif rank == 0: time.sleep(100)",
    "%%ranks\nx",
    "%ranks status",
    "%ranks restart 2",
    "%ranks stop",
]
THERE = re.compile(r" on machine[01]( and machine1)?\b|   \(the whole time\)")  # said after a second, on a busy machine
AT_RANDOM = re.compile(r"Rank \d had returned|  Ranks? [\d, and]+ (lost the connection|raised)")


def said(cell: Cell) -> list[str]:
    text = THERE.sub("", "\n".join([cell.stream, cell.text, cell.value, cell.error]))
    return [line for line in text.splitlines() if not AT_RANDOM.search(line) and "files of this machine" not in line]


@nightly
def test_cells_say_there_what_they_say_here(sessions: tuple[NotebookSession, NotebookSession]) -> None:
    here, there = sessions
    assert said(here.run("%%ranks 3\nrank")) == said(there.run("%%ranks 3 --on cluster\nrank"))
    for source in CELLS:
        expected = here.run(source)
        if "nowhere.txt" in source:
            expected.error = re.sub(r"  Next: .*\n", "", expected.error)
        assert said(there.run(source)) == said(expected), source


@nightly
def test_ranks_do_not_move_to_other_nodes_unasked(sessions: tuple[NotebookSession, NotebookSession]) -> None:
    session = sessions[0]
    session.run("%%ranks 2\nx = 5")
    cell = session.run("%%ranks 2 --on cluster\nx")
    assert "there are ranks already; stop them with `%ranks stop`" in cell.stream + cell.error
    assert session.run("%%ranks\nx").text == "rank 0 | 5\nrank 1 | 5"


@nightly
def test_two_notebooks_use_the_same_nodes_at_once(sessions: tuple[NotebookSession, NotebookSession]) -> None:
    add_up = "for _ in range(300):\n    x = torch.full((1,), {value})\n    dist.all_reduce(x)\nx.item()"
    begun = []
    for session, value in zip(sessions, (1.0, 20.0), strict=True):
        assert not session.run("%%ranks 3 --on cluster\npass").error
        begun.append(session.begin(f"%%ranks\n{add_up.format(value=value)}"))
    texts = [session.finish(request).text for session, request in zip(sessions, begun, strict=True)]
    assert texts == ["\n".join(f"rank {rank} | {3 * value}" for rank in range(3)) for value in (1.0, 20.0)]
    sessions[0].run("%ranks stop")
    assert sessions[1].run("%%ranks\nx.item()").text == texts[1]


@nightly
def test_a_node_that_is_lost_during_a_cell_is_a_sentence_and_restart_brings_the_ranks_back() -> None:
    with here(Machines(2)) as machines, NotebookSession() as session:
        session.run(f"%load_ext ddp_lessons\n{cluster(machines)}")
        assert not session.run("%%ranks 4 --on cluster\nx = 1").error
        request = session.begin("%%ranks\nimport time\nprint('begun', flush=True)\ntime.sleep(1000)")
        on = {1}

        def power_off(cell: Cell) -> None:
            if "begun" in cell.text and on:
                machines.power_off(on.pop())

        cell = session.finish(request, whenever=power_off)
        assert "ranks 2 and 3 of 4 on machine1 were lost together with the connection to machine1" in cell.error
        assert "Next: check whether machine1 is up and its network works, then run %ranks restart." in cell.error
        again = session.run("%%ranks\nx")
        assert again.error_name == "NoRanks"
        assert "Next: %ranks restart starts new ones" in again.error
        assert session.run("%ranks restart").error.startswith("NodeLost: machine1 can't start ranks: ")
        machines.power_on(1)
        session.run(cluster(machines))  # its process numbers are new
        session.run("%ranks stop")
        assert not session.run("%%ranks 4 --on cluster\npass").error
