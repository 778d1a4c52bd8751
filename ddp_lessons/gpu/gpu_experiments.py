"""The experiments that need a GPU. Each runs in a process of its own with a time limit.

One that fails, hangs or crashes costs only its own recording.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ddp_lessons.gpu.gpu_recordings import Measured, as_recorded, this_machine


@dataclass(frozen=True)
class Experiment:
    """`module` has a function `measure(device)`, which returns what it measured."""

    module: str
    title: str
    limit_seconds: float = 300.0


@dataclass(frozen=True)
class Outcome:
    """`state` is "passed" or "failed"; `words` say why."""

    state: str
    words: str = ""
    measured: Measured | None = None


_HERE = __package__
EXPERIMENTS = {
    "memory": Experiment(f"{_HERE}.peak_memory", "Memory of each rank"),
    "speed": Experiment(f"{_HERE}.step_rates", "Steps per second", 600.0),
    "overlap": Experiment(f"{_HERE}.stream_overlap", "Communication and computation on the GPU"),
}


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


def main(module: str, device: str, file: str) -> None:
    """In the process of the experiment: measure, and write what was measured."""
    measure: Callable[[str], Measured] = importlib.import_module(module).measure
    measured = replace(measure(device), machine=this_machine(device))
    Path(file).write_text(measured.to_json(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
