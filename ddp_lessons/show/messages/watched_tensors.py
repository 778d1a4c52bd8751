"""What runs on the ranks while a ring is recorded: it notes what the rank's tensor holds before each message it sends.

It imports nothing that a rank would have to wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def add_up_and_look(rank: int, world_size: int, all_reduce: Callable[..., Any]) -> list[list[int]]:
    """What the rank holds before each of its messages, and in the end. Rank 2 begins with 100, 200, 300, ..."""
    import torch
    import torch.distributed as dist

    __tracebackhide__ = True
    tensor = torch.arange(1, world_size + 1, dtype=torch.int32) * 10**rank
    held: list[list[int]] = []

    def looking(call: Callable[..., Any]) -> Callable[..., Any]:
        def look_and_call(first: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            sends = sum(one.op.__name__ == "isend" for one in first) if isinstance(first, list) else 1
            held.extend(tensor.tolist() for _ in range(sends))
            return call(first, *args, **kwargs)

        return look_and_call

    # in this rank, until it ends
    dist.send, dist.batch_isend_irecv = looking(dist.send), looking(dist.batch_isend_irecv)
    all_reduce(tensor)
    return [*held, tensor.tolist()]
