"""The function that runs on the ranks while a ring is recorded: it logs the tensor before each message is sent.

It has no slow imports, for which a rank would have to wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def add_up_and_look(rank: int, world_size: int, all_reduce: Callable[..., Any]) -> list[list[int]]:
    """Return what the rank holds before each of its messages and at the end. Rank 2 starts with 100, 200, 300, ..."""
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
