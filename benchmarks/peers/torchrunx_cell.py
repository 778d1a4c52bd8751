"""torchrunx on this machine only; it joins the group and returns the values."""

import torch
import torch.distributed as dist
import torchrunx  # type: ignore[import-not-found, unused-ignore]


def add_up() -> float:
    total = torch.ones(1) * dist.get_rank()
    dist.all_reduce(total)
    return total.item()


def answers(world_size: int) -> list[float]:
    launcher = torchrunx.Launcher(hostnames=["localhost"], workers_per_host=world_size, backend="gloo")
    results = launcher.run(add_up)
    return [results.rank(rank) for rank in range(world_size)]
