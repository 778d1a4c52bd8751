"""Run everything that needs an NVIDIA GPU, check it, and record it: `make gpu`."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ddp_lessons.gpu.gpu_experiments import EXPERIMENTS, Experiment, Outcome, run_apart
from ddp_lessons.gpu.gpu_recordings import keep
from ddp_lessons.show.programs.printed import in_columns

ALL = {**EXPERIMENTS, "lessons": Experiment("authoring.gpu_lessons", "Lessons that use a GPU", 3600.0)}


@dataclass(frozen=True)
class Row:
    name: str
    outcome: Outcome
    seconds: float = 0.0

    @property
    def cells(self) -> list[str]:
        return [self.name, self.outcome.state, f"{self.seconds:.0f} s", self.outcome.words]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m authoring.gpu", description=__doc__)
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=", ".join(ALL))
    asked = parser.parse_args(arguments).experiments or list(ALL)
    if unknown := [name for name in asked if name not in ALL]:
        parser.error(f"there is no experiment {unknown[0]!r}; there are {', '.join(ALL)}")
    if not torch.cuda.device_count():
        print(no_gpu(), file=sys.stderr)
        return 1
    rows = [run_and_record(name, ALL[name]) for name in asked]
    print(table(rows))
    if any(row.outcome.state == "passed" for row in rows):
        print("Next: commit ddp_lessons/gpu/recordings.")
    return int(any(row.outcome.state == "failed" for row in rows))


def no_gpu() -> str:
    """Two lines: what is missing, and what to do."""
    if shutil.which("nvidia-smi") is None:
        return "make gpu: no NVIDIA GPU on this machine.\nNext: run it on a machine with one. Nothing was recorded."
    from ddp_lessons.workshop.doctor import check_gpu

    unseen = check_gpu()
    return f"make gpu: torch sees no GPU: {unseen.found}.\nNext: {unseen.remedy} Nothing was recorded."


def run_and_record(name: str, experiment: Experiment, device: str = "cuda") -> Row:
    """Run one experiment, and keep its recording if it passed. An older recording stays otherwise."""
    print(f"{name}: {experiment.title}, at most {experiment.limit_seconds:g} seconds ...", file=sys.stderr, flush=True)
    begin = time.monotonic()
    outcome = run_apart(experiment, device)
    if outcome.state == "passed" and outcome.measured is not None:
        try:
            keep(name, outcome.measured)
        except (OSError, ValueError) as error:
            outcome = Outcome("failed", str(error))
    return Row(name, outcome, time.monotonic() - begin)


def table(rows: Sequence[Row]) -> str:
    return "\n".join(in_columns([["experiment", "result", "took", "why"], *(row.cells for row in rows)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
