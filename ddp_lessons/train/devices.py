"""The same lesson on a laptop and on a machine with GPUs: which backend, and which device for this rank."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist


def backend_for(world_size: int) -> str:
    """Return "nccl" if every rank can have a GPU of its own, which nccl asks for, else "gloo"."""
    return "nccl" if dist.is_nccl_available() and torch.cuda.device_count() >= world_size else "gloo"


def device_of_this_rank() -> torch.device:
    """Return this rank's own GPU where its group talks through nccl, else the CPU."""
    if dist.is_initialized() and "nccl" in dist.get_backend():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", dist.get_rank())))
    return torch.device("cpu")
