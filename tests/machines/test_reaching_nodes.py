"""Nodes that can't be used are refused with their name and the reason, and machines that a real sshd reaches work."""

from __future__ import annotations

import os
import re
import resource
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
from ssh_sites import reached_by_real_ssh

from ddp_lessons import Hosts, WorkersStuck, launch
from ddp_lessons.machines import Machines
from ddp_lessons.run.nodes.hosts import NodeLost
from ddp_lessons.run.nodes.node_group import disconnect
from ddp_lessons.run.nodes.pump import CONTROL, Pump

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class NeverAsked:
    def commands(self) -> list[Any]:
        raise AssertionError("nodes were requested")


def where(rank: int, world_size: int) -> str:
    return socket.gethostname()


def leave_early(rank: int, world_size: int) -> None:
    if rank != 3:
        dist.all_reduce(torch.ones(2))


WRONG = [
    ({"world_size": 513}, "at most 512 ranks start on nodes"),
    ({"backend": "glue"}, "unknown backend 'glue'; torch has"),
    ({"join": "no"}, "join must be True or False"),
    ({"on": Hosts}, "on must be nodes"),
]


@pytest.mark.parametrize(("wrong", "what"), WRONG)
def test_a_wrong_argument_is_refused_before_nodes_are_requested(wrong: dict[str, Any], what: str) -> None:
    """They may be granted only after hours."""
    with pytest.raises((TypeError, ValueError), match=re.escape(what)):
        launch(where, **{"world_size": 2, "on": NeverAsked(), **wrong})


@pytest.mark.parametrize("names", [(), ("a", "a"), ("-oProxyCommand=x",), (["a", "b"],), ("",)])
def test_wrong_names_of_hosts_are_refused(names: Any) -> None:
    with pytest.raises(ValueError, match="each once" if names in ((), ("a", "a")) else "is no name of a machine"):
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


@nightly
def test_many_ranks_need_more_open_files_than_a_process_usually_may_have() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 50, hard))
    node = Hosts("here", through="env")
    try:
        assert list(launch(where, 20, on=node, join=False)) == [where(0, 1)] * 20
    finally:
        disconnect(node)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hosts, Path]]:
    with reached_by_real_ssh(folder := tmp_path_factory.mktemp("ssh")) as hosts:
        yield hosts, folder
        disconnect(hosts)


@nightly
def test_over_ssh_it_is_the_same(two_hosts: tuple[Hosts, Path]) -> None:
    assert list(launch(where, 4, on=two_hosts[0])) == ["machine0"] * 2 + ["machine1"] * 2
    with pytest.raises(WorkersStuck, match="rank 3 on machine1   has returned"):
        launch(leave_early, 4, on=two_hosts[0])


REFUSED = [
    ("machine0", "strange", "known", sys.executable, "Permission denied"),
    ("machine0", "mine", "nothing", sys.executable, "Host key verification failed"),
    ("nowhere.invalid", "mine", "known", sys.executable, "Could not resolve hostname nowhere.invalid"),
    ("machine0", "mine", "known", "/nowhere/python", "/nowhere/python: "),
    ("machine0", "mine", "known", "/bin/false", "its command ended with status 1"),
]


@pytest.mark.parametrize(("host", "key", "known", "python", "said"), REFUSED)
def test_what_ssh_or_the_shell_there_says_is_in_the_refusal_with_a_command_to_try(
    two_hosts: tuple[Hosts, Path], host: str, key: str, known: str, python: str, said: str
) -> None:
    files = f"-oIdentityFile={two_hosts[1]}/{key} -oUserKnownHostsFile={two_hosts[1]}/{known}"
    with pytest.raises(NodeLost) as refused:
        launch(where, 1, on=Hosts(host, python=python, through=f"ssh -T -oBatchMode=yes {files} {{host}}"))
    assert refused.value.headline.startswith(f"{host} can't start ranks: ")
    assert said in refused.value.headline
    command = str(refused.value).partition("Next: run `")[2].partition("`")[0]
    tried = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=60)
    assert tried.returncode != 0
    assert said in tried.stderr or not tried.stderr
