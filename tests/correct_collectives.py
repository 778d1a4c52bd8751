"""Correct programs of one call each: every collective and message, in every dtype, in each way to make it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

Tensor = torch.Tensor
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
DTYPES = (*INTEGERS, *FLOATS)
OPERATORS = ("SUM", "PRODUCT", "MIN", "MAX", "AVG", "BAND", "BOR", "BXOR")
GROUPS = ("world", "part", "local")


def likes_of(mine: Tensor, count: int) -> list[Tensor]:
    return [torch.zeros_like(mine) for _ in range(count)]


def _gather(mine: Tensor, group: Any, root: int, **options: Any) -> Any:
    outputs = likes_of(mine, group.size()) if dist.get_rank() == root else None
    return dist.gather(mine, outputs, dst=root, group=group, **options), outputs


def _scatter(mine: Tensor, group: Any, root: int, **options: Any) -> Any:
    inputs = [mine + mine for _ in range(group.size())] if dist.get_rank() == root else None
    return dist.scatter(mine, inputs, src=root, group=group, **options), mine


def _all_gather(mine: Tensor, group: Any, root: int, **options: Any) -> Any:
    outputs = likes_of(mine, group.size())
    return dist.all_gather(outputs, mine, group=group, **options), outputs


def _all_gather_into_tensor(mine: Tensor, group: Any, root: int, **options: Any) -> Any:
    output = torch.cat(likes_of(mine, group.size()))
    return dist.all_gather_into_tensor(output, mine, group=group, **options), output


def _reduce_scatter(mine: Tensor, group: Any, root: int, **options: Any) -> Any:
    output = torch.zeros_like(mine)
    return dist.reduce_scatter(output, [mine] * group.size(), group=group, **options), output


def _reduce_scatter_tensor(mine: Tensor, group: Any, root: int, **options: Any) -> Any:
    output = torch.zeros_like(mine)
    return dist.reduce_scatter_tensor(output, torch.cat([mine] * group.size()), group=group, **options), output


def _all_to_all(mine: Tensor, group: Any, root: int, **options: Any) -> Any:
    outputs = likes_of(mine, group.size())
    return dist.all_to_all(outputs, [mine + mine] * group.size(), group=group, **options), outputs


def _all_to_all_single(mine: Tensor, group: Any, root: int, **options: Any) -> Any:
    output = torch.cat(likes_of(mine, group.size()))
    return dist.all_to_all_single(output, torch.cat([mine] * group.size()), group=group, **options), output


def _ring(mine: Tensor, group: Any, root: int, **options: Any) -> Any:
    """To the next rank, from the one before: as a batch, or one by one."""
    ranks = dist.get_process_group_ranks(group)
    here, got = ranks.index(dist.get_rank()), torch.zeros_like(mine)
    before, after = ranks[here - 1], ranks[(here + 1) % len(ranks)]
    if options["async_op"]:
        batch = [dist.P2POp(dist.isend, mine, after, group), dist.P2POp(dist.irecv, got, before, group)]
        works: list[Any] = dist.batch_isend_irecv(batch)
    else:
        works = [dist.isend(mine, after, group), dist.irecv(got, before, group, tag=0)]
    for work in works:
        work.wait()
    return None, got


CALLS: dict[str, Callable[..., Any]] = {
    "broadcast": lambda t, group, root, **o: (dist.broadcast(t, src=root, group=group, **o), t),
    "all_reduce": lambda t, group, root, **o: (dist.all_reduce(t, group=group, **o), t),
    # what the others have afterwards is not told
    "reduce": lambda t, group, root, **o: (
        dist.reduce(t, dst=root, group=group, **o),
        t if dist.get_rank() == root else None,
    ),
    "gather": _gather,
    "scatter": _scatter,
    "all_gather": _all_gather,
    "all_gather_into_tensor": _all_gather_into_tensor,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_tensor": _reduce_scatter_tensor,
    "all_to_all": _all_to_all,
    "all_to_all_single": _all_to_all_single,
    "ring": _ring,
    "functional all_reduce": lambda t, group, root, **o: (None, functional.all_reduce(t, "sum", group)),
    "functional all_gather": lambda t, group, root, **o: (None, functional.all_gather_tensor(t, 0, group)),
    "functional reduce_scatter": lambda t, group, root, **o: (
        None,
        functional.reduce_scatter_tensor(torch.cat([t] * group.size()), "sum", 0, group),
    ),
    "functional broadcast": lambda t, group, root, **o: (None, functional.broadcast(t, root, group)),
    "functional all_to_all": lambda t, group, root, **o: (
        None,
        functional.all_to_all_single(torch.cat([t] * group.size()), None, None, group),
    ),
}
REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor")


def plain_numbers(some: Any) -> object:
    """What can be compared: NaN is equal to NaN by its name."""
    if isinstance(some, Tensor):
        return repr(some.tolist())
    return [plain_numbers(one) for one in some] if isinstance(some, list | tuple) else some


def call_once(rank: int, world_size: int, name: str, dtype: str, where: str, in_background: bool, operator: str) -> Any:
    """What the call gives here; or the error, where torch has no such call for this dtype."""
    members = list(range(world_size)) if where == "world" else [0, world_size - 1]
    group: Any = dist.group.WORLD
    if where != "world":
        group = dist.new_group(members, use_local_synchronization=where == "local")
    if rank not in members:
        return None
    dist.barrier(group)  # a call may be over on one rank, and the group gone, while another still joins it
    mine = (torch.arange(4) + rank).to(getattr(torch, dtype))
    options = {"op": getattr(dist.ReduceOp, operator)} if operator else {}
    try:
        work, outputs = CALLS[name](mine, group, members[-1], async_op=in_background, **options)
        if work is not None:
            work.wait()
    except (RuntimeError, ValueError, NotImplementedError) as error:
        return type(error).__name__
    finally:
        if where != "world":
            dist.destroy_process_group(group)
    return plain_numbers(outputs)


def calls() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """The name of each program, its function, and what that is given beside rank and world size."""
    for name, dtype, where, in_background in itertools.product(CALLS, DTYPES, GROUPS, (False, True)):
        if not (in_background and name.startswith("functional")):
            told = f"{name} of {dtype} in {where}{', in the background' * in_background}"
            yield told, call_once, (name, dtype, where, in_background, "")
    for name, dtype, operator in itertools.product(REDUCING, DTYPES, OPERATORS):
        yield f"{name} of {dtype} with {operator}", call_once, (name, dtype, "world", True, operator)
