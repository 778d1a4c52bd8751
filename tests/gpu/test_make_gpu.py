"""`make gpu`: one experiment that fails, crashes or hangs costs only itself, and nothing is made up."""

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
from ddp_lessons.gpu import gpu_recordings
from ddp_lessons.gpu.gpu_experiments import Experiment, run_apart
from ddp_lessons.gpu.gpu_recordings import Measured, keep

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


@pytest.fixture
def experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Experiment]:
    """Small ones that need no GPU, in a folder that is also theirs for recordings."""
    for name, body in BODIES.items():
        (tmp_path / f"{name}.py").write_text(EXPERIMENT.format(body=body, holds=name != "differs"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(PROJECT)]))
    monkeypatch.setattr(gpu_recordings, "RECORDINGS", tmp_path / "recordings")
    found = {name: Experiment(name, f"It {name}") for name in BODIES}
    found["hangs"] = replace(found["hangs"], limit_seconds=8.0)
    monkeypatch.setattr(gpu, "ALL", found)
    return found


ENDINGS = {
    "works": ("passed", ""),
    "raises": ("failed", "ended with status 1: RuntimeError: no CUPTI here"),
    "crashes": ("failed", "was killed by SIGABRT"),
    "differs": ("failed", "it holds"),
    "hangs": ("failed", "did not end within 8 seconds"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_whatever_an_experiment_does_is_told_in_a_word(name: str, experiments: dict[str, Experiment]) -> None:
    outcome = run_apart(experiments[name], "cpu")
    assert (outcome.state, outcome.words) == ENDINGS[name]
    if name == "hangs":  # what it started ends with it
        child = int(Path("child").read_text())
        while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)


def test_one_that_fails_loses_no_recording_of_its_own_or_of_others(experiments: dict[str, Experiment]) -> None:
    older = keep("raises", Measured("4 ranks", ["measured earlier"], {}, {})).read_text()
    rows = [gpu.run_and_record(name, experiments[name], "cpu") for name in ("raises", "works")]
    assert [line.split(" | ")[:2] for line in gpu.table(rows).splitlines()] == [
        ["experiment", "result"],
        ["raises    ", "failed"],
        ["works     ", "passed"],
    ]
    assert Path("recordings/raises.json").read_text() == older
    measured = Measured.from_json(Path("recordings/works.json").read_text())
    assert (measured.lines, measured.values) == (["measured here"], {"device": "cpu"})


def test_the_command_ends_with_the_table_and_says_whether_all_passed(
    experiments: dict[str, Experiment], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr(gpu, "run_and_record", lambda name, one: gpu.Row(name, run_apart(one, "cpu")))
    assert (gpu.main(["works"]), gpu.main(["works", "differs"])) == (0, 1)
    assert capsys.readouterr().out.count("Next: commit ddp_lessons/gpu/recordings.\n") == 2
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


def test_the_cells_that_use_a_gpu_are_found_in_the_lessons() -> None:
    cells = gpu_lessons.cells_that_use_a_gpu(gpu_lessons.NOTEBOOKS)
    assert "device" in cells["13_speed_on_gpus"]
    assert "works-run" in cells["17_reference"]
    assert "15_after_ddp" not in cells


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
