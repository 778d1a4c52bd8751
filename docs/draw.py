"""Draw README's picture of a ring all-reduce from a real run: `.venv/bin/python docs/draw.py`."""

import pathlib
import time

import torch
import torch.distributed as dist

from ddp_lessons import launch, show
from ddp_lessons.train.ring import ring_all_reduce


def add_up(rank: int, world_size: int) -> None:
    tensor = torch.full((4_000_000,), float(rank))
    dist.barrier()
    time.sleep(0.004 * (rank == 2))  # one comes late, and everybody waits
    ring_all_reduce(tensor)


if __name__ == "__main__":
    results = launch(add_up, 4)
    show.timeline(results).save(pathlib.Path(__file__).parent / "ring.png")
