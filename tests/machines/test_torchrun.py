"""torchrun on several machines: the same training as on one, and what is said when one of them is lost or not found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from nights import nightly
from places import here, places_of
from processes import PROJECT

from ddp_lessons.machines import Attempt, Machines

pytestmark = nightly

TRAIN = f"{PROJECT}/scripts/many_machines.py"
HELLO = """
import os, platform, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * dist.get_rank()
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} on {platform.node()}: {total.item()}", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def three() -> Iterator[Machines]:
    with here(Machines(3)) as machines:
        yield machines


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    (tmp_path / "hello.py").write_text(HELLO)
    return tmp_path / "hello.py"


def torchrun(machines: int, options: str, script: object, endpoint: str = "machine0:29400") -> str:
    meet = f"--nnodes={machines} --rdzv-backend=c10d --rdzv-endpoint={endpoint}"
    return f"{sys.executable} -m torch.distributed.run {meet} {options} {script}"


def test_three_machines_meet(three: Machines, hello: Path) -> None:
    attempt = three.everywhere(torchrun(3, "--nproc-per-node=1", hello), 90)
    assert attempt.ended_well, attempt
    lines = sorted(line for line in attempt.lines() if line.startswith("rank"))  # an agent may warn that it left later
    assert [line.split(" on ")[0] for line in lines] == [f"rank {rank} of 3" for rank in range(3)]
    assert sorted(line.split(" on ")[1] for line in lines) == [f"machine{number}: 3.0" for number in range(3)]


def test_two_machines_train_as_one_machine_does(tmp_path: Path) -> None:
    few = "--epochs 2 --samples 512 --network QuickNet"

    def arguments(name: str) -> str:
        return f"{few} --checkpoint {tmp_path}/{name}.pt --save {tmp_path}/{name}.weights"

    with here(Machines(2)) as machines:
        apart = machines.everywhere(torchrun(2, "--nproc-per-node=1", f"{TRAIN} {arguments('apart')}"), 90)
        assert apart.ended_well, apart
        command = torchrun(1, "--nproc-per-node=2", f"{TRAIN} {arguments('together')}")
        together = machines.start(command, [0]).finish(90)
        assert together.ended_well, together
    assert [(rank, size) for rank, size, _ in places_of(apart)] == [("0", "2"), ("1", "2")]
    assert {machine for *_, machine in places_of(apart)} == {"machine0", "machine1"}
    one, other = (torch.load(tmp_path / f"{name}.weights") for name in ("apart", "together"))
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], atol=1e-6, rtol=0)


def cut_off(tmp_path: Path, options: str, timeout: int) -> Attempt:
    """Machine 1 loses its cable in the second epoch."""
    arguments = f"{TRAIN} --epochs 400 --samples 128 --timeout {timeout} --checkpoint {tmp_path}/cut.pt"
    with here(Machines(2)) as machines:
        job = machines.start(torchrun(2, f"--nproc-per-node=1 {options}", arguments))
        job.wait_for("epoch 1 of", 60)
        machines.cut(1)
        moment = job.seconds
        attempt = job.finish(15)
    return Attempt(attempt.statuses, tuple(said for said in attempt.said if said.seconds > moment), moment)


def test_a_machine_that_is_cut_off_is_noticed_when_the_timeout_of_the_group_is_over(tmp_path: Path) -> None:
    attempt = cut_off(tmp_path, "", timeout=5)
    assert not attempt.ended_well
    complaint = attempt.complaint(0)
    assert complaint, attempt
    assert complaint.seconds - attempt.seconds > 4


@nightly
def test_nobody_at_the_rendezvous_is_said_after_a_minute(three: Machines, hello: Path) -> None:
    attempt = three.start(torchrun(2, "--nproc-per-node=1", hello, "10.77.0.99:29400"), [1]).finish(120)
    assert attempt.statuses == (1,)
    assert attempt.has("10.77.0.99", 1)
    assert attempt.seconds > 55
