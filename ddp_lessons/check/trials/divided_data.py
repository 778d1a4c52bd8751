"""Data for a learner's class to partition, and how a rank reads its partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ddp_lessons.check.trials.partitioners import Seeding
from ddp_lessons.check.trials.sample_shares import DataTrial, InTurns, index_of, other_random_numbers


@dataclass(frozen=True)
class CutTrial(DataTrial):
    """Data to partition; `seeds` has one seed per turn, None for the default of the class."""

    seeds: tuple[int | None, ...] = (None, None)
    parts: str = "equal"  # one of _VALID, or what is wrong with the sizes

    def sizes(self, world_size: int) -> list[float]:
        if self.parts == "unequal":
            return list(_UNEQUAL[world_size])
        equal = [1 / world_size] * world_size
        if self.parts == "one of them 0":
            return [0.0, *equal[2:], 2 / world_size] if world_size > 1 else equal
        wrong = {"too small": equal[0] / 2, "too large": equal[0] * 1.5, "negative": equal[0] - 1.25}
        wrong |= {"a little too small": equal[0] - 0.05, "a little too large": equal[0] + 0.05}
        first = wrong.get(self.parts, equal[0])
        last = equal[-1] + 1.25 if self.parts == "negative" else equal[-1]
        return [first, *equal[1:-1], last] if world_size > 1 else equal

    @property
    def is_valid(self) -> bool:
        return self.parts in _VALID

    def why_tempting(self, world_size: int) -> str:
        """Why a check of the sizes may reject these, which are valid; "" if there is no reason."""
        sizes = self.sizes(world_size)
        shown = f"[{', '.join(f'{size:.3g}' for size in sizes)}]"
        if total_of(sizes) != 1:
            return (
                f"valid sizes, {sizes}, which add up to {total_of(sizes)!r} because floats are rounded. Compare with "
                "math.isclose."
            )
        if 0.0 in sizes:
            return f"a size of 0, {shown}. Reject only sizes below 0: a partition may be empty."
        if self.samples == len(sizes):
            return (
                f"as many sizes as samples, {shown} for {len(sizes)} samples. That is one sample each. Raise the error "
                "only if there are more sizes than samples."
            )
        return ""


_VALID = ("equal", "unequal", "one of them 0")


# not all add up to exactly 1 in floats: 0.7 + 0.2 + 0.1 is 0.9999999999999999
_UNEQUAL: dict[int, tuple[float, ...]] = {
    1: (1.0,),
    2: (0.7, 0.3),
    3: (0.7, 0.2, 0.1),
    4: (0.1, 0.2, 0.3, 0.4),
}


class Cuts(InTurns):
    """Partition the data several times, each time with other random numbers, and read this rank's partition.

    The first partition is read twice: the second reading is the last of the answers.
    """

    def __init__(self, written: Callable[..., Any], seeding: Seeding) -> None:
        super().__init__(written)
        self.seeding = seeding

    def __call__(self, trial: CutTrial, data: Any) -> object:
        rank, sizes = dist.get_rank(), trial.sizes(dist.get_world_size())
        answers, again = [], None
        for turn, seed in enumerate(trial.seeds):
            other_random_numbers(rank, turn)
            try:
                partitioner = self._cut(data, list(sizes), seed)
                answers.append(_read(partitioner.use(rank), 10 * trial.samples))
                if again is None:
                    again = _read(partitioner.use(rank), 10 * trial.samples)
            except NotImplementedError:
                raise
            except Exception as refusal:
                is_meant = isinstance(refusal, ValueError | AssertionError)
                if trial.is_valid and not (is_meant and trial.why_tempting(len(sizes))):
                    raise
                return ValueError() if isinstance(refusal, ValueError) else refusal
        return [*answers, again]

    def _cut(self, data: Any, sizes: list[float], seed: int | None) -> Any:
        if seed is None and self.seeding.is_needed:
            seed = 1234
        if seed is None or not self.seeding.way:
            return self.written(data, sizes)
        if self.seeding.way == "by keyword":
            return self.written(data, sizes, seed=seed)
        return self.written(data, sizes, seed)


def _read(partition: Any, most: int) -> object:
    """The indices of its samples, or the object itself if it has none."""
    if isinstance(partition, str | dict) or not all(hasattr(partition, name) for name in ("__len__", "__getitem__")):
        return partition
    if isinstance(partition, Tensor) and not partition.dim():
        return partition
    indices = [index_of(partition[place]) for place in range(min(len(partition), most))]
    return torch.tensor(indices, dtype=torch.int64)


def total_of(sizes: Sequence[float]) -> float:
    """The sum, added up one by one like most code does."""
    total = 0.0
    for size in sizes:
        total += size
    return total
