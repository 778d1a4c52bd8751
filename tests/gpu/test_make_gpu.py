"""`make gpu` and `on_gpu`: one experiment that fails, crashes or hangs costs only itself, and nothing is made up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from nights import nightly

from authoring import gpu, gpu_lessons
from ddp_lessons.gpu import gpu_experiments, gpu_recordings, on_gpu
from ddp_lessons.gpu.gpu_experiments import NO_GPU, NOT_RECORDED, Experiment, run_apart, why_not
from ddp_lessons.gpu.gpu_recordings import Measured, keep, recall

pytestmark = nightly

PROJECT = Path(__file__).parents[2]
EXPERIMENT = """
import os, subprocess, sys, time
from ddp_lessons.gpu.gpu_recordings import Measured

def measure(device):
    {body}
    return Measured("2 ranks", ["measured here"], {{"device": device}}, {{"it holds": {holds}}})
"""
BODIES = {
    "works": "",
    "raises": "raise RuntimeError('no CUPTI here')",
    "crashes": "os.abort()",
    "hangs": "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)"
    "; open('child', 'w').write(str(child.pid)); time.sleep(600)",
    "differs": "",
}
OLDER = Measured(
    "4 ranks", ["measured earlier"], {}, {}, {"device": "2 x Tesla", "torch": "2.12", "date": "2026-01-31"}
)


@pytest.fixture
def experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Experiment]:
    """Small ones that need no GPU, in a folder that is also theirs for recordings."""
    for name, body in BODIES.items():
        (tmp_path / f"{name}.py").write_text(EXPERIMENT.format(body=body, holds=name != "differs"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(PROJECT)]))
    monkeypatch.delenv("DDP_LESSONS_GPU", raising=False)
    monkeypatch.setattr(gpu_recordings, "RECORDINGS", tmp_path / "recordings")
    monkeypatch.setattr(gpu_recordings, "this_machine", lambda device: {"device": device})
    found = {name: Experiment(name, f"It {name}") for name in BODIES}
    found["hangs"] = replace(found["hangs"], limit_seconds=8.0)
    found["needs two"] = Experiment("works", "It needs two", 2)
    monkeypatch.setattr(gpu_experiments, "EXPERIMENTS", found)
    monkeypatch.setattr(gpu, "ALL", found)
    return found


ENDINGS = {
    "works": ("passed", ""),
    "raises": ("failed", "ended with status 1: RuntimeError: no CUPTI here"),
    "crashes": ("failed", "was killed by SIGABRT"),
    "differs": ("failed", "it holds"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_whatever_an_experiment_does_is_told_in_a_word(name: str, experiments: dict[str, Experiment]) -> None:
    outcome = run_apart(experiments[name], "cpu")
    assert (outcome.state, outcome.words) == ENDINGS[name]


def test_an_experiment_that_hangs_is_ended_with_what_it_started(experiments: dict[str, Experiment]) -> None:
    outcome = run_apart(experiments["hangs"], "cpu")
    assert (outcome.state, outcome.words) == ("failed", "did not end within 8 seconds")
    child = int(Path("child").read_text())
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)


def test_one_that_fails_loses_no_recording_of_its_own_or_of_others(experiments: dict[str, Experiment]) -> None:
    keep("raises", OLDER)
    rows = [gpu.run_and_record(name, experiments[name], 1, "cpu") for name in ("raises", "works", "needs two")]
    assert [row.outcome.state for row in rows] == ["failed", "passed", "skipped"]
    assert recall("raises") == OLDER
    measured = recall("works")
    assert measured is not None
    assert (measured.lines, measured.values) == (["measured here"], {"device": "cpu"})
    lines = gpu.table(rows).splitlines()
    assert [line.split(" | ")[0].strip() for line in lines] == ["experiment", "raises", "works", "needs two"]
    assert lines[3].endswith("needs 2 GPUs, this machine has 1")


def test_the_command_ends_with_the_table_and_says_whether_all_passed(
    experiments: dict[str, Experiment], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "count_gpus", lambda: 1)
    monkeypatch.setattr(gpu, "run_and_record", lambda name, one, gpus: gpu.Row(name, run_apart(one, "cpu")))
    assert (gpu.main(["works"]), gpu.main(["works", "differs"])) == (0, 1)
    assert capsys.readouterr().out.count('Next: make notebooks LESSONS="14 16"') == 2
    with pytest.raises(SystemExit) as ended:
        gpu.main(["unknown"])
    assert ended.value.code == 2
    assert "there is no experiment 'unknown'; there are works, raises" in capsys.readouterr().err


def test_without_a_gpu_make_gpu_ends_at_once_with_a_message() -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "authoring.gpu"]
    ended = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("make gpu: ")
    assert ended.stderr.endswith("Nothing was recorded.\n")


def test_with_a_driver_it_says_why_torch_sees_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert gpu.no_gpu().startswith("make gpu: no NVIDIA GPU on this machine.\nNext: ")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("torch.version.cuda", "13.0")
    assert "with CUDA_VISIBLE_DEVICES='' torch sees no GPU" in gpu.no_gpu()


@pytest.mark.parametrize(("gpus", "why"), [(0, NO_GPU), (1, "needs 2 GPUs, this machine has 1"), (2, ""), (8, "")])
def test_an_experiment_says_how_many_gpus_it_needs(gpus: int, why: str) -> None:
    assert why_not(Experiment("works", "It works", 2), gpus) == why


def test_without_a_gpu_and_a_recording_a_lesson_says_so(
    experiments: dict[str, Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_experiments, "count_gpus", lambda: 0)
    assert NOT_RECORDED == "not recorded yet: run make gpu on a machine with an NVIDIA GPU"
    assert repr(on_gpu("works")) == NOT_RECORDED
    with pytest.raises(ValueError, match="there is no experiment 'wors'; there are works, raises"):
        on_gpu("wors")


def test_with_too_few_gpus_a_lesson_says_how_many_it_needs(
    experiments: dict[str, Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_experiments, "count_gpus", lambda: 1)
    assert repr(on_gpu("needs two")) == f"The experiment needs 2 GPUs, this machine has 1\n{NOT_RECORDED}"


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_recording_is_marked_with_its_device_version_and_date(
    gpus: int, experiments: dict[str, Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_experiments, "count_gpus", lambda: gpus)
    monkeypatch.setenv("DDP_LESSONS_GPU", "recorded" if gpus else "")
    keep("works", OLDER)
    shown = on_gpu("works")
    assert repr(shown).splitlines() == [
        "It works (recorded: 2 x Tesla, torch 2.12, 2026-01-31)",
        "4 ranks",
        "measured earlier",
    ]
    assert '<i class="ddp-recorded">recorded: 2 x Tesla, torch 2.12, 2026-01-31</i>' in shown.content


def on_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiment runs, but on the CPU."""
    monkeypatch.setattr(gpu_experiments, "count_gpus", lambda: 1)
    run: Any = gpu_experiments.run_apart
    monkeypatch.setattr(gpu_experiments, "run_apart", lambda experiment: run(experiment, "cpu"))


def test_with_a_gpu_it_runs_live_and_says_so(
    experiments: dict[str, Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_one_gpu(monkeypatch)
    keep("works", OLDER)
    shown = on_gpu("works")
    assert repr(shown).startswith("It works (run on this machine: CPU, torch ")
    assert repr(shown).endswith("\n2 ranks\nmeasured here")
    assert '<i class="ddp-live">' in shown.content
    experiments["works"] = replace(experiments["works"], is_live=False)
    assert "recorded: 2 x Tesla" in repr(on_gpu("works"))


def test_if_it_fails_live_the_recording_is_shown_with_the_reason(
    experiments: dict[str, Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_one_gpu(monkeypatch)
    trouble = "On this machine, the experiment failed: ended with status 1: RuntimeError: no CUPTI here"
    assert repr(on_gpu("raises")) == f"{trouble}\n{NOT_RECORDED}"
    keep("raises", OLDER)
    assert repr(on_gpu("raises")).splitlines()[1:] == [trouble, "4 ranks", "measured earlier"]


def test_a_long_message_is_wrapped_and_no_word_is_lost(
    experiments: dict[str, Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_experiments, "count_gpus", lambda: 0)
    keep("works", replace(OLDER, lines=["watchdog " * 40, "a table | stays"]))
    lines = repr(on_gpu("works")).splitlines()
    assert max(map(len, lines)) <= gpu_experiments.MOST_LETTERS
    assert (" ".join(lines).count("watchdog"), lines[-1]) == (40, "a table | stays")


def test_the_cells_that_use_a_gpu_are_found_in_the_lessons() -> None:
    cells = gpu_lessons.cells_that_use_a_gpu(gpu_lessons.NOTEBOOKS)
    assert {"train-code", "gpus"} <= set(cells["08_mnist_with_ddp"])
    assert "works-run" in cells["16_choose_a_backend"]
    assert "write-join" in cells["09_training_script"]
    assert "17_ways_to_meet" not in cells  # a comment there names torch.cuda.device_count()


@nightly
def test_a_lesson_whose_outputs_differ_fails_with_the_names_of_its_cells(tmp_path: Path) -> None:
    files: Any = nbformat
    sources = {"same": "1 + 1", "other": "import torch\n\ntorch.cuda.device_count() * 0 + 3"}
    cells = [files.v4.new_code_cell(source, id=name, execution_count=1) for name, source in sources.items()]
    for cell in cells:
        cell.outputs = [files.v4.new_output("execute_result", {"text/plain": "2"}, execution_count=1)]
    lesson = files.v4.new_notebook(cells=cells)
    lesson.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    files.write(lesson, tmp_path / "00_small.ipynb")
    measured = gpu_lessons.measure("cpu", tmp_path)
    assert measured.broken == ["00_small: other outputs in other"]
    assert measured.values == {"cells": {"00_small": ["other"]}}
