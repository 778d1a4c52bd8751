"""`launch(..., on=nodes)`: the same as on this machine, in namespaces and in a job of a real Slurm.

Nodes that can't be used are refused with their name and the reason, also those that ssh should reach.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from nights import nightly
from places import here
from slurm_sites import allocate
from ssh_sites import reached_by_ssh

from ddp_lessons import Hosts, launch, tell
from ddp_lessons.machines import Machines, SlurmOnMachines
from ddp_lessons.run.nodes.hosts import NodeLost, Nodes
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


def test_neighboring_ranks_share_a_node_and_know_their_number_there(nodes: Nodes) -> None:
    names = [("machine0", "0"), ("machine0", "1"), ("machine0", "2"), ("machine1", "0"), ("machine1", "1")]
    assert list(launch(where, 5, on=nodes)) == names


def test_ranks_share_the_cores_unless_you_say_how_many(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    def threads(rank: int, world_size: int) -> int:
        return torch.get_num_threads()

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    usable = len(os.sched_getaffinity(0))
    assert list(launch(threads, 2, on=nodes)) == [usable if isinstance(nodes, Machines) else min(4, usable)] * 2
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert list(launch(threads, 2, on=nodes)) == [3] * 2


def work(rank: int, world_size: int, tensor: torch.Tensor) -> torch.Tensor:
    for turn in range(5):
        if rank == 0:
            dist.send(torch.ones(1), dst=world_size - 1)
        elif rank == world_size - 1:
            dist.recv(torch.ones(1), src=0)
        tell("turn", number=turn)
    for number in range(3000):
        print(f"rank {rank} line {number}")
    mine = tensor * rank
    dist.all_reduce(mine)
    return mine


def test_values_and_lines_are_those_of_a_launch_here_also_large_and_many_ones(nodes: Nodes) -> None:
    large = torch.arange(3_000_000, dtype=torch.float64)
    here, there = (launch(work, 4, large, on=on, quiet=True) for on in (None, nodes))
    assert all(torch.equal(one, other) for one, other in zip(here, there, strict=True))
    assert there.lines == here.lines == tuple([f"rank {rank} line {line}" for line in range(3000)] for rank in range(4))


def test_calls_of_both_nodes_are_on_one_clock_and_what_was_logged_arrives(nodes: Nodes) -> None:
    results = launch(work, 4, torch.ones(1), on=nodes, quiet=True)
    sent = sorted(event.begin for event in results.events if event.operation == "send")
    received = sorted(event.end or 0.0 for event in results.events if event.operation == "recv")
    error = sum(results.events.clock_errors.values())
    assert len(sent) == len(received) == 5
    assert error < 1
    assert all(begin - error < end < begin + 60 for begin, end in zip(sent, received, strict=True))
    assert [len(rank) for rank in results.told] == [5] * 4


class NeverAsked:
    """Nodes may be granted only after hours."""

    def commands(self) -> list[Any]:
        raise AssertionError("nodes were requested")


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda: launch(where, 513, on=NeverAsked()), "at most 512 ranks can start on nodes"),
        (lambda: launch(where, 2, on=Hosts), "on must be nodes"),  # type: ignore[arg-type]
        (lambda: Hosts("a", "a"), "name of each machine once"),
        (lambda: Hosts("-oProxyCommand=x"), "is not the name of a machine"),
    ],
)
def test_a_wrong_argument_is_refused_before_nodes_are_requested(wrong: Callable[[], object], what: str) -> None:
    with pytest.raises((TypeError, ValueError), match=what):
        wrong()


def test_a_command_that_is_not_here_is_named() -> None:
    with pytest.raises(NodeLost, match=r"alpha can't start ranks: .*'no-such-command'"):
        launch(where, 1, on=Hosts("alpha", through="no-such-command {host}"))


def test_what_a_node_lacks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with here(Machines(1)) as machines:
        with pytest.raises(ValueError, match="2 ranks, but the nodes have GPUs for 0"):
            launch(where, 2, on=machines, backend="nccl")
        disconnect(machines)
        about = tmp_path / "torch-1.9.0.dist-info" / "METADATA"
        about.parent.mkdir()
        about.write_text("Name: torch\nVersion: 1.9.0\n")
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
        with pytest.raises(
            NodeLost, match=rf"machine0 has torch 1\.9\.0, but this notebook has {torch.__version__[:3]}"
        ):
            launch(where, 1, on=machines)


@pytest.fixture(scope="module")
def by_ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """There are two nodes that ssh reaches."""
    with here(Machines(2)) as machines, reached_by_ssh(machines, tmp_path_factory.mktemp("ssh")):
        yield


@pytest.mark.parametrize(
    ("python", "ssh", "said"),
    [
        (sys.executable, "ssh -oBatchMode=yes -oPubkeyAuthentication=no {host}", "Permission denied"),
        ("/nowhere/python", "ssh {host}", "/nowhere/python: "),
        ("/bin/false", "ssh {host}", "its command exited with status 1"),
    ],
    ids=["no key", "no Python", "nothing"],
)
def test_what_ssh_or_the_shell_there_says_is_in_the_refusal_with_a_command_to_try(
    by_ssh: None, python: str, ssh: str, said: str
) -> None:
    with pytest.raises(NodeLost) as refused:
        launch(where, 1, on=Hosts("machine0", python=python, through=ssh))
    assert refused.value.headline.startswith("machine0 can't start ranks: ")
    assert said in refused.value.headline
    command = str(refused.value).partition("Next: run `")[2].partition("`")[0]
    tried = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=60)
    assert tried.returncode != 0
    assert said in tried.stderr or not tried.stderr
