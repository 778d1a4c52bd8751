"""`python -m ddp_lessons explain --on NODES` over a real ssh. In a job of a real Slurm: test_slurm.py.

What is said of a script is compared with what `explain` says of it on this machine.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nights import nightly
from places import here
from processes import PROJECT, eventually
from ssh_sites import reached_by_ssh

from ddp_lessons.machines import Machines

pytestmark = nightly

COMMAND = [sys.executable, "-m", "ddp_lessons", "explain"]
ON_BOTH = ["--on", "machine0,machine1"]
SCRIPT = """
import sys, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
is_last, what = dist.get_rank() == dist.get_world_size() - 1, sys.argv[1]
tensor = torch.ones(2)
dist.all_reduce(tensor)
if what == "raise" and is_last:
    raise ValueError("nothing to read")
if what == "sleep":
    print("sleeps", flush=True)
    time.sleep(600)
operator = dist.ReduceOp.MAX if what == "operators" and is_last else dist.ReduceOp.SUM
dist.all_reduce(tensor, op=operator)
"""
SAY_VARIABLES = r"""
import json, os, platform, re, sys
of_torchrun = "(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|TORCHELASTIC_(RE|MAX|RUN)\w+|MASTER_ADDR|ROLE_NAME|OMP\w+"
variables = {name: value for name, value in os.environ.items() if re.fullmatch(of_torchrun, name)}
said = [platform.node(), variables, sys.argv, sys.path[0], __name__]
os.write(1, f"{json.dumps(said)}\n".encode())
"""


@pytest.fixture(scope="module")
def by_ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a user whose ssh reaches machine0 and machine1."""
    with here(Machines(2)) as machines, reached_by_ssh(machines, tmp_path_factory.mktemp("ssh")):
        yield {**os.environ, "PYTHONPATH": os.fspath(PROJECT)}


def explained(
    folder: Path, environment: dict[str, str], *words: str, text: str = SCRIPT
) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(text)
    return subprocess.run(
        [*COMMAND, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def without_names(message: str) -> list[str]:
    """Without nodes. Who lost the connection first, and who was stopped before that, is a race here, too."""
    lines = re.sub(r" on machine[01]( and machine1)?", "", message).splitlines()
    return [line for line in lines if line and not re.match(r"  Ranks? \d|  Last output|  Nodes: ", line)]


def test_each_rank_has_the_variables_and_arguments_that_torchrun_gives(
    by_ssh: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    environment = {name: value for name, value in by_ssh.items() if name != "OMP_NUM_THREADS"}
    words = [*ON_BOTH, "--nproc-per-node", "2", "train.py", "-x", "2"]
    done = explained(tmp_path, environment, *words, text=SAY_VARIABLES)
    assert done.returncode == 0, done.stderr
    said = [json.loads(line.partition(" | ")[2]) for line in sorted(done.stdout.splitlines())]
    with here(Machines(2)) as machines:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=2"]
        torchrun += ["--master-addr=10.77.0.1"]
        job = machines.start(lambda node: [*torchrun, f"--node-rank={node}", f"{tmp_path}/train.py", "-x", "2"])
        told = [json.loads(line) for line in job.finish(60).lines() if line.startswith("[")]
    assert said == sorted(told, key=lambda one: int(one[1]["RANK"]))


@pytest.mark.parametrize(
    ("what", "also"),
    [
        ("raise", "\nTraceback (most recent call last):\n  File"),
        ("operators", "\n  Nodes: rank 0 on machine0, rank 1 on"),
    ],
)
def test_what_goes_wrong_is_told_as_on_one_machine_with_the_nodes(
    by_ssh: dict[str, str], tmp_path: Path, what: str, also: str
) -> None:
    there = explained(tmp_path, by_ssh, *ON_BOTH, "train.py", what)
    here = explained(tmp_path, by_ssh, "--nproc-per-node", "2", "train.py", what)
    assert there.returncode == here.returncode == 1
    assert re.search(r"rank 1( of 2)? on machine1", there.stderr)
    assert also in there.stderr
    told = there.stderr[there.stderr.index("\nWorker") :]
    assert without_names(told) == without_names(here.stderr[here.stderr.index("\nWorker") :])


def test_the_node_s_own_files_are_run(by_ssh: dict[str, str], tmp_path: Path) -> None:
    """A module of the folder where `explain` was typed must not come before that of the script's folder."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "model.py").write_text("name = 'of the script'")
    (tmp_path / "there" / "script.py").write_text("import model; print(model.name)")
    (tmp_path / "model.py").write_text("name = 'of the folder'")
    done = explained(tmp_path, by_ssh, "--on", "machine1", "there/script.py")
    assert (done.returncode, done.stdout) == (0, "rank 0 | of the script\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--on", "machine0,machine1", "nowhere.py"], "no such script on machine0 and machine1: {folder}/nowhere.py\n"),
        (["--on", "machine0,elsewhere", "train.py"], "elsewhere can't start ranks: ssh: Could not resolve"),
        (["--on", "slurm", "train.py"], "Next: run it in a job that you start with `salloc --nodes=2`"),
    ],
)
def test_what_cannot_start_is_a_sentence(by_ssh: dict[str, str], tmp_path: Path, words: list[str], said: str) -> None:
    done = explained(tmp_path, by_ssh, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("explain cannot start: ")
    assert said.format(folder=tmp_path) in done.stderr


def left_on(node: str, environment: dict[str, str]) -> list[str]:
    look = ["ssh", node, "pgrep -fa '[a]gent.serve|[t]emplate.serve'"]
    return subprocess.run(look, env=environment, capture_output=True, text=True, check=False).stdout.splitlines()


@pytest.mark.no_second_try
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_nothing_is_left_on_the_nodes(
    by_ssh: dict[str, str], tmp_path: Path, number: int, status: int
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    command, pipe = [*COMMAND, *ON_BOTH, "train.py", "sleep"], subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=by_ssh, stdout=pipe, stderr=pipe, text=True) as explaining:
        assert explaining.stdout is not None
        assert {explaining.stdout.readline() for _ in range(2)} == {"rank 0 | sleeps\n", "rank 1 | sleeps\n"}
        assert left_on("machine0", by_ssh)
        explaining.send_signal(number)
        _, told = explaining.communicate(timeout=30)
    assert explaining.returncode == status
    assert number == signal.SIGTERM or "rank 1 on machine1   is at train.py line 13:   time.sleep(600)" in told
    for node in ("machine0", "machine1"):
        assert eventually(lambda: not left_on(node, by_ssh))  # noqa: B023  called at once
