"""Examples in which ranks have to agree before they communicate: on a root, and on the members of a group."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def share_best(score: float, tensor: Tensor) -> Tensor:
    """Give every rank the tensor of the rank with the highest score; in a tie, the lowest rank wins."""
    scores = [torch.zeros(1, dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(scores, torch.tensor([score], dtype=torch.float64))
    # All ranks look at the same list, so all find the same root. A rank with only its own score can't.
    best = int(torch.cat(scores).argmax())  # the first one, if several have the highest score
    dist.broadcast(tensor, best)
    return tensor


def sum_of_half(tensor: Tensor) -> Tensor:
    """Add up the tensors of the even ranks, and separately those of the odd ranks."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    # Every rank makes both groups, in the same order, even the one that it does not belong to.
    even, odd = dist.new_group(range(0, world_size, 2)), dist.new_group(range(1, world_size, 2))
    mine = odd if rank % 2 else even
    assert isinstance(mine, dist.ProcessGroup)  # the other one is only a placeholder here
    dist.all_reduce(tensor, group=mine)
    return tensor
