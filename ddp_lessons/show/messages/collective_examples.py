"""A tiny run of each collective, for its figure: what every rank holds before and after.

These functions run on the ranks. Rank 2 contributes 20, 21, ..., so that each value shows where it comes from.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Held = list[list[Any]]  # tensors, each as a list of its values
Pair = tuple[Held, Held]
Example = Callable[[int, int, Callable[..., Any]], Pair]
Lengths = Callable[[int, int], list[int]]  # of a rank's tensors
ROOT = 0
SPACING_SECONDS = 0.03  # between the arrivals of two ranks at a barrier


def run_example(rank: int, world_size: int, name: str) -> Pair:
    """Call the collective of this name on values that show where they come from."""
    import torch.distributed as dist

    return EXAMPLES[name](rank, world_size, getattr(dist, name))


def run_examples(rank: int, world_size: int, names: list[str]) -> list[Pair]:
    """Do the same for several collectives, one after the other."""
    return [run_example(rank, world_size, name) for name in names]


def _tensors(rank: int, *lengths: int) -> list[Any]:
    """One tensor for each length, with values from 10 x rank on, or from 100 x rank if there are many."""
    import torch

    first = rank * (10 if sum(lengths) <= 10 else 100)
    numbers = iter(range(first, first + sum(lengths)))
    return [torch.tensor([next(numbers) for _ in range(length)]) for length in lengths]


def _held(tensors: list[Any]) -> Held:
    return [tensor.tolist() for tensor in tensors]


def _in_place(**root: int) -> Example:
    def run(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
        (tensor,) = _tensors(rank, 2)
        before = _held([tensor])
        call(tensor, **root)
        return before, _held([tensor])

    return run


def _reduce(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
    before, after = _in_place(dst=ROOT)(rank, world_size, call)
    return before, after if rank == ROOT else []  # the other ranks now hold intermediate values


def _between(given: Lengths, taken: Lengths, how: Callable[[Any, list[Any], list[Any]], object]) -> Example:
    """For collectives with separate inputs and outputs; `how` makes the call."""

    def run(rank: int, world_size: int, call: Callable[..., Any]) -> Pair:
        ours, others = (_tensors(rank, *lengths(rank, world_size)) for lengths in (given, taken))
        how(call, ours, others)
        return _held(ours), _held(others)

    return run


def _one(rank: int, world_size: int) -> list[int]:
    return [1]


def _parts(rank: int, world_size: int) -> list[int]:
    return [1] * world_size


def _parts_of_root(rank: int, world_size: int) -> list[int]:
    return [1] * world_size if rank == ROOT else []


def _whole(rank: int, world_size: int) -> list[int]:
    return [world_size]


def _single(call: Any, given: list[Any], taken: list[Any]) -> None:
    call(taken[0], given[0])


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


EXAMPLES: dict[str, Example] = {
    "broadcast": _in_place(src=ROOT),
    "reduce": _reduce,
    "all_reduce": _in_place(),
    "scatter": _between(_parts_of_root, _one, lambda call, given, taken: call(taken[0], given or None, src=ROOT)),
    "gather": _between(_one, _parts_of_root, lambda call, given, taken: call(given[0], taken or None, dst=ROOT)),
    "all_gather": _between(_one, _parts, lambda call, given, taken: call(taken, given[0])),
    "reduce_scatter": _between(_parts, _one, lambda call, given, taken: call(taken[0], given)),
    "all_to_all": _between(_parts, _parts, lambda call, given, taken: call(taken, given)),
    "barrier": _barrier,
    "all_gather_into_tensor": _between(_one, _whole, _single),
    "all_gather_single": _between(_one, _whole, _single),
    "reduce_scatter_tensor": _between(_whole, _one, _single),
    "reduce_scatter_single": _between(_whole, _one, _single),
    "all_to_all_single": _between(_whole, _whole, _single),
    "all_gather_object": _all_gather_object,
    "gather_object": _gather_object,
    "broadcast_object_list": _broadcast_object_list,
    "scatter_object_list": _scatter_object_list,
}
HAVE_A_ROOT = "broadcast reduce scatter gather gather_object broadcast_object_list scatter_object_list".split()
