"""Tiny runs of each collective, for its picture: what every rank held before and after.

These functions run on the ranks. Rank 2 brings 20, 21, ..., so that every number tells where it comes from.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Held = list[list[Any]]  # tensors, each as a list of its numbers
Pair = tuple[Held, Held]
ROOT = 0
SPACING_SECONDS = 0.03  # between the ranks on their way to a barrier


def run_example(rank: int, world_size: int, name: str) -> Pair:
    """Call the collective of this name on numbers that tell where they come from."""
    import torch.distributed as dist

    return EXAMPLES[name](rank, world_size, getattr(dist, name))


def run_examples(rank: int, world_size: int, names: list[str]) -> list[Pair]:
    """The same for several, one after the other."""
    return [run_example(rank, world_size, name) for name in names]


def _tensors(rank: int, *lengths: int) -> list[Any]:
    """One tensor for each length; the numbers go on from 10 x rank, or from 100 x rank where there are many."""
    import torch

    first = rank * (10 if sum(lengths) <= 10 else 100)
    numbers = iter(range(first, first + sum(lengths)))
    return [torch.tensor([next(numbers) for _ in range(length)]) for length in lengths]


def _held(tensors: list[Any]) -> Held:
    return [tensor.tolist() for tensor in tensors]


def _in_place(rank: int, world_size: int, call: Callable[..., Any], **root: int) -> Pair:
    (tensor,) = _tensors(rank, 2)
    before = _held([tensor])
    call(tensor, **root)
    return before, _held([tensor])


def _broadcast(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    return _in_place(rank, world_size, call, src=ROOT)


def _reduce(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    before, after = _in_place(rank, world_size, call, dst=ROOT)
    return before, after if rank == ROOT else []  # what the others hold now is left over from the work


def _scatter(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    given = _tensors(rank, *[1] * world_size) if rank == ROOT else None
    (taken,) = _tensors(rank, 1)
    call(taken, given, src=ROOT)
    return _held(given or []), _held([taken])


def _gather(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    given = _tensors(rank, 1)
    taken = _tensors(rank, *[1] * world_size) if rank == ROOT else None
    call(given[0], taken, dst=ROOT)
    return _held(given), _held(taken or [])


def _all_gather(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    given, taken = _tensors(rank, 1), _tensors(rank, *[1] * world_size)
    call(taken, given[0])
    return _held(given), _held(taken)


def _reduce_scatter(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    given, taken = _tensors(rank, *[1] * world_size), _tensors(rank, 1)
    call(taken[0], given)
    return _held(given), _held(taken)


def _all_to_all(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    given, taken = _tensors(rank, *[1] * world_size), _tensors(rank, *[1] * world_size)
    call(taken, given)
    return _held(given), _held(taken)


def _single(longer: str) -> Callable[[int, int, Callable[..., Any]], Pair]:
    """Of the variants that take one tensor in and one out; `longer` says which of them holds a part for each rank."""

    def run(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
        given = _tensors(rank, world_size if "in" in longer else 1)
        taken = _tensors(rank, world_size if "out" in longer else 1)
        call(taken[0], given[0])
        return _held(given), _held(taken)

    return run


def _barrier(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    time.sleep(SPACING_SECONDS * (rank + 1))
    call()
    return [], []


def _all_gather_object(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    taken: list[Any] = [None] * world_size
    call(taken, f"from {rank}")
    return [[f"from {rank}"]], [[one] for one in taken]


def _gather_object(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    taken: list[Any] | None = [None] * world_size if rank == ROOT else None
    call(f"from {rank}", taken, dst=ROOT)
    return [[f"from {rank}"]], [[one] for one in taken or []]


def _broadcast_object_list(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    objects = [f"from {rank}"]
    before = [list(objects)]
    call(objects, src=ROOT)
    return before, [objects]


def _scatter_object_list(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    given = [f"for {to}" for to in range(world_size)] if rank == ROOT else None
    taken: list[Any] = [None]
    call(taken, given, src=ROOT)
    return [[one] for one in given or []], [taken]


EXAMPLES: dict[str, Callable[[int, int, Callable[..., Any]], Pair]] = {
    "broadcast": _broadcast,
    "reduce": _reduce,
    "all_reduce": _in_place,
    "scatter": _scatter,
    "gather": _gather,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "barrier": _barrier,
    "all_gather_into_tensor": _single("out"),
    "all_gather_single": _single("out"),
    "reduce_scatter_tensor": _single("in"),
    "reduce_scatter_single": _single("in"),
    "all_to_all_single": _single("in, out"),
    "all_gather_object": _all_gather_object,
    "gather_object": _gather_object,
    "broadcast_object_list": _broadcast_object_list,
    "scatter_object_list": _scatter_object_list,
}
HAVE_A_ROOT = (
    "broadcast",
    "reduce",
    "scatter",
    "gather",
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
)
