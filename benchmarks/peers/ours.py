"""Our launcher, as a learner types it."""

import torch
import torch.distributed as dist

from ddp_lessons import launch


def add_up(rank: int, world_size: int) -> float:
    total = torch.ones(1) * rank
    dist.all_reduce(total)
    return total.item()


def answers(world_size: int) -> list[float]:
    return list(launch(add_up, world_size))
