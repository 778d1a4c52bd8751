"""`launch(..., on=nodes)`: the same as on this machine, in namespaces and in a job of a real Slurm.

Nodes that can't be used are refused with their name and the reason, also those that ssh should reach.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from nights import nightly
from places import here
from slurm_sites import allocate
from ssh_sites import reached_by_real_ssh

from ddp_lessons import Hosts, launch, tell
from ddp_lessons.machines import Machines, SlurmOnMachines
from ddp_lessons.run.nodes.hosts import NodeLost, Nodes
from ddp_lessons.run.nodes.node_group import disconnect
from ddp_lessons.run.nodes.pump import CONTROL, Pump

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


def add_up(rank: int, world_size: int, tensor: torch.Tensor) -> torch.Tensor:
    mine = tensor * rank
    dist.all_reduce(mine)
    return mine


def threads(rank: int, world_size: int) -> int:
    return torch.get_num_threads()


def print_much(rank: int, world_size: int) -> None:
    for number in range(3000):
        print(f"rank {rank} line {number}")


def pass_on(rank: int, world_size: int) -> None:
    for turn in range(5):
        if rank == 0:
            dist.send(torch.ones(1), dst=world_size - 1)
        elif rank == world_size - 1:
            dist.recv(torch.ones(1), src=0)
        tell("turn", number=turn)


def test_neighboring_ranks_share_a_node_and_know_their_number_there(nodes: Nodes) -> None:
    names = [("machine0", "0"), ("machine0", "1"), ("machine0", "2"), ("machine1", "0"), ("machine1", "1")]
    assert list(launch(where, 5, on=nodes)) == names


def test_ranks_share_the_cores_unless_you_say_how_many(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    usable = len(os.sched_getaffinity(0))
    assert list(launch(threads, 2, on=nodes)) == [usable if isinstance(nodes, Machines) else min(4, usable)] * 2
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert list(launch(threads, 2, on=nodes)) == [3] * 2


def test_values_are_those_of_a_launch_here_also_large_ones(nodes: Nodes) -> None:
    large = torch.arange(3_000_000, dtype=torch.float64)
    here, there = launch(add_up, 4, large), launch(add_up, 4, large, on=nodes)
    assert all(torch.equal(one, other) for one, other in zip(here, there, strict=True))


def test_all_lines_arrive_in_order(nodes: Nodes) -> None:
    lines = launch(print_much, 3, on=nodes, quiet=True).lines
    assert lines == tuple([f"rank {rank} line {number}" for number in range(3000)] for rank in range(3))


def test_calls_of_both_nodes_are_on_one_clock_and_what_was_logged_arrives(nodes: Nodes) -> None:
    results = launch(pass_on, 4, on=nodes)
    sent = sorted(event.begin for event in results.events if event.operation == "send")
    received = sorted(event.end or 0.0 for event in results.events if event.operation == "recv")
    error = sum(results.events.clock_errors.values())
    assert len(sent) == len(received) == 5
    assert error < 1
    assert all(begin - error < end < begin + 60 for begin, end in zip(sent, received, strict=True))
    assert [len(rank) for rank in results.told] == [5] * 4


class NeverAsked:
    def commands(self) -> list[Any]:
        raise AssertionError("nodes were requested")


WRONG = [
    ({"world_size": 513}, "at most 512 ranks start on nodes"),
    ({"on": Hosts}, "on must be nodes"),
]


@pytest.mark.parametrize(("wrong", "what"), WRONG)
def test_a_wrong_argument_is_refused_before_nodes_are_requested(wrong: dict[str, Any], what: str) -> None:
    """They may be granted only after hours."""
    with pytest.raises((TypeError, ValueError), match=re.escape(what)):
        launch(where, **{"world_size": 2, "on": NeverAsked(), **wrong})


@pytest.mark.parametrize(("names", "what"), [(("a", "a"), "each once"), (("-oProxyCommand=x",), "is no name of a ma")])
def test_wrong_names_of_hosts_are_refused(names: tuple[str, ...], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Hosts(*names)


def test_a_host_is_reached_by_the_words_of_through() -> None:
    (ssh,), (pod,) = Hosts("alpha").commands(), Hosts("alpha", through="kubectl exec 'my {host}' --").commands()
    assert (ssh.command[0], *ssh.command[-3:]) == ("ssh", "--", "alpha", "sh")
    assert pod.command == ["kubectl", "exec", "my alpha", "--", "sh"]
    assert shlex.split(pod.shown) == pod.command[:-1]


def test_a_command_that_is_not_here_is_named() -> None:
    with pytest.raises(NodeLost, match=r"alpha can't start ranks: .*'no-such-command'"):
        launch(where, 1, on=Hosts("alpha", through="no-such-command {host}"))


def test_a_request_that_comes_before_the_pump_is_not_lost() -> None:
    incoming, requests = os.pipe()
    os.write(requests, struct.pack("<qI", CONTROL, 2) + b"hi")
    ours, theirs = socket.socketpair()
    Pump(incoming, os.open(os.devnull, os.O_WRONLY), theirs.detach())
    ours.settimeout(10)
    assert ours.recv(2) == b"hi"
    os.close(requests)


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
        with pytest.raises(NodeLost, match=rf"machine0 has torch 1\.9\.0, and this notebook {torch.__version__[:3]}"):
            launch(where, 1, on=machines)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of two nodes that ssh reaches."""
    with reached_by_real_ssh(folder := tmp_path_factory.mktemp("ssh")):
        yield folder


SSH = "ssh -T -oBatchMode=yes -oIdentityFile={keys}/%s -oUserKnownHostsFile={keys}/%s {{host}}"
REFUSED = [
    ("machine0", sys.executable, SSH % ("strange", "known"), "Permission denied"),
    ("machine0", sys.executable, SSH % ("mine", "nothing"), "Host key verification failed"),
    ("nowhere.invalid", sys.executable, SSH % ("mine", "known"), "Could not resolve hostname nowhere.invalid"),
    ("machine0", "/nowhere/python", SSH % ("mine", "known"), "/nowhere/python: "),
    ("machine0", "/bin/false", SSH % ("mine", "known"), "its command ended with status 1"),
]


@pytest.mark.parametrize(("host", "python", "through", "said"), REFUSED)
def test_what_ssh_or_the_shell_there_says_is_in_the_refusal_with_a_command_to_try(
    keys: Path, host: str, python: str, through: str, said: str
) -> None:
    with pytest.raises(NodeLost) as refused:
        launch(where, 1, on=Hosts(host, python=python, through=through.format(keys=keys)))
    assert refused.value.headline.startswith(f"{host} can't start ranks: ")
    assert said in refused.value.headline
    command = str(refused.value).partition("Next: run `")[2].partition("`")[0]
    tried = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=60)
    assert tried.returncode != 0
    assert said in tried.stderr or not tried.stderr
