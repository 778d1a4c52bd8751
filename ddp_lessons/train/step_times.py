"""Time a message and a training step, for the numbers of a cost model.

Launch both with `record=False`, because recording takes time, too. Other programs can only make a round slower, so the
fastest of several rounds counts.
"""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.train.networks import QuickNet


def seconds_of_message(rank: int, world_size: int, size_bytes: int, rounds: int = 20) -> float:
    """Return the seconds that a message between two ranks takes: half of a ping-pong's time."""
    tensor, seconds = torch.ones(size_bytes // 4), []
    for _ in range(rounds):
        began = time.perf_counter()
        for call in (dist.send, dist.recv) if rank == 0 else (dist.recv, dist.send):
            call(tensor, 1 - rank)
        seconds.append((time.perf_counter() - began) / 2)
    return min(seconds)


def seconds_of_step(rank: int, world_size: int, data: Any, batch_size: int, rounds: int = 9, steps: int = 3) -> float:
    """Return the seconds that one step of training QuickNet on a global batch takes.

    Each rank computes on one core. A single rank trains without DDP.
    """
    torch.set_num_threads(1)
    model: nn.Module = QuickNet()
    if world_size > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    mine = slice(rank, batch_size, world_size)
    images, labels = data.images[mine], data.labels[mine]
    seconds = []
    for _ in range(rounds):
        dist.barrier()  # the clock starts when all ranks are ready
        began = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            F.nll_loss(model(images), labels).backward()
            optimizer.step()
        dist.barrier()  # and stops when the straggler is done
        seconds.append((time.perf_counter() - began) / steps)
    return min(seconds[1:])  # DDP's first steps are slower
