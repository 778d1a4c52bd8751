"""Notebooks of a room fork their templates from one seed, and notice nothing of it but that they are quick."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator

import psutil
import pytest
from nights import nightly
from notebook_session import NotebookSession
from processes import eventually

from ddp_lessons.run.processes.shared_template import SEED
from ddp_lessons.workshop.seed import Seed

ADD_UP = """
import os, torch.distributed as dist, torch
from ddp_lessons import launch, WorkerFailed
def add_up(rank, world_size):
    tensor = torch.ones(1) * rank
    dist.all_reduce(tensor)
    return tensor.item(), os.getppid()
"""


@pytest.fixture(scope="module")
def seed() -> Iterator[Seed]:
    with Seed() as seed:
        yield seed


@nightly
def test_a_template_comes_from_the_seed_and_is_replaced_by_another_if_it_dies(seed: Seed) -> None:
    with NotebookSession(seed.variables) as kernel:
        kernel.run(ADD_UP)
        (_, template), *_ = eval(kernel.run("list(launch(add_up, 2))").value)
        assert psutil.Process(template).ppid() == seed.process.pid
        os.kill(template, signal.SIGKILL)
        assert eventually(lambda: not psutil.pid_exists(template))
        (total, another), *_ = eval(kernel.run("list(launch(add_up, 2))").value)
        assert (total, another == template) == (1.0, False)


@nightly
def test_who_set_what_torch_reads_gets_a_template_that_has_read_it(seed: Seed) -> None:
    with NotebookSession({**seed.variables, "TORCH_SHOW_CPP_STACKTRACES": "1"}) as kernel:
        kernel.run(ADD_UP)
        (total, template), *_ = eval(kernel.run("list(launch(add_up, 2))").value)
        assert total == 1.0
        assert psutil.Process(template).ppid() != seed.process.pid


@nightly
def test_without_its_seed_a_notebook_helps_itself() -> None:
    with NotebookSession({"DDP_LESSONS_SEED": "/nowhere/seed"}) as kernel:
        kernel.run(ADD_UP)
        assert eval(kernel.run("list(launch(add_up, 2))").value)[0][0] == 1.0


@pytest.mark.parametrize("question", [b"[]", b"nonsense", b"[" * 50_000, b'{"python": null}'])
def test_no_question_ends_the_seed(seed: Seed, question: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(seed.variables[SEED])
        asking.send(question)
        assert asking.recv(10) == b""
    seed.wait_until_ready(30)
    assert not seed.has_ended()


@nightly
def test_a_seed_that_was_killed_is_started_again_in_the_same_place() -> None:
    with Seed() as seed:
        before = seed.process.pid
        seed.process.kill()
        seed.process.wait()
        assert seed.has_ended()
        seed.start()
        seed.wait_until_ready(60)
        assert (seed.has_ended(), seed.process.pid == before) == (False, False)
