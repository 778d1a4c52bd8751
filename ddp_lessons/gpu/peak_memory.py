"""The memory of each rank with DDP, ZeRO-1 and FSDP2: the peak on the GPU, and what training keeps."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.gpu.gpu_measurements import Measured, as_recorded, ranks_on
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.show.programs.printed import in_columns
from ddp_lessons.train.memory import bytes_held

WAYS = ("DDP", "ZeRO-1", "FSDP2")
SIZES = {"cuda": (1024, 8, 256), "cpu": (16, 2, 8)}  # width, blocks, samples of a rank
STEPS = 3


class Block(nn.Module):
    """As in the lesson on what comes after DDP."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Any:
        return x + self.narrow(torch.relu(self.widen(x)))


def measure(device: str) -> Measured:
    ranks = ranks_on(device)
    found, troubles = dict[str, list[dict[str, float]]](), dict[str, str]()
    for way in WAYS:
        try:
            found[way] = list(ranks.launch(_trained, way))
        except (WorkerFailed, WorkersStuck) as failure:
            if way == "DDP" or ranks.backend != "gloo":  # gloo can't do every call with CUDA tensors
                raise
            troubles[way] = as_recorded(failure)
    checks = {"all ways reach the same losses": all(_near(found["DDP"], of_way) for of_way in found.values())}
    if device == "cuda":
        checks["the peak is at least what is kept"] = all(r["peak"] >= r["kept"] for of in found.values() for r in of)
    return Measured(ranks.how, _lines(found, troubles, device), {**found, "troubles": troubles}, checks)


def _near(these: list[dict[str, float]], those: list[dict[str, float]]) -> bool:
    return all(math.isclose(a["loss"], b["loss"], rel_tol=1e-3) for a, b in zip(these, those, strict=True))


def _lines(found: dict[str, list[dict[str, float]]], troubles: dict[str, str], device: str) -> list[str]:
    width, blocks, samples = SIZES[device]
    rows = [
        [f"{way}, rank {rank}", *(f"{of[kind] / 1e6:,.1f}" if kind in of else "-" for kind in ("kept", "peak"))]
        for way, of_way in found.items()
        for rank, of in enumerate(of_way)
    ]
    first = f"{blocks} blocks {width} wide, float32, Adam, {samples} samples on each rank"
    table = in_columns([["MB", "kept", "peak"], *rows], numbers=slice(1, 3))
    return [first, *table, *(f"{way}: {words}" for way, words in troubles.items())]


def _trained(rank: int, world_size: int, device: torch.device, way: str) -> dict[str, float]:
    model, optimizer = _prepared(device, world_size, way)
    torch.manual_seed(1 + rank)
    inputs, targets = torch.randn(2, SIZES[device.type][2], SIZES[device.type][0], device=device)
    for step in range(STEPS):
        if step == STEPS - 1 and device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)  # without what only the start of training needs
        optimizer.zero_grad()
        loss = (model(inputs) - targets).square().mean()
        loss.backward()
        optimizer.step()
    peak = {"peak": torch.cuda.max_memory_allocated(device)} if device.type == "cuda" else {}
    return {"loss": loss.item(), "kept": sum(bytes_held(model, optimizer).values()), **peak}


def _prepared(device: torch.device, world_size: int, way: str) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    width, blocks, _ = SIZES[device.type]
    model: nn.Module = nn.Sequential(*[Block(width) for _ in range(blocks)]).to(device)
    if way == "FSDP2":
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(device.type, (world_size,))
        for part in [*model.children(), model]:
            fully_shard(part, mesh=mesh)
        return model, torch.optim.Adam(model.parameters(), lr=0.001)
    model = DistributedDataParallel(model)
    if way == "ZeRO-1":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.001)
    return model, torch.optim.Adam(model.parameters(), lr=0.001)
