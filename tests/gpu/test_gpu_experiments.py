"""`make gpu`, as far as a CPU can run it: one experiment that fails costs only itself, and nothing is made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from nights import by_day, nightly

from ddp_lessons.gpu import gpu_measurements
from ddp_lessons.gpu.gpu_measurements import Measured, Ranks, as_recorded, ranks_on
from ddp_lessons.gpu.stream_overlap import Span, drawn, overlap, spans_of
from tools.authoring import gpu
from tools.authoring.__main__ import main

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one for recordings."""
    monkeypatch.setattr(gpu_measurements, "RECORDINGS", tmp_path)
    return tmp_path


@nightly
@pytest.mark.parametrize("name", by_day(gpu.EXPERIMENTS, 1))
def test_on_the_cpu_an_experiment_passes_its_checks_and_its_recording_is_small(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")  # inductor would compile for a minute
    assert gpu.run_and_record(name, "cpu")[1::2] == ["passed", ""]
    text = (folder / f"{name}.json").read_text()
    told = json.loads(text)
    assert len(text) <= 20_000
    assert told["how"] == "2 ranks on the CPU, gloo"
    assert all(told["checks"].values())
    assert (told["machine"]["device"], told["machine"]["torch"]) == ("CPU", metadata.version("torch"))
    assert not any(mark in text for mark in ("/home/", "/root/", "/tmp/", str(Path.cwd())))


@pytest.mark.parametrize(
    ("gpus", "may_share", "how"),
    [
        (1, True, "2 ranks share one GPU, gloo"),
        (1, False, "1 rank, NCCL: nothing is sent"),
        (2, True, "2 ranks, a GPU each, NCCL"),
        (8, False, "8 ranks, a GPU each, NCCL"),
    ],
)
def test_there_are_as_many_ranks_as_gpus(gpus: int, may_share: bool, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert ranks_on("cuda", may_share).how == how


def crash(rank: int, world_size: int, device: torch.device) -> None:
    os.abort()


def hang(rank: int, world_size: int, device: torch.device) -> None:
    torch.distributed.barrier() if rank == 0 else time.sleep(60)


TWO = Ranks(2, "gloo", "cpu")


def works(device: str) -> Measured:
    return Measured("2 ranks", ["measured here"], {"device": device}, {"it holds": True})


def differs(device: str) -> Measured:
    return Measured("2 ranks", [], {}, {"it holds": False, "this holds": True})


def raises(device: str) -> Measured:
    raise RuntimeError("no CUPTI here\nand more")


def crashes(device: str) -> Measured:
    TWO.launch(crash)
    return works(device)


def hangs(device: str) -> Measured:
    TWO.launch(hang, timeout_seconds=10.0)
    return works(device)


ENDINGS = {
    works: ("passed", ""),
    differs: ("failed", "ValueError: not recorded, because a check failed: it holds"),
    raises: ("failed", "RuntimeError: no CUPTI here"),
    crashes: ("failed", "WorkerFailed: both ranks were killed by SIGABRT"),
    hangs: ("failed", "WorkersStuck: "),
}


@nightly
@pytest.mark.parametrize("measure", ENDINGS)
def test_whatever_an_experiment_does_costs_only_its_own_recording(
    measure: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "EXPERIMENTS", {"this": measure, "other": works})
    (folder / "this.json").write_text("measured earlier")
    result, words = ENDINGS[measure]
    assert gpu.main([], "cpu") == (result == "failed")
    head, this, other, next_step = capsys.readouterr().out.splitlines()
    assert head.split(" | ") == ["experiment", "result", "took", "why"]
    assert [field.strip() for field in this.split(" | ")[:2]] == ["this", result]
    assert words in this
    assert other.split(" | ")[1] == "passed"
    assert next_step == "Next: commit ddp_lessons/gpu/recordings."
    assert ((folder / "this.json").read_text() == "measured earlier") == (result == "failed")
    assert json.loads((folder / "other.json").read_text())["values"] == {"device": "cpu"}


def test_an_experiment_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpu", "unknown"]) == 1
    assert "there is no experiment 'unknown'; choose from memory, speed, overlap" in capsys.readouterr().err


@nightly
def test_without_a_gpu_make_gpu_ends_at_once_with_a_message() -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "tools.authoring", "gpu"]
    ended = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("make gpu: ")
    assert ended.stderr.endswith("Nothing was recorded.\n")


def test_with_a_driver_it_says_why_torch_sees_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert gpu.no_gpu().startswith("make gpu: this machine has no NVIDIA GPU, so nothing was recorded.\nNext: ")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr("torch.version.cuda", "13.0")
    assert "with CUDA_VISIBLE_DEVICES='', torch sees no GPU" in gpu.no_gpu()


def test_a_recording_names_the_gpu_and_the_versions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda index: "NVIDIA H200")
    monkeypatch.setattr("torch.distributed.is_nccl_available", lambda: True)
    monkeypatch.setattr("torch.cuda.nccl.version", lambda: (2, 27, 5))
    monkeypatch.setattr("torch.version.cuda", "13.0")
    told = json.loads(gpu_measurements.keep("this", works("cuda"), "cuda").read_text())
    versions = {"torch": metadata.version("torch"), "cuda": "13.0", "nccl": "2.27.5"}
    assert told["machine"].items() > {"device": "2 x NVIDIA H200", **versions}.items()


def test_nothing_of_the_machine_gets_into_a_recorded_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "gpu-node-17")
    line = f"{Path.cwd()}/a.py of gpu-node-17: [fail at /__w/pytorch/gloo/tcp/pair.cc:464] timed\x07out"
    cleaned = "OSError: .../a.py of thishost: [fail at pair.cc:464] timed out"
    assert as_recorded(OSError(f"{line}\nmore lines")) == cleaned
    assert as_recorded(OSError(f"{Path.cwd()}/{'a' * 500}")) == f"OSError: .../{'a' * 384}..."


def test_overlap_counts_each_moment_once() -> None:
    spans = [
        Span("stream 20", "communicates", 10, 30),
        Span("stream 20", "communicates", 40, 60),
        Span("stream 7", "computes", 0, 20),
        Span("stream 9", "computes", 15, 25),  # has five microseconds in common with the one before
        Span("stream 7", "copies", 40, 60),  # a copy computes nothing
    ]
    assert overlap(spans) == pytest.approx(15 / 40)
    assert overlap(spans[2:]) == 0.0


def event(name: str, category: str, begin: float, duration: float, **args: object) -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": category, "ts": begin, "dur": duration, "args": args}


TRACE = [
    event("ampere_sgemm_128x64_nn", "kernel", 100, 20, stream=7, device=0),
    event("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "kernel", 110, 30, stream=20),
    event("Memcpy DtoD (Device -> Device)", "gpu_memcpy", 125, 5, stream=7),
    event("aten::mm", "cpu_op", 90, 4),  # only starts the kernel
    event("gloo:all_reduce", "cpu_op", 140, 10),
    {"ph": "M", "name": "thread_name", "args": {"name": "stream 7"}},
]


def test_kernels_of_a_trace_are_told_apart_by_stream_and_kind() -> None:
    assert spans_of(TRACE) == [
        Span("stream 7", "computes", 0, 20),
        Span("stream 20", "communicates", 10, 40),
        Span("stream 7", "copies", 25, 30),
        Span("gloo", "communicates", 40, 50),
    ]
    assert spans_of(TRACE[3:5]) == [Span("CPU", "computes", 0, 4), Span("gloo", "communicates", 50, 60)]


def test_a_timeline_has_a_line_for_each_stream() -> None:
    *rows, legend = drawn([Span("stream 7", "computes", 0, 500), Span("stream 20", "communicates", 500, 1000)])
    assert rows == [f"stream 20 |{' ' * 48}{'=' * 48}|", f"stream 7  |{'#' * 49}{' ' * 47}|"]
    assert legend == "# computes, = communicates, - copies; 1 ms in all"
