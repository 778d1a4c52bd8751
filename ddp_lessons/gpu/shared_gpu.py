"""What NCCL says if two ranks use one GPU: the whole message, which the table of backends shortens."""

from __future__ import annotations

from ddp_lessons.gpu.gpu_recordings import Measured, as_recorded
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.launch import launch

MOST_LINES = 12


def _join_on_gpu_0(rank: int, world_size: int, device: str) -> str:
    import torch
    import torch.distributed as dist

    try:
        if device == "cuda":
            torch.cuda.set_device(0)
            # without it, torch 2.15 takes the GPU of the local rank
            dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
        else:
            dist.init_process_group("nccl")
        tensor = torch.ones(1, device=device)
        dist.all_reduce(tensor)
        return f"works: {tensor.item():g}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def measure(device: str) -> Measured:
    try:
        said = list(launch(_join_on_gpu_0, 2, device, join=False, quiet=True, record=False, timeout_seconds=60))
    except (WorkerFailed, WorkersStuck) as failure:
        said = [str(failure)]
    lines = [f"rank {rank}: {as_recorded(line)}" for rank, words in enumerate(said) for line in _of_rank(words)]
    worked = [words.startswith("works: ") for words in said]
    outcome = "works" if all(worked) else "refused"
    # a mixture would mean that one rank still waits
    return Measured("2 ranks, NCCL", lines, {"outcome": outcome}, {"all ranks say the same": len(set(worked)) == 1})


def _of_rank(words: str) -> list[str]:
    return [line.strip() for line in words.splitlines() if line.strip()][:MOST_LINES]
