"""Answers to the exercise of the ring, in other styles, and wrong ones that are nobody's listed mistake."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


def places() -> tuple[int, int, int, int]:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    return rank, world_size, (rank + 1) % world_size, (rank - 1) % world_size


def swap(outgoing: Tensor, after: int, incoming: Tensor, before: int) -> None:
    request = dist.isend(outgoing, after)
    dist.recv(incoming, before)
    request.wait()


def in_place(tensor: Tensor) -> None:
    rank, world_size, after, before = places()
    chunks = tensor.view(-1).tensor_split(world_size)
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[(rank - step - 1) % world_size])
        swap(chunks[(rank - step) % world_size], after, received, before)
        chunks[(rank - step - 1) % world_size].add_(received)
    for step in range(world_size - 1):
        swap(chunks[(rank + 1 - step) % world_size], after, chunks[(rank - step) % world_size], before)


def padded_the_other_way(tensor: Tensor) -> Tensor:
    rank, world_size, after, before = places()
    flat = tensor.flatten()
    length = -(-flat.numel() // world_size)
    padded = torch.cat([flat, flat.new_zeros(length * world_size - flat.numel())])
    chunks = list(padded.view(world_size, length))
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[0])
        swap(chunks[(rank + step) % world_size], before, received, after)
        chunks[(rank + step + 1) % world_size] += received
    for step in range(world_size - 1):
        received = torch.empty_like(chunks[0])
        swap(chunks[(rank - 1 + step) % world_size], before, received, after)
        chunks[(rank + step) % world_size].copy_(received)
    return padded[: flat.numel()].view(tensor.shape)


def to_everyone(tensor: Tensor) -> Tensor:
    rank, world_size, _, _ = places()
    total = tensor.clone()
    others = [other for other in range(world_size) if other != rank]
    sending = [dist.isend(tensor, other) for other in others]
    for other in others:
        received = torch.empty_like(tensor)
        dist.recv(received, other)
        total += received
    for request in sending:
        request.wait()
    return total


def twice_around(tensor: Tensor) -> Tensor:
    """Right, but it sends three times what a ring needs."""
    in_place(tensor.clone())
    in_place(tensor.clone())
    in_place(tensor)
    return tensor


RIGHT = {"ring_all_reduce": [in_place, padded_the_other_way]}
WRONG = {"ring_all_reduce": [(to_everyone, "each to the next rank"), (twice_around, "The ranks communicate too much")]}
