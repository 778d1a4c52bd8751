"""Run the experiments that need an NVIDIA GPU, check what they measure, and record it: `make gpu`.

The ranks of each are its own, with a time limit, so one that fails or hangs costs only its own recording.
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
        raise ValueError(f"there is no experiment {min(unknown)!r}; there are {', '.join(EXPERIMENTS)}")
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
    """Two lines: what is missing, and what to do."""
    if shutil.which("nvidia-smi") is None:
        return "make gpu: no NVIDIA GPU on this machine.\nNext: run it on a machine with one. Nothing was recorded."
    unseen = check_gpu()
    return f"make gpu: torch sees no GPU: {unseen.found}.\nNext: {unseen.remedy} Nothing was recorded."


def run_and_record(name: str, device: str) -> list[str]:
    """Run one experiment, and return its row of the table. If it fails, an older recording of it stays."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    begin, result, why = time.monotonic(), "passed", ""
    try:
        keep(name, EXPERIMENTS[name](device), device)
    except Exception as error:
        result, why = "failed", as_recorded(error)
    return [name, result, f"{time.monotonic() - begin:.0f} s", why]
