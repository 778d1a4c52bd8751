"""Choose the backend and a rank's device, so that a lesson runs on a laptop as well as on a machine with GPUs."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from ddp_lessons.train.sampling import rank_and_world_size


def backend_for(world_size: int) -> str:
    """Return the backend for `init_process_group`: NCCL needs one GPU for every rank on this node.

    Without a backend, torch uses only that of the accelerator it finds. Then you can't send tensors on the CPU, nor
    Python objects, which would go through the current GPU: the first one on every rank, unless you call set_device.
    """
    return "cpu:gloo,cuda:nccl" if dist.is_nccl_available() and _has_gpus_for_all(world_size) else "gloo"


def choose_backend(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    """Return the backend for tensors on `device`, "cpu" or "cuda", given the numbers of ranks and GPUs on this node."""
    # Whether torch was built with NCCL says nothing about GPUs, and NCCL refuses two ranks on one GPU.
    return "nccl" if device == "cuda" and has_nccl and gpus_here >= ranks_here else "gloo"


def device_of_this_rank() -> torch.device:
    """Return this rank's own GPU if every rank on this node has one and their group uses nccl; otherwise, the CPU.

    Outside a process group, the process gets the first GPU, if there is one.
    """
    rank, world_size = rank_and_world_size()
    speaks_nccl = not dist.is_initialized() or "nccl" in dist.get_backend_config()
    if speaks_nccl and _has_gpus_for_all(world_size):
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)) if dist.is_initialized() else 0)
    return torch.device("cpu")


def _has_gpus_for_all(world_size: int) -> bool:
    # torchrun sets how many ranks are on this node, and which of them this one is; without it, all ranks are here
    return torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", world_size))
