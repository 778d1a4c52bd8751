"""Steps per second of one DDP training run: in float32, with bfloat16 autocast, and compiled."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.gpu.gpu_measurements import Measured, as_recorded, ranks_on, wait_for
from ddp_lessons.show.programs.printed import in_columns

VARIANTS = {"float32": (False, False), "bf16": (True, False), "compiled": (False, True), "bf16, compiled": (True, True)}
SIZES = {"cuda": (2048, 4096), "cpu": (64, 32)}  # width of a layer, samples of a rank
LAYERS, WARM_UP_STEPS, ROUNDS, STEPS = 4, 5, 5, 20


def measure(device: str) -> Measured:
    """With one GPU, one rank has it alone: copies through gloo would hide the differences."""
    ranks = ranks_on(device, may_share=False)
    answers = ranks.launch(_rates, timeout_seconds=300.0)
    rates, troubles, losses, _ = answers[0]
    base = rates["float32"]
    rows = [[name, f"{rate:.3g}", f"{rate / base:.2f}"] for name, rate in rates.items()]
    width, samples = SIZES[device]
    first = f"{LAYERS} layers of {width} x {width}, {samples} samples on each rank"
    lines = [first, *in_columns([["", "steps/s", "ratio"], *rows], numbers=slice(1, 3))]
    lines += [f"{name}: {words}" for name, words in troubles.items()]
    checks = {
        "all ranks have the same weights": all(answer[3] == answers[0][3] for answer in answers),
        "all losses are near float32's": all(
            math.isclose(loss, losses["float32"], rel_tol=0.05) for loss in losses.values()
        ),
    }
    return Measured(ranks.how, lines, {"steps_per_second": rates, "troubles": troubles}, checks)


def _rates(rank: int, world_size: int, device: torch.device) -> tuple[dict[str, float], dict[str, str], Any, Any]:
    """The rate, the failure or the last loss of each variant, and a sum of its weights to compare the ranks by."""
    troubles, models, steps = dict[str, str](), dict[str, nn.Module](), dict[str, Callable[[], torch.Tensor]]()
    for name, (bf16, compiled) in VARIANTS.items():
        try:
            models[name], steps[name] = _prepared(device, bf16, compiled)
            for _ in range(WARM_UP_STEPS):  # the first ones compile, and DDP builds its buckets
                steps[name]()
        except Exception as error:  # no compiler on this machine: the same on every rank
            if not compiled:
                raise
            steps.pop(name, None)
            troubles[name] = as_recorded(error)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    losses: dict[str, float] = {}
    for _ in range(ROUNDS):  # in turn, so that a busy moment of the machine meets all of them
        for name, step in steps.items():
            wait_for(device)
            begin = time.perf_counter()
            for _ in range(STEPS):
                loss = step()
            wait_for(device)
            seconds[name].append(time.perf_counter() - begin)
            losses[name] = loss.item()
    sums = {name: sum(weight.double().sum().item() for weight in models[name].parameters()) for name in steps}
    return {name: STEPS / median(of_one) for name, of_one in seconds.items()}, troubles, losses, sums


def _prepared(device: torch.device, bf16: bool, compiled: bool) -> tuple[nn.Module, Callable[[], torch.Tensor]]:
    torch.manual_seed(0)
    width, samples = SIZES[device.type]
    net = nn.Sequential(*[part for _ in range(LAYERS) for part in (nn.Linear(width, width), nn.GELU())]).to(device)
    if compiled:
        net.compile()
    model = DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    inputs = torch.randn(samples, width, device=device)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            loss = (model(inputs) - inputs).square().mean()
        loss.backward()
        optimizer.step()
        detached: torch.Tensor = loss.detach()
        return detached

    return net, step
