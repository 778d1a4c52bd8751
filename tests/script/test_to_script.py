"""`%to_script` in a real kernel: under torchrun its script says what launch() says, and no edit is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nights import nightly
from notebook_session import Cell, NotebookSession

PROJECT = Path(__file__).parents[2]
SECONDS = 180.0
BEGINNING = """
import os
%load_ext ddp_lessons
import torch
import torch.distributed as dist
from ddp_lessons import launch, tell
"""
NET = """
torch.manual_seed(5)
TABLE = torch.randn(3, 2)  # the same on every rank


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def forward(self, x):
        return self.layer(x)
"""
WITH_A_CLASS = """
def with_a_class(rank, world_size):
    torch.manual_seed(1)
    out = Net()(TABLE.T[:1] * (rank + 1)).detach()
    dist.all_reduce(out)
    tell(out=out.item())
    return f"{out.item():.6f}"
"""
WITH_ARGUMENTS = """
def with_arguments(rank, world_size, factor, words, shares, loud=True):
    return f"{words} {factor * shares[rank].item():.2f} {loud}"


def shares_of(world_size):
    return torch.arange(8.0).chunk(world_size)[0]
"""


# one rank, told so by variables as torchrun would
ALONE = """
import runpy, socket, sys
free = socket.socket()  # it stays bound, and lets the store listen there
free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
free.bind(("127.0.0.1", 0))
port = free.getsockname()[1]
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
sys.argv = {}
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    os.environ.pop("RANK")
"""


IMPORTS_OF_LESSON_5 = """
from torch import nn
from ddp_lessons.train import gradients
from ddp_lessons.train.replicas import fingerprint
"""


def launched(name: str, arguments: str = "") -> str:
    """Launch it and say what the script shall say."""
    return (
        f"answers = launch({name}, 2{arguments}, quiet=True)\n"
        "for rank, answer in enumerate(answers):\n    print(*answers.lines[rank], f'rank {rank}: {answer}', sep='\\n')"
    )


def lesson(number: str, *cells: str) -> list[str]:
    (file,) = (PROJECT / "notebooks").glob(f"{number}_*.ipynb")
    content = {cell["id"]: "".join(cell["source"]) for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]}
    return [content[cell] for cell in cells]


def under_torchrun(script: Path, *arguments: str) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
    logs = script.parent / f"logs of {script.stem}"  # a file for each rank: in one pipe, lines can tear each other
    command += ["--nproc-per-node=2", "--redirects=1", f"--log-dir={logs}", script.name, *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT), "GLOO_SOCKET_IFNAME": "lo"}
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=script.parent, env=environment, timeout=SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return sorted(line for log in logs.rglob("stdout.log") for line in log.read_text().splitlines())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[NotebookSession]:
    with NotebookSession({"PYTHONPATH": str(PROJECT)}, str(folder)) as session:
        assert not session.run(BEGINNING).error
        yield session


def run(session: NotebookSession, *cells: str) -> Cell:
    """All of them, of which only the last may fail."""
    *before, last = cells
    for cell in before:
        ended = session.run(cell)
        assert not ended.error, ended.error
    return session.run(last)


@nightly
def test_a_function_with_a_class_and_a_value(session: NotebookSession, folder: Path) -> None:
    said = run(session, NET, WITH_A_CLASS, launched("with_a_class"))
    written = run(session, "%to_script with_a_class with_a_class.py")
    assert written.stream == (
        "wrote with_a_class.py. Start it with: torchrun --standalone --nproc-per-node=2 with_a_class.py\n"
    )
    assert under_torchrun(folder / "with_a_class.py") == sorted(said.stream.strip().splitlines())


@nightly
def test_a_function_with_arguments(session: NotebookSession, folder: Path) -> None:
    said = run(session, WITH_ARGUMENTS, launched("with_arguments", ', 0.5, "a word", shares_of(4), False'))
    assert not run(session, "%to_script with_arguments with_arguments.py").error
    assert under_torchrun(folder / "with_arguments.py") == sorted(said.stream.strip().splitlines())
    told = session.run(ALONE.format(["with_arguments.py", "--factor=2", "--words=other", "--loud"]))
    assert told.stream == "rank 0: other 0.00 True\n"


@nightly
def test_a_simple_function_of_lesson_0(session: NotebookSession, folder: Path) -> None:
    said = run(session, *lesson("00", "cell-15"), launched("add_up"))
    assert not run(session, "%to_script add_up add_up.py").error
    assert under_torchrun(folder / "add_up.py") == sorted(said.stream.strip().splitlines())


@nightly
def test_the_training_of_lesson_5(session: NotebookSession, folder: Path) -> None:
    cells = [cell.partition("\n\n\nalone =")[0] for cell in lesson("05", "cell-20", "cell-24", "cell-25")]
    said = run(
        session,
        IMPORTS_OF_LESSON_5,
        *cells,
        launched("train", ", small_net, gradients.average_gradients, torch.float64"),
    )
    assert not run(session, "%to_script train train.py").error
    assert under_torchrun(folder / "train.py", "--steps=20") == sorted(said.stream.strip().splitlines())


def test_a_file_that_somebody_may_have_changed_stays(session: NotebookSession, folder: Path) -> None:
    file = folder / "kept.py"
    assert not run(session, "def kept(rank, world_size):\n    return 1", "%to_script kept kept.py").error
    assert not run(session, "def kept(rank, world_size):\n    return 2", "%to_script kept kept.py").error
    file.write_text("# mine\n" + file.read_text())
    refused = session.run("%to_script kept kept.py")
    assert refused.error.startswith("WouldOverwrite: kept.py exists with different content")
    assert file.read_text().startswith("# mine")
    assert not session.run("%to_script kept kept.py --force").error
    assert not file.read_text().startswith("# mine")


def test_without_torchrun_the_script_says_how_it_is_started(session: NotebookSession, folder: Path) -> None:
    function = "def alone(rank, world_size, epochs: int = 2):\n    return epochs"
    assert not run(session, function, "%to_script alone alone.py").error
    ended = session.run(
        "import os, runpy, sys\nos.environ.pop('RANK', None)\nsys.argv = ['alone.py']\n"
        "runpy.run_path('alone.py', run_name='__main__')"
    )
    assert "RANK is not set. Start it with: torchrun --standalone --nproc-per-node=2 alone.py" in ended.stream
