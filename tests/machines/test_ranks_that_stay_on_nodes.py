"""Ranks that outlive failures, `%%ranks` and `breakpoint()` on nodes: the same promises as on this machine.

A node that is lost ends them, because no group of that size is possible without it.
"""

from __future__ import annotations

import functools
import math
import os
import re
import socket
import time
from collections.abc import Callable, Iterator

import pytest
import torch.distributed as dist
from catalog.programs.collectives import one_returned
from catalog.programs.failing import is_killed
from failing_calls import all_is_right, computes_for_ever, keep, kept, leaves_messages, sleeps, stopped_after
from nights import by_day, nightly
from notebook_session import TWO_RANKS_STOP, Cell, NotebookSession
from places import here

from ddp_lessons import WorkerFailed, Workers, WorkersStuck
from ddp_lessons.machines import Machines
from ddp_lessons.run.nodes.node_group import connected
from ddp_lessons.run.wire.clocks import Clock

WORLD = 3


@pytest.fixture(scope="module")
def nodes() -> Iterator[Machines]:
    with here(Machines(2)) as machines:
        yield machines


@pytest.fixture(scope="module")
def workers(nodes: Machines) -> Iterator[Workers]:
    with Workers(WORLD, standing=True, quiet=True, timeout_seconds=2, on=nodes) as workers:
        yield workers


def where(rank: int, world_size: int) -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


@pytest.mark.parametrize(
    ("failure", "are_kept"), by_day([(leaves_messages, True), (one_returned, False), (is_killed, False)], 1)
)
def test_after_a_failure_the_next_call_is_right_and_the_message_says_whether_variables_are_kept(
    workers: Workers, failure: Callable[..., None], are_kept: bool
) -> None:
    workers.run(keep)
    with pytest.raises((WorkerFailed, WorkersStuck)) as caught:
        workers.run(failure)
    assert ("The ranks keep their variables" in str(caught.value)) is are_kept
    assert all_is_right(workers)
    assert list(workers.run(kept)) == ([0, 11, 22] if are_kept else [None] * WORLD)


def test_clocks_that_drifted_apart_are_measured_again(
    workers: Workers, nodes: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    for link in connected(nodes).links:
        monkeypatch.setattr(link, "_clock", Clock(link.name, 1000.0, 0.0))
        monkeypatch.setattr(link, "_measured", -math.inf)
    begin = time.monotonic()
    events = workers.run(lambda rank, world_size: dist.barrier()).events
    assert all(begin < events.origin + event.begin < time.monotonic() for event in events)


@pytest.mark.parametrize(("function", "seconds"), by_day([(sleeps, 0.1), (computes_for_ever, 0.001)], 1))
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
    "%%ranks 0,2\nprint('says', rank)\nrank, device.type, world_size",
    "ranks['y'] = 7\nranks['rank + y']",
    "%%ranks\nif rank == 1:\n    raise ValueError('not this one')\ndist.barrier()",
    "%%ranks\ny",
    "%%ranks\nif rank != 1:\n    dist.barrier()",
    "%%ranks\nimport sys\nsys.exit(3)",
    "%%ranks --timeout 0.5\nimport time\nif rank == 0: time.sleep(100)",
    "%ranks status",
    "%ranks restart 2",
    "%ranks stop",
]
THERE = re.compile(r" on machine[01]( and machine1)?\b|   \(the whole time\)")  # said after a second, on a busy machine
AT_RANDOM = re.compile(r"Rank \d had returned|  Ranks? [\d, and]+ (lost the connection|raised)")


def said(cell: Cell) -> list[str]:
    text = THERE.sub("", "\n".join([cell.stream, cell.text, cell.value, cell.error]))
    return [line for line in text.splitlines() if not AT_RANDOM.search(line)]


@nightly
def test_cells_say_there_what_they_say_here(sessions: tuple[NotebookSession, NotebookSession]) -> None:
    here, there = sessions
    assert said(here.run("%%ranks 3\nrank")) == said(there.run("%%ranks 3 --on cluster\nrank"))
    moved = here.run("%%ranks 3 --on cluster\nrank")
    assert "ranks are already running. Next: stop them with `%ranks stop`" in moved.stream + moved.error
    for source in CELLS:
        assert said(there.run(source)) == said(here.run(source)), source


@nightly
def test_two_notebooks_use_the_same_nodes_at_once(sessions: tuple[NotebookSession, NotebookSession]) -> None:
    add_up = "for _ in range(300):\n    x = torch.full((1,), {value})\n    dist.all_reduce(x)\nx.item()"
    begun = []
    for session, value in zip(sessions, (1.0, 20.0), strict=True):
        assert not session.run("%%ranks 3 --on cluster\npass").error
        begun.append(session.begin(f"%%ranks\n{add_up.format(value=value)}"))
    texts = [session.finish(request).text for session, request in zip(sessions, begun, strict=True)]
    assert texts == ["\n".join(f"rank {rank} | {3 * value}" for rank in range(3)) for value in (1.0, 20.0)]


@nightly
@pytest.mark.parametrize(("lost", "its_ranks"), [(0, "0 and 1"), (1, "2 and 3")])
def test_a_node_that_is_lost_during_a_cell_is_a_sentence_and_restart_brings_the_ranks_back(
    lost: int, its_ranks: str
) -> None:
    with here(Machines(2)) as machines, NotebookSession() as session:
        session.run(f"%load_ext ddp_lessons\n{cluster(machines)}")
        assert not session.run("%%ranks 4 --on cluster\nx = 1").error
        request = session.begin("%%ranks\nimport time\nprint('begun', flush=True)\ntime.sleep(1000)")
        power_off = functools.cache(lambda: machines.power_off(lost))
        error = session.finish(request, whenever=lambda cell: "begun" in cell.text and power_off()).error
        connection = f"on machine{lost} were lost together with the connection to machine{lost}"
        assert f"ranks {its_ranks} of 4 {connection}" in error
        assert f"Next: check whether machine{lost} is up and reachable, then run %ranks restart." in error
        assert "All ranks were stopped, and their variables are lost: a group needs all its nodes." in error
        again = session.run("%%ranks\nx")
        assert again.error_name == "NoRanks"
        assert "Next: start new ones with %ranks restart" in again.error
        assert session.run("%ranks restart").error.startswith(f"NodeLost: machine{lost} can't start ranks: ")
        machines.power_on(lost)
        # unlike a real one, it has another MAC address now
        machines.run(1 - lost, "ip neigh flush all").check_returncode()
        session.run(cluster(machines))  # its process numbers are new
        session.run("%ranks stop")
        assert session.run("%%ranks 4 --on cluster\ntotal = torch.ones(1)\ndist.all_reduce(total)\ntotal.item()").text


@nightly
def test_the_debugger_stops_ranks_of_a_launch_there(sessions: tuple[NotebookSession, NotebookSession]) -> None:
    session = sessions[0]
    session.run("import torch, torch.distributed as dist\nfrom ddp_lessons import launch")
    cell = session.converse(TWO_RANKS_STOP.format("on=cluster"), ["n", "where all", "rank 2", "p x", "c", "c"])
    assert (
        "where all\n"
        "rank 0 on machine0   waits in all_reduce (cell line 6:   dist.all_reduce(x))\n"
        "rank 1 on machine0   stopped at cell line 6:   dist.all_reduce(x)\n"
        "rank 2 on machine1   stopped at cell line 5:   y = x + 1\n"
        "rank 3 on machine1   waits in all_reduce (cell line 6:   dist.all_reduce(x))\n" in cell.stream
    )
    assert "tensor([2., 2.])" in cell.stream
    assert cell.value == str([[6.0, 6.0]] * 4)
