"""The cost model of an all-reduce: each message takes a latency, and each byte takes transfer time.

    seconds of a message = latency_seconds + size_bytes / bytes_per_second

The three functions differ only in the number of messages in a row and in their size. The model ignores the time
for additions, and that ranks may share a processor or a network link.
"""

from __future__ import annotations


def star_seconds(world_size: int, size_bytes: float, latency_seconds: float, bytes_per_second: float) -> float:
    """Through rank 0, which receives world_size - 1 tensors and then sends as many, one after the other."""
    messages = 2 * (world_size - 1)
    return messages * (latency_seconds + size_bytes / bytes_per_second)


def tree_seconds(world_size: int, size_bytes: float, latency_seconds: float, bytes_per_second: float) -> float:
    """Up a binary tree and down again: also whole tensors, but only log2(world_size) in a row each way."""
    rounds = (world_size - 1).bit_length()  # log2(world_size), rounded up: 0, 1, 2, 2, 3, ... for 1, 2, 3, 4, 5, ...
    return 2 * rounds * (latency_seconds + size_bytes / bytes_per_second)


def ring_seconds(world_size: int, size_bytes: float, latency_seconds: float, bytes_per_second: float) -> float:
    """Around a ring in chunks: as many messages in a row as through rank 0, but each 1 / world_size of the size."""
    messages = 2 * (world_size - 1)
    # all ranks send at the same time; for many ranks, the bytes approach twice the tensor
    return messages * (latency_seconds + size_bytes / world_size / bytes_per_second)
