"""The experiments that need a GPU, as far as a CPU can run them: in their own processes, with gloo."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from nights import by_day, nightly

from ddp_lessons.backends import backend_trials
from ddp_lessons.backends.calls import CALLS
from ddp_lessons.gpu import cuda_backends, gpu_recordings, nccl_hang
from ddp_lessons.gpu.gpu_experiments import EXPERIMENTS, run_apart
from ddp_lessons.gpu.gpu_ranks import ranks_on
from ddp_lessons.gpu.gpu_recordings import Measured, keep, recall
from ddp_lessons.gpu.stream_overlap import Span, drawn, overlap, spans_of


@nightly
@pytest.mark.parametrize("name", by_day([name for name in EXPERIMENTS if name != "backends"], 1))
def test_on_the_cpu_an_experiment_passes_its_checks_and_its_recording_is_small(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_recordings, "RECORDINGS", tmp_path)
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")  # inductor would compile for a minute
    outcome = run_apart(EXPERIMENTS[name], "cpu")
    assert (outcome.state, outcome.words) == ("passed", "")
    assert outcome.measured is not None
    file = keep(name, outcome.measured)
    assert recall(name) == outcome.measured
    assert file.stat().st_size <= 20_000
    assert (outcome.measured.machine["device"], outcome.measured.machine["torch"]) == ("CPU", metadata.version("torch"))
    assert not any(mark in file.read_text() for mark in ("/home/", "/root/", "/tmp/", str(Path.cwd())))


def test_every_call_is_tried_with_cuda_tensors_and_with_gloo_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: call for name, call in CALLS.items() if name in cuda_backends.NEEDED}
    monkeypatch.setattr(backend_trials, "CALLS", few)
    measured = cuda_backends.measure("cpu")
    assert measured.values == {"gloo": dict.fromkeys(cuda_backends.NEEDED, "works") | dict.fromkeys(few, "works")}
    assert not measured.broken


def test_a_place_may_have_as_many_ranks_as_gpus() -> None:
    ranks = backend_trials.Place("gloo, 3 ranks", "gloo", ranks=3)

    def counts(device: torch.device) -> bool:
        return torch.distributed.get_world_size() == 3

    assert backend_trials.try_one(ranks, "a call of the test", counts).outcome == "works"


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


WATCHDOG = """\
[rank0]:[W1 10:00:00.1 Utils.hpp:112] Warning: Environment variable NCCL_X is deprecated; use Y, for the watchdog
[rank0]:[E1 10:00:12.2 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(...)
[rank0]:[E1 10:00:12.2 ProcessGroupNCCL.cpp:632] something else
frame #1: c10d::ProcessGroupNCCL::Watchdog::run() + 0x1 (0x7 in /somewhere/libtorch_cuda.so)
terminate called after throwing an instance of 'c10::DistBackendError'
"""


def test_the_last_words_are_those_on_the_timeout() -> None:
    assert [words[:30] for words in nccl_hang.last_words(WATCHDOG)] == [
        "[rank0]:[E1 10:00:12.2 Process",
        "terminate called after throwin",
    ]


def test_of_a_dump_the_last_calls_are_kept_without_stacks() -> None:
    entries = [
        {"profiling_name": "nccl:all_reduce", "collective_seq_id": number, "state": "completed", "frames": [1, 2]}
        for number in range(1, 6)
    ]
    assert nccl_hang.summary({"version": "2.10", "entries": entries}) == [
        {"profiling_name": "nccl:all_reduce", "collective_seq_id": number, "state": "completed"} for number in (3, 4, 5)
    ]
    assert nccl_hang.summary({}) == []


def test_a_recording_is_refused_if_a_check_fails_or_if_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_recordings, "RECORDINGS", tmp_path)
    with pytest.raises(ValueError, match="speed is not recorded, because a check failed: bf16 ran"):
        keep("speed", Measured("2 ranks", (), {}, {"bf16 ran": False}))
    with pytest.raises(ValueError, match="the recording of speed has 21,"):
        keep("speed", Measured("2 ranks", ["x" * 21_000], {}, {}))
    assert not list(tmp_path.iterdir())


def test_nothing_of_the_machine_gets_into_a_recorded_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "gpu-node-17")
    line = f"{Path.cwd()}/a.py of gpu-node-17: [/__w/pytorch/gloo/tcp/pair.cc:464] timed\x07out"
    assert gpu_recordings.as_recorded(line) == ".../a.py of thishost: [pair.cc:464] timed out"


def test_the_recordings_of_the_course_are_of_gpus_and_passed_their_checks() -> None:
    for file in gpu_recordings.RECORDINGS.glob("*"):
        measured = Measured.from_json(file.read_text(encoding="utf-8"))
        assert file.stem in {*EXPERIMENTS, "lessons"}, file
        assert not measured.broken, file
        assert {"device", "torch", "cuda", "driver", "date"} <= measured.machine.keys(), file
        assert measured.machine["device"] != "CPU", file
        assert file.stat().st_size <= gpu_recordings.MOST_BYTES, file
        assert not any(mark in file.read_text(encoding="utf-8") for mark in ("/home/", "/root/", "/tmp/")), file


def test_what_a_lesson_stores_is_what_is_recorded() -> None:
    """Where it fails: make notebooks LESSONS="14 16"."""
    from ddp_lessons.gpu import on_gpu

    shown: dict[str, str] = {}
    for lesson in (Path(__file__).parents[2] / "notebooks").glob("[0-9][0-9]_*.ipynb"):
        for cell in json.loads(lesson.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and (calls := re.findall(r'\bon_gpu\("(\w+)"\)', source)):
                texts = ["".join(output["data"]["text/plain"]) for output in cell["outputs"]]
                shown |= dict(zip(calls, texts, strict=True))
    assert shown.keys() == EXPERIMENTS.keys()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DDP_LESSONS_GPU", "recorded")
        assert {name: repr(on_gpu(name)) for name in shown} == shown
