"""`breakpoint()` in a rank on another node: the dialogue is relayed by its agent."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from nights import nightly
from notebook_session import NotebookSession
from places import here
from processes import PROJECT

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
    cell = kernel.converse(source, ["n", "where all", "rank 2", "p x", "c", "c"])
    assert (
        "where all\n"
        "rank 0 on machine0   waits in all_reduce (cell line 6:   dist.all_reduce(x))\n"
        "rank 1 on machine0   stopped at cell line 6:   dist.all_reduce(x)\n"
        "rank 2 on machine1   stopped at cell line 5:   y = x + 1\n"
        "rank 3 on machine1   waits in all_reduce (cell line 6:   dist.all_reduce(x))\n" in cell.stream
    )
    assert "tensor([2., 2.])" in cell.stream
    assert cell.value == str([[6.0, 6.0]] * 4)


def test_ranks_that_stay(kernel: NotebookSession) -> None:
    cell = kernel.converse("%%ranks 4 --on machines\nx = rank + 1\nbreakpoint()\nx", ["rank 3", "p x * 10", "q"])
    assert "rank 3 of 4, cell line 3> p x * 10\n40\n" in cell.stream
    assert cell.error.startswith("KeyboardInterrupt: you quit the debugger\n    rank 0 on machine0   is at cell line 3")
    assert "name 'x' is not defined" in kernel.run("%%ranks\nx").error
