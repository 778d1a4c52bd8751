"""The experiments that need a GPU, as far as a CPU can run them: in their own processes, with gloo."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from nights import by_day, nightly

from ddp_lessons.gpu import gpu_recordings
from ddp_lessons.gpu.gpu_experiments import EXPERIMENTS, run_apart
from ddp_lessons.gpu.gpu_ranks import ranks_on
from ddp_lessons.gpu.gpu_recordings import Measured, keep
from ddp_lessons.gpu.stream_overlap import Span, drawn, overlap, spans_of


@nightly
@pytest.mark.parametrize("name", by_day(EXPERIMENTS, 1))
def test_on_the_cpu_an_experiment_passes_its_checks_and_its_recording_is_small(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_recordings, "RECORDINGS", tmp_path)
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")  # inductor would compile for a minute
    outcome = run_apart(EXPERIMENTS[name], "cpu")
    assert (outcome.state, outcome.words) == ("passed", "")
    assert outcome.measured is not None
    file = keep(name, outcome.measured)
    assert Measured.from_json(file.read_text()) == outcome.measured
    assert file.stat().st_size <= 20_000
    assert (outcome.measured.machine["device"], outcome.measured.machine["torch"]) == ("CPU", metadata.version("torch"))
    assert not any(mark in file.read_text() for mark in ("/home/", "/root/", "/tmp/", str(Path.cwd())))


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
    assert ranks_on("cpu").how == "2 ranks on the CPU, gloo"


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


def test_a_recording_is_refused_if_a_check_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_recordings, "RECORDINGS", tmp_path)
    with pytest.raises(ValueError, match="speed is not recorded, because a check failed: bf16 ran"):
        keep("speed", Measured("2 ranks", (), {}, {"bf16 ran": False}))
    assert not list(tmp_path.iterdir())


def test_nothing_of_the_machine_gets_into_a_recorded_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "gpu-node-17")
    line = f"{Path.cwd()}/a.py of gpu-node-17: [fail at /__w/pytorch/gloo/tcp/pair.cc:464] timed\x07out"
    assert gpu_recordings.as_recorded(line) == ".../a.py of thishost: [fail at pair.cc:464] timed out"
    assert gpu_recordings.as_recorded(f"{Path.cwd()}/{'a' * 500}") == f".../{'a' * 393}..."
