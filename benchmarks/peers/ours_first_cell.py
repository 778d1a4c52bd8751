"""The very first cell of a notebook: import, define, launch, with nothing imported before."""

from ddp_lessons import launch  # isort: skip  (a learner's cell starts with it)
import torch
import torch.distributed as dist


def add_up(rank: int, world_size: int) -> float:
    total = torch.ones(1) * rank
    dist.all_reduce(total)
    return total.item()


def answers(world_size: int) -> list[float]:
    return list(launch(add_up, world_size))
