"""`breakpoint()` in a rank on another node: the dialogue is relayed by its agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from nights import nightly
from notebook_session import NotebookSession
from places import here
from processes import PROJECT
from ssh_sites import path_with_keys, reached_by_real_ssh

from ddp_lessons.machines import Machines

pytestmark = nightly

_FIRST_CELL = """
import torch, torch.distributed as dist
from ddp_lessons import launch
from ddp_lessons.machines import Machines
machines = Machines(2).__enter__()
%load_ext ddp_lessons
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookSession]:
    here(Machines(2))  # skips these tests where there can be none; the kernel makes its own
    with NotebookSession({"PYTHONPATH": os.fspath(PROJECT)}) as session:
        assert not session.run(_FIRST_CELL).error
        yield session
        session.run("machines.__exit__(None, None, None)")


def test_ranks_of_a_launch(kernel: NotebookSession) -> None:
    source = """
    def train(rank, size):
        x = torch.ones(2) * rank
        if rank in (1, 2):
            breakpoint()
        y = x + 1
        dist.all_reduce(x)
        return x.tolist()

    list(launch(train, 4, on=machines))
    """
    answers = ["next", "where all", "print all x", "rank 0", "next all", "next all", "go"]
    cell = kernel.converse(source, answers)
    assert (
        "where all\n"
        "rank 0 on machine0   waits in all_reduce (cell line 6:   dist.all_reduce(x))\n"
        "rank 1 on machine0   stopped at cell line 6:   dist.all_reduce(x)\n"
        "rank 2 on machine1   stopped at cell line 5:   y = x + 1\n"
        "rank 3 on machine1   waits in all_reduce (cell line 6:   dist.all_reduce(x))\n" in cell.stream
    )
    assert "\n".join(f"rank {rank} | tensor([{rank}., {rank}.])" for rank in range(4)) in cell.stream
    assert "ranks 0, 1 and 2:\n> cell line 7, in train()" in cell.stream
    assert cell.value == str([[6.0, 6.0]] * 4)


def test_ranks_that_stay(kernel: NotebookSession) -> None:
    cell = kernel.converse("%%ranks 4 --on machines\nx = rank + 1\nbreakpoint()\nx", ["rank 3", "p x * 10", "q"])
    assert "rank 3 of 4, cell line 3> p x * 10\n40\n" in cell.stream
    assert cell.error.startswith("KeyboardInterrupt: you quit the debugger\n    rank 0 on machine0   is at cell line 3")
    assert kernel.run("%%ranks\nx").text == "rank 0 | 1\nrank 1 | 2\nrank 2 | 3\nrank 3 | 4"


def test_over_ssh(tmp_path: Path) -> None:
    source = """
    def train(rank, size):
        x = torch.ones(2) * rank
        if rank == 1:
            breakpoint()
        dist.all_reduce(x)
        return x.tolist()

    list(launch(train, 2, on=Hosts("machine0", "machine1")))
    """
    with reached_by_real_ssh(tmp_path):
        environment = {"PYTHONPATH": os.fspath(PROJECT), "PATH": path_with_keys(tmp_path)}
        with NotebookSession(environment) as session:
            session.run("import torch, torch.distributed as dist; from ddp_lessons import Hosts, launch")
            cell = session.converse(source, ["x += 2", "where all", "print all x", "go"])
    assert "rank 0 on machine0   waits in all_reduce (cell line 5:   dist.all_reduce(x))\n" in cell.stream
    assert "rank 1 on machine1   stopped at cell line 5:   dist.all_reduce(x)\n" in cell.stream
    assert "rank 0 | tensor([0., 0.])\nrank 1 | tensor([3., 3.])\n" in cell.stream
    assert cell.value == str([[3.0, 3.0]] * 2)


def test_without_input_it_is_the_same_error(kernel: NotebookSession) -> None:
    source = "def stop(rank, size):\n    breakpoint()\n\nlaunch(stop, 2, on=machines)"
    cell = kernel.finish(kernel.begin(source, allow_stdin=False))
    assert "raised RuntimeError: breakpoint() cannot ask what to do: this notebook runs without input" in cell.error
