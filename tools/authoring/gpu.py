"""Run the experiments that need an NVIDIA GPU, check their results, and record them: `make gpu`.

Each experiment has its own ranks and time limit, so a failure or a hang costs only that recording.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence

import torch

from ddp_lessons.gpu import peak_memory, step_rates, stream_overlap
from ddp_lessons.gpu.gpu_measurements import Measured, as_recorded, keep
from ddp_lessons.show.programs.printed import in_columns
from ddp_lessons.workshop.doctor import check_gpu

EXPERIMENTS: dict[str, Callable[[str], Measured]] = {
    "memory": peak_memory.measure,
    "speed": step_rates.measure,
    "overlap": stream_overlap.measure,
}


def main(experiments: Sequence[str], device: str = "cuda") -> int:
    if unknown := set(experiments) - set(EXPERIMENTS):
        raise ValueError(f"there is no experiment {min(unknown)!r}; choose from {', '.join(EXPERIMENTS)}")
    if device == "cuda" and not torch.cuda.device_count():
        print(no_gpu(), file=sys.stderr)
        return 1
    rows = [run_and_record(name, device) for name in experiments or EXPERIMENTS]
    print("\n".join(in_columns([["experiment", "result", "took", "why"], *rows])))
    results = [result for _, result, *_ in rows]
    if "passed" in results:
        print("Next: commit ddp_lessons/gpu/recordings.")
    return int("failed" in results)


def no_gpu() -> str:
    """Return two lines: what is missing, and what to do."""
    if shutil.which("nvidia-smi") is None:
        return "make gpu: this machine has no NVIDIA GPU, so nothing was recorded.\nNext: run it on a machine with one."
    unseen = check_gpu()
    return f"make gpu: {unseen.found}, so nothing was recorded.\nNext: {unseen.remedy}"


def run_and_record(name: str, device: str) -> list[str]:
    """Run one experiment, and return its row of the table. If it fails, an older recording of it stays."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    begin, result, why = time.monotonic(), "passed", ""
    try:
        keep(name, EXPERIMENTS[name](device), device)
    except Exception as error:
        result, why = "failed", as_recorded(error)
    return [name, result, f"{time.monotonic() - begin:.0f} s", why]
