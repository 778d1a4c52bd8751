"""The experiments that need a GPU. Each runs in a process of its own with a time limit.

One that fails, hangs or crashes costs only its own recording.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ddp_lessons.gpu.gpu_recordings import Measured, as_recorded, recall, this_machine
from ddp_lessons.run.output.progress_line import ProgressLine
from ddp_lessons.show.page.printed import Printed, caption, lines_as_html

VARIABLE = "DDP_LESSONS_GPU"  # "recorded": show the recording, even if there is a GPU
NOT_RECORDED = "not recorded yet: run make gpu on a machine with an NVIDIA GPU"
MOST_LETTERS = 118  # the longest line that a notebook shows without scrolling
NO_GPU = "this machine has no NVIDIA GPU that torch can use"


@dataclass(frozen=True)
class Experiment:
    """`module` has a function `measure(device)`, which returns what it measured."""

    module: str
    title: str
    gpus: int = 1  # at least so many
    limit_seconds: float = 300.0
    is_live: bool = True  # in a lesson, if there is a GPU


@dataclass(frozen=True)
class Outcome:
    """`state` is "passed", "failed" or "skipped"; `words` say why."""

    state: str
    words: str = ""
    measured: Measured | None = None


_HERE = __package__
EXPERIMENTS = {
    # its lesson has just tried the backends of this machine
    "backends": Experiment(f"{_HERE}.cuda_backends", "CUDA tensors with each backend", 1, 1500.0, is_live=False),
    "shared_gpu": Experiment(f"{_HERE}.shared_gpu", "NCCL, two ranks on one GPU"),
    "hang": Experiment(f"{_HERE}.nccl_hang", "A hang with NCCL", 2),
    "memory": Experiment(f"{_HERE}.peak_memory", "Memory of each rank"),
    "speed": Experiment(f"{_HERE}.step_rates", "Steps per second", 1, 600.0),
    "overlap": Experiment(f"{_HERE}.stream_overlap", "Communication and computation on the GPU"),
}


def count_gpus() -> int:
    import torch

    return torch.cuda.device_count()


def why_not(experiment: Experiment, gpus: int) -> str:
    """Why it can't run on a machine with so many GPUs, or ""."""
    if gpus >= experiment.gpus:
        return ""
    return f"needs {experiment.gpus} GPU{'s' * (experiment.gpus > 1)}, this machine has {gpus}" if gpus else NO_GPU


def run_apart(experiment: Experiment, device: str = "cuda") -> Outcome:
    """Run an experiment in a process of its own, and kill it with all its children at its time limit."""
    with tempfile.TemporaryDirectory(prefix="gpu-") as folder:
        file, said = Path(folder, "measured.json"), Path(folder, "said.txt")
        command = [sys.executable, "-m", __name__, experiment.module, device, str(file)]
        with said.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        try:
            status = process.wait(experiment.limit_seconds)
        except subprocess.TimeoutExpired:
            return Outcome("failed", f"did not end within {experiment.limit_seconds:g} seconds")
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if status or not file.exists():
            return Outcome("failed", _last_words(said.read_text(encoding="utf-8", errors="replace"), status))
        measured = Measured.from_json(file.read_text(encoding="utf-8"))
    return Outcome("failed" if measured.broken else "passed", "; ".join(measured.broken), measured)


def _last_words(said: str, status: int) -> str:
    ended = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    raised = [line for line in lines if line.partition(":")[0].endswith(("Error", "Failed", "Stuck"))]
    return as_recorded(": ".join([ended, *(raised or lines)[-1:]]))


def on_gpu(name: str) -> Printed:
    """Run an experiment on the GPUs of this machine and show it. Without a GPU, show the recording, marked as such."""
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    experiment, gpus = EXPERIMENTS[name], 0 if os.environ.get(VARIABLE) == "recorded" else count_gpus()
    reason = why_not(experiment, gpus)
    trouble = f"The experiment {reason}" if gpus and reason else ""
    if experiment.is_live and not reason:
        with ProgressLine() as progress:
            progress.show(f"Running on the GPU, at most {experiment.limit_seconds:.0f} seconds: {experiment.title}")
            outcome = run_apart(experiment)
        if outcome.state == "passed" and outcome.measured is not None:
            return _shown(experiment, outcome.measured, "run on this machine", "ddp-live")
        trouble = f"On this machine, the experiment failed: {outcome.words}"
    return _shown(experiment, recall(name), "recorded", "ddp-recorded", trouble)


def _shown(experiment: Experiment, measured: Measured | None, label: str, look: str, trouble: str = "") -> Printed:
    origin = f"{label}: {measured.origin}" if measured else "not recorded yet"
    lines = [measured.how, *measured.lines] if measured else [NOT_RECORDED]
    lines = [part for line in filter(None, [trouble, *lines]) for part in _wrapped(line)]
    mark = f'<i class="{look}">{html.escape(origin)}</i>'
    text = "\n".join([f"{experiment.title} ({origin})", *lines] if measured else lines)
    return Printed(f"{caption(experiment.title, mark)}\n{lines_as_html(lines)}", text, f"{experiment.title}: {origin}.")


def _wrapped(line: str) -> list[str]:
    """A long message in several lines, and a table as it is."""
    return [line] if len(line) <= MOST_LETTERS else textwrap.wrap(line, MOST_LETTERS, subsequent_indent="    ")


def main(module: str, device: str, file: str) -> None:
    """In the process of the experiment: measure, and write what was measured."""
    measure: Callable[[str], Measured] = importlib.import_module(module).measure
    measured = replace(measure(device), machine=this_machine(device))
    Path(file).write_text(measured.to_json(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
