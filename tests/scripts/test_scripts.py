"""The scripts: whoever starts their ranks, they end with the same weights; and what they are asked is looked at."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from processes import PROJECT
from torchruns import QUICK, SECONDS, SURROUNDINGS, kept_address, machine, plain, ranks_told, script, torchrun

from ddp_lessons import launch
from scripts import started

SERIES = ["alone", "spawned", "started", "restartable", "many_machines"]
ALL = [*SERIES, "by_hand"]
TWO_EPOCHS = (*QUICK, "--epochs", "2")


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> tuple[float, Any]:
    """The accuracy and the weights after a `launch` of the function that torchrun's ranks run as well."""
    file = tmp_path_factory.mktemp("launched") / "weights.pt"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SURROUNDINGS.items():
            patch.setenv(name, value)
        results = launch(started.train, 2, asked("started", *TWO_EPOCHS, "--save", str(file)), quiet=True)
    return results[0], torch.load(file, weights_only=True)


def asked(name: str, *arguments: str) -> argparse.Namespace:
    """What the script understands of these arguments."""
    found: list[argparse.Namespace] = []
    module = importlib.import_module(f"scripts.{name}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "need_starter", lambda parser: None)
        patch.setenv("WORLD_SIZE", "1")
        patch.setattr(module.dist, "init_process_group", lambda backend: None)
        patch.setattr(module.dist, "destroy_process_group", lambda: None)
        patch.setattr(module.dist, "get_rank", lambda: 0)
        patch.setattr(module.dist, "get_world_size", lambda: 1)
        patch.setattr(module, "train", lambda rank, world_size, asked: found.append(asked))
        module.main(arguments)
    return found[0]


class NodeWithGpus:
    """What torch sees on a node with so many GPUs. gloo stands in for NCCL, for tensors on a GPU and for no others."""

    def __init__(self, patch: pytest.MonkeyPatch, gpus: int) -> None:
        patch.setattr(torch.cuda, "device_count", lambda: gpus)
        patch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("cuda"))
        patch.setitem(dist.Backend.default_device_backend_map, "cuda", "gloo")  # a group without a named backend


def train_where_gpus_are_scarce(rank: int, world_size: int, name: str, folder: str, arguments: Sequence[str]) -> str:
    """Run the script as torchrun's rank, or as the rank that mp.spawn starts, on a node with one GPU for two ranks."""
    sys.path.insert(0, str(PROJECT))
    module = importlib.import_module(f"scripts.{name}")
    with pytest.MonkeyPatch.context() as patch:
        NodeWithGpus(patch, gpus=1)
        if name == "spawned":
            patch.setattr(module.mp, "spawn", lambda run, args, nprocs: run(rank, args[0], f"{folder}/meeting"))
        module.main(arguments)
    return name


def furthest(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert list(one) == list(other)
    return max((one[name] - other[name]).abs().max().item() for name in one)


@nightly
def test_torchrun_ends_with_the_weights_of_launch(launched: tuple[float, Any], tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    with torchrun("started", *TWO_EPOCHS, "--save", str(file)) as program:
        said = program.finish(SECONDS)
    assert f"recognizes {launched[0]:.2%}" in said
    assert furthest(torch.load(file, weights_only=True), launched[1]) < 1e-6


@nightly
def test_two_machines_end_with_the_weights_of_launch(launched: tuple[float, Any], tmp_path: Path) -> None:
    """Two agents, each with one rank, that meet at an address as on a network."""
    options = machine(kept_address(), "--nnodes=2", "--nproc-per-node=1")
    files = [tmp_path / str(number) for number in range(2)]  # a disk for each
    for file in files:
        file.mkdir()
    given = [(*TWO_EPOCHS, "--checkpoint", str(file / "training.pt")) for file in files]
    with (
        torchrun("many_machines", *given[0], options=options) as one,
        torchrun("many_machines", *given[1], options=options) as other,
    ):
        said = one.finish(SECONDS) + other.finish(SECONDS)
    assert sorted(ranks_told(said)) == ["0 of 2", "1 of 2"]
    for file in files:  # each machine keeps a checkpoint
        weights = torch.load(file / "training.pt", weights_only=True)["model"]
        assert furthest(weights, launched[1]) < 1e-6


@nightly
@pytest.mark.parametrize("name", by_day(["alone", "by_hand", "spawned"], 2))
def test_other_ways_to_the_same_training_end_with_the_same_weights(
    name: str, launched: tuple[float, Any], tmp_path: Path
) -> None:
    """One process with the whole batch, too: a step is the same step on any number of ranks."""
    file = tmp_path / "weights.pt"
    start = torchrun if name == "by_hand" else plain
    with start(name, *TWO_EPOCHS, "--save", str(file)) as program:
        said = program.finish(SECONDS)
    assert "exit status" not in said
    assert furthest(torch.load(file, weights_only=True), launched[1]) < 1e-6


@pytest.mark.parametrize("name", by_day(["spawned", "started", "by_hand", "restartable", "many_machines"], 1))
def test_with_fewer_gpus_than_ranks_a_script_trains_on_the_cpu(name: str, tmp_path: Path) -> None:
    """Without a backend, torch takes the GPUs' one alone, and then no tensor on the CPU can be sent."""
    checkpoint = ["--checkpoint", str(tmp_path / "training.pt")] if name in ("restartable", "many_machines") else []
    few = [*QUICK, "--epochs", "1", *checkpoint]
    results = launch(train_where_gpus_are_scarce, 2, name, str(tmp_path), few, join=False, quiet=True)
    assert "recognizes" in "".join(results.lines[0])


@pytest.mark.parametrize(
    ("before", "after", "most"),
    [
        ("alone", "spawned", 50),
        ("spawned", "started", 25),
        ("started", "restartable", 20),
        ("restartable", "many_machines", 30),
        ("started", "by_hand", 20),
    ],
)
def test_each_script_is_the_one_before_and_one_idea(before: str, after: str, most: int) -> None:
    one, other = (Path(script(name)).read_text(encoding="utf-8").splitlines() for name in (before, after))
    changed = [line for line in difflib.unified_diff(one, other, n=0) if line[0] in "+-"][2:]
    assert 4 <= len(changed) <= most


@pytest.mark.parametrize("name", ALL)
def test_help_names_every_argument_and_its_default(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        importlib.import_module(f"scripts.{name}").main(["--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert "Train a network to recognize digits" in text
    assert f"scripts/{name}.py" in text
    for option in ("--epochs N", "--samples N", "--batch-size N", "--learning-rate X", "--network", "--save FILE"):
        assert option in text


WRONG = {
    "--epochs 0": "argument --epochs: must be an integer of at least 1, not '0'",
    "--epochs two": "argument --epochs: must be an integer of at least 1, not 'two'",
    "--samples 70000": "argument --samples: there are only 60,000 digits, not 70,000",
    "--samples -5": "argument --samples: must be an integer of at least 1, not '-5'",
    "--batch-size 6.5": "argument --batch-size: must be an integer of at least 1, not '6.5'",
    "--learning-rate 0": "argument --learning-rate: must be a number above 0, not '0'",
    "--learning-rate nan": "argument --learning-rate: must be a number above 0, not 'nan'",
    "--network LeNet": "argument --network: invalid choice: 'LeNet'",
    "--folder /nowhere": "argument --folder: there is no folder '/nowhere'",
    "--save /nowhere/weights.pt": "argument --save: there is no folder '/nowhere' to write into",
    "--save .": "argument --save: '.' is a folder, not a file",
    "--quickly": "unrecognized arguments: --quickly",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_arguments_are_refused_in_a_sentence(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        importlib.import_module("scripts.alone").main(arguments.split())
    assert end.value.code == 2
    assert WRONG[arguments] in capsys.readouterr().err


@pytest.mark.parametrize("name", ["started", "by_hand", "restartable", "many_machines"])
def test_without_torchrun_a_script_says_how_to_start_it(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(variable, raising=False)
    checkpoint = ["--checkpoint", str(tmp_path / "training.pt")] if name in ("restartable", "many_machines") else []
    with pytest.raises(SystemExit) as end:
        importlib.import_module(f"scripts.{name}").main(checkpoint)
    assert end.value.code == 2
    assert "torchrun --standalone --nproc-per-node=2" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["restartable", "many_machines"])
def test_a_restartable_script_asks_for_its_checkpoint(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        importlib.import_module(f"scripts.{name}").main([])
    assert "the following arguments are required: --checkpoint" in capsys.readouterr().err


@nightly
def test_a_folder_without_digits_ends_a_script_with_the_reason(tmp_path: Path) -> None:
    command = [sys.executable, script("alone"), "--folder", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("no digits: ")
    assert "Traceback" not in done.stderr
