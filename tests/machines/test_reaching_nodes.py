"""Nodes for `launch(..., on=...)` that can't be used, and machines that a real sshd reaches."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from ddp_lessons.run.nodes.about_node import gpus
from nights import nightly
from places import here
from ssh_sites import reached_by_real_ssh

from ddp_lessons import Hosts, WorkerFailed, WorkersStuck, __version__, launch
from ddp_lessons.machines import Machines
from ddp_lessons.run.nodes.hosts import NodeCommand, NodeLost, agent_command
from ddp_lessons.run.nodes.node_group import connected, disconnect

cloudpickle.register_pickle_by_value(sys.modules[__name__])

TORCH = ".".join(torch.__version__.split(".")[:2])


class OnThisMachine:
    """Nodes that are no more than agents, all on this machine."""

    def __init__(self, count: int) -> None:
        self._count = count

    def commands(self) -> list[NodeCommand]:
        return [NodeCommand(f"node{number}", agent_command()) for number in range(self._count)]


def where(rank: int, world_size: int) -> str:
    return socket.gethostname()


def add_up(rank: int, world_size: int, tensor: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(tensor)
    return tensor


def leave_early(rank: int, world_size: int) -> None:
    if rank != 3:
        dist.all_reduce(torch.ones(2))


def rank_of(rank: int, world_size: int) -> int:
    return rank


@nightly
def test_many_ranks_need_more_open_files_than_a_process_usually_may_have() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 50, hard))
    node = OnThisMachine(1)
    try:
        assert list(launch(rank_of, 20, on=node, join=False)) == list(range(20))
    finally:
        disconnect(node)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_nodes_may_have_more_ranks_than_this_machine_but_not_more_than_a_notebook_follows() -> None:
    with pytest.raises(ValueError, match=r"at most 64 ranks start here; for more, use nodes"):
        launch(rank_of, 65)
    with pytest.raises(ValueError, match="at most 512 ranks start on nodes"):
        launch(rank_of, 513, on=OnThisMachine(1))


@pytest.mark.parametrize(
    ("backend", "what"),
    [
        ("glue", "unknown backend 'glue'; torch has"),
        ("nccl", "NCCL needs one GPU per rank: 2 ranks, but the nodes have GPUs for 0 of them"),
    ],
)
def test_a_backend_that_the_nodes_do_not_have_is_refused(
    backend: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with here(Machines(1)) as machines, pytest.raises(ValueError, match=what):
        launch(where, 2, on=machines, backend=backend)


class NeverAsked:
    def commands(self) -> list[NodeCommand]:
        raise AssertionError("nodes were requested")


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"backend": "glue"}, "unknown backend 'glue'; torch has"),
        ({"backend": 5}, 'backend must be a name such as "gloo"'),
        ({"join": "no"}, "join must be True or False"),
        ({"record": "all"}, 'record must be True, False or "values"'),
        ({"live": 5}, "live must be a function that draws"),
    ],
)
def test_a_wrong_argument_is_refused_before_nodes_are_requested(wrong: dict[str, Any], what: str) -> None:
    """They may be granted only after hours."""
    with pytest.raises((TypeError, ValueError), match=re.escape(what)):
        launch(where, 2, on=NeverAsked(), **wrong)


class AtAnotherPlace:
    """The same nodes, where Python and its packages are in other folders than here."""

    def __init__(self, machines: Machines, folder: Path) -> None:
        self._machines, self._folder = machines, folder
        packages = Path(torch.__file__).parent.parent
        for name, source in (("python", sys.base_prefix), ("site-packages", str(packages))):
            (folder / name).mkdir()
            machines.run(0, ["mount", "--bind", source, str(folder / name)]).check_returncode()

    def commands(self) -> list[NodeCommand]:
        python = self._folder / "python" / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        (one,) = self._machines.commands()
        words = ["env", f"PYTHONPATH={self._folder / 'site-packages'}", *agent_command(str(python))]
        return [NodeCommand(one.node, [*one.command[: -len(agent_command())], *words])]


def fails_inside_torch(rank: int, world_size: int) -> None:
    dist.broadcast(torch.ones(1), src=9)


def fails_inside_the_standard_library(rank: int, world_size: int) -> None:
    json.loads("{")


def returns_where_python_is(rank: int, world_size: int) -> tuple[str, str]:
    return sys.prefix, torch.__file__


@nightly
def test_messages_name_the_learners_line_wherever_python_is_on_the_node(tmp_path: Path) -> None:
    with here(Machines(1)) as machines:
        there = AtAnotherPlace(machines, tmp_path)
        prefix, file = launch(returns_where_python_is, 1, on=there)[0]
        assert prefix == str(tmp_path / "python")
        assert file.startswith(str(tmp_path / "site-packages"))
        for function in (fails_inside_torch, fails_inside_the_standard_library):
            said = []
            for on in (None, there):
                with pytest.raises(WorkerFailed) as failed:
                    launch(function, 2, on=on)
                said.append(str(failed.value).replace(" on machine0", ""))
            assert said[0] == said[1]


@pytest.mark.parametrize(("version", "is_refused"), [("1.9.0", True), (f"{TORCH}.9+cu999", False)])
def test_another_release_of_torch_on_a_node_is_refused(
    version: str, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / f"torch-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: torch\nVersion: {version}\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    with here(Machines(1)) as machines:
        if is_refused:
            told = rf"machine0 has torch {version}, and this notebook {TORCH}.* Next: .*pip install torch=={TORCH}\.\d"
            with pytest.raises(NodeLost, match=told):
                launch(where, 1, on=machines)
        else:
            assert connected(machines).links[0].hello.torch == version


@pytest.mark.parametrize(
    ("devices", "visible", "number"),
    [
        (["null", "nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"], None, 2),
        (["nvidia0", "nvidia1", "nvidia2"], "0,2", 2),
        (["nvidia0"], "GPU-8932f937,MIG-1234", 2),
        (["nvidia0"], "", 0),
        (["nvidia0"], "NoDevFiles", 0),
        (["null"], "0", 0),
    ],
)
def test_the_gpus_of_a_job_are_those_that_it_may_see(devices: list[str], visible: str | None, number: int) -> None:
    assert gpus(devices, visible) == number


@pytest.mark.parametrize("wrong", ["alpha", Hosts, 3])
def test_what_is_no_nodes_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="on must be nodes"):
        launch(where, 2, on=wrong)


def test_hosts_are_checked() -> None:
    for names, what in (((), "needs the names"), (("a", "a"), "named twice"), (("-oProxyCommand=x",), "no name")):
        with pytest.raises(ValueError, match=what):
            Hosts(*names)


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hosts, Path]]:
    folder = tmp_path_factory.mktemp("ssh")
    with reached_by_real_ssh(folder) as hosts:
        yield hosts, folder


@nightly
def test_over_ssh_it_is_the_same(two_hosts: tuple[Hosts, Path]) -> None:
    hosts, _ = two_hosts
    assert list(launch(where, 4, on=hosts)) == ["machine0"] * 2 + ["machine1"] * 2
    assert [one.item() for one in launch(add_up, 4, torch.ones(1), on=hosts)] == [4.0] * 4
    with pytest.raises(WorkersStuck, match="rank 3 on machine1   has returned"):
        launch(leave_early, 4, on=hosts)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        (
            "machine0",
            ("-oIdentityFile={folder}/strange", "-oUserKnownHostsFile={folder}/known"),
            "accepts none of your",
        ),
        ("machine0", ("-oUserKnownHostsFile=/dev/null", "-oIdentityFile={folder}/mine"), "its host key is not known"),
        ("nowhere.invalid", (), "no such host name is known here"),
        ("machine0 -p 9", (), "hostname contains invalid characters"),
    ],
)
def test_what_ssh_refuses_is_a_sentence_with_a_next_step(
    two_hosts: tuple[Hosts, Path], name: str, options: tuple[str, ...], said: str
) -> None:
    folder = two_hosts[1]
    with pytest.raises((NodeLost, ValueError)) as caught:
        launch(where, 1, on=Hosts(name, options=[option.format(folder=folder) for option in options]))
    assert said in str(caught.value)


@nightly
def test_what_a_host_lacks_is_named_with_a_command_to_copy(two_hosts: tuple[Hosts, Path]) -> None:
    hosts, folder = two_hosts
    bare = folder / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(NodeLost) as refused:
        launch(where, 1, on=Hosts("machine0", python=str(bare), options=hosts._options))
    command = str(refused.value).partition("`")[2].partition("`")[0]
    assert command.endswith(f" -m pip install ddp-lessons=={__version__}")
    asked = command.replace("-m pip install", "--version")  # the same way to the same Python, and nothing is installed
    said = subprocess.run(asked, shell=True, capture_output=True, text=True, check=True).stdout
    assert said == f"Python {platform.python_version()}\n"


def test_another_python_on_the_host_is_a_sentence(two_hosts: tuple[Hosts, Path]) -> None:
    hosts, _ = two_hosts
    with pytest.raises(NodeLost, match="there is no such Python there"):
        launch(where, 1, on=Hosts("machine0", python="/nowhere/python", options=hosts._options))
    with pytest.raises(NodeLost, match="machine0 can't start ranks"):
        launch(where, 1, on=Hosts("machine0", python="/usr/bin/python3", options=hosts._options))


@nightly
def test_a_python_that_says_nothing_comes_with_a_command_to_try(two_hosts: tuple[Hosts, Path]) -> None:
    hosts, folder = two_hosts
    mute = folder / "mute-python"
    mute.write_text(f'#!/bin/sh\n[ "$1" = -u ] && exit 3\nexec {sys.executable} "$@"\n')
    mute.chmod(0o755)
    with pytest.raises(NodeLost, match="the command ended with status 3 and said nothing") as refused:
        launch(where, 1, on=Hosts("machine0", python=str(mute), options=hosts._options))
    command = str(refused.value).partition("`")[2].partition("`")[0]
    said = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    assert said.startswith("usage: python -m ddp_lessons")
