"""How much of the communication is hidden behind computation: spans of CUDA kernels, by stream."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.gpu.gpu_measurements import Measured, ranks_on, wait_for

SIZES = {"cuda": (2048, 4096), "cpu": (512, 64)}  # width of a layer, samples of a rank
LAYERS, BUCKET_MEGABYTES = 6, 2
COLUMNS, MOST_SPANS = 96, 300
MARKS = {"computes": "#", "communicates": "=", "copies": "-"}


class Span(NamedTuple):
    lane: str  # a CUDA stream, or a thread of the CPU
    kind: str  # one of MARKS
    begin: float  # microseconds
    end: float


def measure(device: str) -> Measured:
    ranks = ranks_on(device)
    spans = list(ranks.launch(_profiled))
    overlaps = [overlap(of_rank) for of_rank in spans]
    said = ", ".join(f"rank {rank} {share:.0%}" for rank, share in enumerate(overlaps))
    lines = [f"communication hidden behind computation: {said}", "one step of rank 0:", *drawn(spans[0])]
    checks = {
        "every rank computes and communicates": all(
            {"computes", "communicates"} <= {span.kind for span in of_rank} for of_rank in spans
        ),
        "the kernels are on CUDA streams": device == "cpu"
        or all(span.lane.startswith("stream ") for of in spans for span in of if span.kind == "computes"),
    }
    rounded = [[*span[:2], round(span.begin), round(span.end)] for span in spans[0][:MOST_SPANS]]
    return Measured(ranks.how, lines, {"overlap": overlaps, "spans_of_rank_0": rounded}, checks)


def overlap(spans: Sequence[Span]) -> float:
    """The fraction of the time of communication in which this rank also computes."""
    computing = _merged(span for span in spans if span.kind == "computes")
    sending = _merged(span for span in spans if span.kind == "communicates")
    hidden = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in sending for b in computing)
    total = sum(end - begin for begin, end in sending)
    return hidden / total if total else 0.0


def _merged(spans: Iterable[Span]) -> list[tuple[float, float]]:
    """Without what two spans have in common, so that no moment counts twice."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted((span.begin, span.end) for span in spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def spans_of(events: Iterable[dict[str, Any]]) -> list[Span]:
    """What a trace of the profiler says about computing, copying and communicating, from 0 on.

    NCCL communicates by kernels; gloo does on threads of the CPU. Without kernels, matrix products are the computation.
    """
    complete = [event for event in events if event.get("ph") == "X"]
    has_kernels = any(event.get("cat") == "kernel" for event in complete)
    found = []
    for event in complete:
        kind, args = _kind(event, has_kernels), event.get("args", {})
        if kind:
            lane = f"stream {args['stream']}" if "stream" in args else "gloo" if kind == "communicates" else "CPU"
            found.append(Span(lane, kind, float(event["ts"]), float(event["ts"]) + float(event["dur"])))
    first = min((span.begin for span in found), default=0.0)
    moved = (span._replace(begin=span.begin - first, end=span.end - first) for span in found)
    return sorted(moved, key=lambda span: span.begin)


def _kind(event: dict[str, Any], has_kernels: bool) -> str:
    name, category = str(event.get("name", "")), event.get("cat", "")
    if category == "kernel":
        return "communicates" if name.lower().startswith("nccl") else "computes"
    if category in ("gpu_memcpy", "gpu_memset"):
        return "copies"
    if name.startswith("gloo:"):
        return "communicates"
    return "computes" if not has_kernels and name in ("aten::mm", "aten::addmm") else ""


def drawn(spans: Sequence[Span]) -> list[str]:
    """A line for each stream, in which a column is a part of the time."""
    end = max((span.end for span in spans), default=0.0)
    lanes = {lane: [" "] * COLUMNS for lane in sorted({span.lane for span in spans})}
    for span in spans:
        first, last = (min(COLUMNS - 1, int(at / end * COLUMNS)) if end else 0 for at in (span.begin, span.end))
        lanes[span.lane][first : last + 1] = MARKS[span.kind] * (last + 1 - first)
    width = max(map(len, lanes), default=0)
    legend = ", ".join(f"{mark} {kind}" for kind, mark in MARKS.items())
    rows = [f"{lane:{width}} |{''.join(row)}|" for lane, row in lanes.items()]
    return [*rows, f"{legend}; {end / 1000:.3g} ms in all"]


def _profiled(rank: int, world_size: int, device: torch.device) -> list[Span]:
    width, samples = SIZES[device.type]
    net = nn.Sequential(*[nn.Linear(width, width) for _ in range(LAYERS)]).to(device)
    model = DistributedDataParallel(net, bucket_cap_mb=BUCKET_MEGABYTES)
    inputs = torch.randn(samples, width, device=device)
    kinds = [torch.profiler.ProfilerActivity.CPU]
    kinds += [torch.profiler.ProfilerActivity.CUDA] if device.type == "cuda" else []
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "trace.json"))
        schedule = torch.profiler.schedule(wait=1, warmup=3, active=1)  # without DDP's first steps
        with torch.profiler.profile(
            activities=kinds, schedule=schedule, on_trace_ready=lambda done: done.export_chrome_trace(file)
        ) as profiler:
            for _ in range(5):
                model(inputs).square().mean().backward()
                wait_for(device)  # a kernel counts for the step that asked for it
                profiler.step()
        events = json.loads(Path(file).read_text(encoding="utf-8"))["traceEvents"]
    return spans_of(events)
