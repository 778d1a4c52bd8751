"""Machines that are not as one expects, and notebooks that did a lot before: a launch is right, or says why not."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from nights import nightly
from notebook_session import NotebookSession
from processes import PROJECT, Program, eventually

from ddp_lessons import launch

DEFINE = """
import os, sys, time
from ddp_lessons import launch, Workers
def add_up(rank, size):
    import torch, torch.distributed as dist
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    print("\\xfc \\u6f22")
    total = torch.ones(1) * rank
    dist.all_reduce(total)
    return total.item()
"""
ADD_UP = DEFINE + "print(list(launch(add_up, 3)), flush=True)\n"
JOIN_BY_ITSELF = DEFINE + "print(list(launch(add_up, 3, join=False)), flush=True)\n"
RIGHT = ["[3.0, 3.0, 3.0]", "rank 0 | ü 漢", "rank 1 | ü 漢", "rank 2 | ü 漢"]


def said_by(
    source: str,
    *,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str | None] | None = None,
    folder: Path | None = None,
    options: Sequence[str] = (),
) -> str:
    """All that a program says in these surroundings; nothing of it may be left afterwards."""
    with Program(source, prefix=prefix, environment=environment, folder=folder, options=options) as program:
        said = program.finish()
        assert eventually(lambda: not program.marked())
    return said


def shell(before: str) -> list[str]:
    """Begin the program in a shell that did something before."""
    return ["sh", "-c", f'{before} && exec "$@"', "sh"]


def namespaces(kinds: str, before: str) -> list[str]:
    """The same in namespaces of its own, so that it may take away the network or change what is mounted."""
    if os.geteuid() != 0 or subprocess.run(["unshare", *kinds.split(), "true"], check=False).returncode != 0:
        pytest.skip("only root can take a network, a host name or a mount away from a program, and only with unshare")
    return ["unshare", *kinds.split(), *shell(before)]


UNKNOWN_HOST = "hostname nobody.knows.invalid && ip link set lo up"
ONLY_VERSION_6 = "ip link set lo up && ip addr del 127.0.0.1/8 dev lo"

# program and surroundings; of a function, what it returns, because not every machine can do it
RIGHT_IN: dict[str, Callable[[], str]] = {
    "no network": lambda: said_by(ADD_UP, prefix=namespaces("-n -u", UNKNOWN_HOST)),
    "no network, joins by itself": lambda: said_by(JOIN_BY_ITSELF, prefix=namespaces("-n -u", UNKNOWN_HOST)),
    "only IPv6": lambda: said_by(ADD_UP, prefix=namespaces("-n", ONLY_VERSION_6)),
    "strict": lambda: said_by(ADD_UP, options=["-W", "error", "-B", "-u", "-O"]),
}


@nightly
@pytest.mark.parametrize("where", RIGHT_IN)
def test_ranks_add_up_in_any_surroundings(where: str) -> None:
    assert sorted(RIGHT_IN[where]().splitlines()) == RIGHT


@nightly
def test_without_even_loopback_the_error_says_so_at_once() -> None:
    said = said_by(ADD_UP, prefix=namespaces("-n", "true"))
    message = said[said.index("WorkerFailed: ") :]
    assert "Next: run `ip link set lo up`: the loopback interface, which connects the ranks, is down" in message


def add_up(rank: int, world_size: int) -> float:
    total = torch.ones(1) * rank
    dist.all_reduce(total)
    return total.item()


def join_and_add_up(rank: int, world_size: int) -> float:
    dist.init_process_group("gloo")
    return add_up(rank, world_size)


def test_a_file_that_hides_a_module_of_python_is_named(tmp_path: Path) -> None:
    (tmp_path / "struct.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", "from ddp_lessons import launch"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stderr.endswith("cannot be imported: module 'struct' has no attribute 'calcsize'\n"), done.stderr


def test_neither_the_environment_nor_a_usual_port_that_is_taken_does_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    another_launchers = {
        "RANK": "7",
        "WORLD_SIZE": "99",
        "MASTER_PORT": "29500",
        "MASTER_ADDR": "nobody.knows.invalid",
        "LOCAL_RANK": "x",
        "GROUP_RANK": "3",
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # whose rank 0 serves no store
    }
    interfaces = {"NCCL_SOCKET_IFNAME": "eth7", "GLOO_DEVICE_TRANSPORT": "TCP", "GLOO_SOCKET_IFNAME": "eth77"}
    for name, value in {**another_launchers, **interfaces}.items():
        monkeypatch.setenv(name, value)
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # then somebody else has taken it
            taken.bind(("127.0.0.1", 29500))
            taken.listen()
        assert list(launch(add_up, 3, quiet=True)) == [3.0, 3.0, 3.0]
        assert list(launch(join_and_add_up, 3, join=False, quiet=True)) == [3.0, 3.0, 3.0]


# --- folders and files ----------------------------------------------------------------------------------------------


@nightly
@pytest.mark.skipif(not sys.prefix.isascii(), reason="in the locale C torch is not imported from such a folder")
def test_the_folders_of_project_and_temporary_files_may_have_any_name_in_any_locale(tmp_path: Path) -> None:
    folder = tmp_path / "lé çon 漢 'quoted\" $HOME %s \\n"
    shutil.copytree(PROJECT / "ddp_lessons", folder / "ddp_lessons", ignore=shutil.ignore_patterns("__pycache__"))
    plain = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": None}
    environment = {"PYTHONPATH": os.fspath(folder), "TMPDIR": os.fspath(folder), **plain}
    source = f"import ddp_lessons; assert 'on ' in ddp_lessons.__file__\n{ADD_UP}"
    said = said_by(source, environment=environment, folder=folder)
    assert RIGHT[0] in said.splitlines()
    assert all(said.count(f"rank {rank} | ") == 1 for rank in range(3))  # in letters that the terminal has


@nightly
def test_the_learner_s_files_do_not_stand_in_for_python_s_own(tmp_path: Path) -> None:
    """They have famous names, and the learner wrote them while trying things out."""
    with NotebookSession(folder=os.fspath(tmp_path)) as session:  # with them from the beginning, Jupyter itself fails
        for name in ("random", "socket", "queue", "signal", "pickle", "types", "array", "selectors", "numpy"):
            (tmp_path / f"{name}.py").write_text(f"print('{name}.py of the learner')\nraise ImportError('{name}')\n")
        cell = session.run(f"{DEFINE}list(launch(add_up, 2)), launch(add_up, 3, join=False)[2]")
        assert (cell.value, cell.error) == ("([1.0, 1.0], 3.0)", "")


# --- what the notebook did before -----------------------------------------------------------------------------------
