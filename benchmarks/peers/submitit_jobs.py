"""The same all_reduce as a function that submitit sends to Slurm: one job after the other, each with its seconds."""

import json
import os
import sys
import time

import submitit  # type: ignore[import-not-found,import-untyped,unused-ignore]


def add_up(meeting: str) -> float:
    import torch
    import torch.distributed as dist

    rank, world_size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world_size)
    total = torch.tensor(float(rank))
    dist.all_reduce(total)
    return total.item()


def main(folder: str, ranks: int, jobs: int) -> None:
    executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
    executor.update_parameters(nodes=2, tasks_per_node=ranks // 2, timeout_min=5, slurm_partition="lesson")
    for number in range(jobs):
        begin = time.monotonic()
        answers = executor.submit(add_up, f"tcp://machine0:{29600 + number}").results()
        print(json.dumps([time.monotonic() - begin, answers]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
