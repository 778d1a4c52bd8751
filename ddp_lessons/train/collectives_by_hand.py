"""Collectives built from send and receive.

They are written to be read, not to be fast. All ranks call the same function, and each does its own part.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def broadcast_by_hand(tensor: Tensor, src: int = 0) -> Tensor:
    """Copy the tensor of rank `src` to all ranks."""
    if dist.get_rank() == src:
        for other in range(dist.get_world_size()):
            if other != src:
                dist.send(tensor, other)
    else:
        dist.recv(tensor, src)  # overwrites this rank's tensor
    return tensor


def all_gather_by_hand(tensor: Tensor) -> list[Tensor]:
    """Return, on every rank, the list of all ranks' tensors, by rank: one broadcast from each."""
    gathered = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    gathered[dist.get_rank()].copy_(tensor)  # a copy, so that `tensor` stays unchanged
    return [broadcast_by_hand(received, src) for src, received in enumerate(gathered)]
