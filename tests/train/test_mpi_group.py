"""The group over MPI, under a real mpirun, against gloo."""

from __future__ import annotations

import functools
import importlib.util
import json
import pathlib
from typing import Any

import pytest
from mpi_here import need_mpi
from mpi_programs import under_launch
from nights import by_day, nightly

from ddp_lessons import launch
from ddp_lessons.backends.under_mpirun import run_under_mpirun

PROGRAM = str(pathlib.Path(__file__).parent.parent / "mpi_programs.py")


@functools.cache
def over_mpi(world_size: int) -> list[tuple[dict[str, Any], list[str]]]:
    """What each rank got from every call, and what it was refused."""
    return list(json.loads(run_under_mpirun([PROGRAM], world_size, 180)))


@nightly
@pytest.mark.parametrize("world_size", by_day([4, 2, 3, 8], 1))
def test_every_call_gives_what_gloo_gives(world_size: int) -> None:
    need_mpi()
    over_gloo = list(launch(under_launch, world_size))
    for (ours, _), gloos in zip(over_mpi(world_size), over_gloo, strict=True):
        assert ours.keys() == gloos.keys()
        for name, answer in ours.items():
            assert answer == pytest.approx(gloos[name], rel=1e-12) if "weights" in name else answer == gloos[name], name


@nightly
def test_what_mpi_cannot_do_is_refused_in_words() -> None:
    need_mpi()
    for _, refused in over_mpi(4):
        assert refused[:3] == [
            "NotImplementedError: MPI has no such operator: for a mean, add up and divide by the world size",
            "ValueError: MPI cannot add torch.bfloat16: send it as float32",
            "ValueError: MPI reads a tensor's memory: give one on the CPU that lies in one piece (contiguous)",
        ]
    # who is not in a group makes none
    smaller = "NotImplementedError: mpirun started 4 processes, and this group would have 1: it has to have all of them"
    assert [refused[3:] for _, refused in over_mpi(4)] == [[smaller], [], [], []]


def test_without_mpi4py_the_module_still_loads() -> None:
    """The tests look into every module of the lessons, and most machines have no MPI."""
    code = "import sys; sys.modules['mpi4py'] = None; import ddp_lessons.train.mpi_group"
    assert importlib.util.find_spec("ddp_lessons.train.mpi_group") is not None
    exec(code, {})
