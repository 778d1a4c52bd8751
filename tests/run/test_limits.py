"""What an instructor allows each learner holds for launch, Workers and %%ranks, and every refusal says whose it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import nightly
from notebook_session import NotebookSession
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import WorkerFailed, Workers, launch
from ddp_lessons.run.launcher import limits as module
from ddp_lessons.run.launcher.limits import LARGEST_ON_NODES, Limits, limits

NAMES = {"ranks": "DDP_LESSONS_MOST_RANKS", "memory": "DDP_LESSONS_MOST_MEMORY"}


@pytest.fixture(autouse=True)
def machine_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The instructor's file, in a place where a test may write it; none is there yet."""
    for name in NAMES.values():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "MACHINE_FILE", str(tmp_path / "ddp-lessons.conf"))
    return tmp_path / "ddp-lessons.conf"


def add_up(rank: int, world_size: int) -> float:
    tensor = torch.ones(1) * rank
    dist.all_reduce(tensor)
    return tensor.item()


def fill_a_tensor(rank: int, world_size: int) -> None:
    torch.ones(400, 2**18)  # 400 MB


def fill_a_list(rank: int, world_size: int) -> None:
    kept: list[bytes] = []
    while True:
        kept.append(bytes(1_000_000))


def test_the_stricter_of_variable_and_file_holds(machine_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits() == Limits(LARGEST_ON_NODES, None)  # on a machine of one's own
    machine_file.write_text("# a workshop\nDDP_LESSONS_MOST_RANKS=4\nDDP_LESSONS_MOST_MEMORY = '600 MB'\n")
    monkeypatch.setenv(NAMES["ranks"], "8")  # which the file does not allow
    monkeypatch.setenv(NAMES["memory"], "0.5 GB")
    assert limits() == Limits(4, 2**29)


@pytest.mark.parametrize(("which", "text"), [("ranks", "0"), ("memory", "600")])
def test_a_limit_that_cannot_be_read_is_named(which: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAMES[which], text)
    with pytest.raises(ValueError, match=rf"{NAMES[which]} is '{text}' in the environment, but must be .*, such as \d"):
        launch(add_up, 2)


def test_more_ranks_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAMES["ranks"], "3")
    assert list(launch(add_up, 3, quiet=True)) == [3.0] * 3
    sentence = "world_size is 4, but your instructor allows at most 3 ranks in a launch on this machine"
    for begin in (lambda: launch(add_up, 4), lambda: Workers(4)):
        with pytest.raises(ValueError, match=rf"{sentence}; use 3 or fewer"):
            begin()


@nightly
def test_cells_on_ranks_begin_with_as_many_as_are_allowed() -> None:
    with NotebookSession({NAMES["ranks"]: "2"}) as kernel:
        kernel.run("%load_ext ddp_lessons")
        assert "allows at most 2 ranks" in kernel.run("%%ranks 4\nrank").stream
        kernel.run("%%ranks\nx = rank * 10")
        assert kernel.run("ranks['x']").value == "[0, 10]"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to an amount of memory")
@pytest.mark.parametrize("function", [fill_a_tensor, fill_a_list])
def test_more_memory_than_allowed_is_refused_in_the_rank(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAMES["memory"], "200 MB")
    with pytest.raises(WorkerFailed) as caught:
        launch(function, 2, quiet=True)
    assert str(caught.value).splitlines()[-1] == (
        "  Next: use smaller tensors or batches: your instructor has limited each rank on this machine to "
        "200 MB, not counting Python and torch."
    )


def test_the_smallest_sensible_memory_is_enough_to_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAMES["memory"], "300 MB")

    def train(rank: int, world_size: int) -> float:
        model = DistributedDataParallel(nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(64, 784)).square().mean().backward()
            optimizer.step()
        return float(next(model.parameters()).sum())

    first, second = launch(train, 2, quiet=True)
    assert first == second
