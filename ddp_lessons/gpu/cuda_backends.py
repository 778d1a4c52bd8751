"""Every call with CUDA tensors: gloo with two ranks on one GPU, and NCCL with a rank on each GPU."""

from __future__ import annotations

from dataclasses import replace

import torch

from ddp_lessons.backends.backend_trials import GLOO, GLOO_ON_GPU, JOIN, NCCL, Trials, tried
from ddp_lessons.gpu.gpu_recordings import Measured, as_recorded
from ddp_lessons.show.page.printed import in_columns

NEEDED = (JOIN, "all_reduce", "broadcast", "barrier", "a step of DDP")


def measure(device: str) -> Measured:
    gpus = torch.cuda.device_count()
    # MPI and CPU tensors need no GPU
    places = (GLOO_ON_GPU, replace(NCCL, name=f"NCCL, GPUs: {gpus}", ranks=gpus)) if device == "cuda" else (GLOO,)
    trials = Trials(tuple(trial for place in places for trial in tried(place)))
    rows = [[call, *(trials.of(place, call).outcome for place in trials.places)] for call in trials.calls]
    said = [f"{trial.place}, {trial.call}: {trial.words}" for trial in trials.all if trial.words]
    lines = in_columns([["call", *trials.places], *rows]) + list(map(as_recorded, said))
    outcomes = {place: {call: trials.of(place, call).outcome for call in trials.calls} for place in trials.places}
    checks = {f"{place}: {call}": of[call] == "works" for place, of in outcomes.items() for call in NEEDED}
    checks["no call gives a wrong result"] = all(trial.outcome != "wrong" for trial in trials.all)
    return Measured(", ".join(trials.places), lines, outcomes, checks)
