"""Data that a learner's class divides, and what a rank reads of its partition."""

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
    """Data to be cut; `seeds` has one for each turn, None for the one that the class brings."""

    seeds: tuple[int | None, ...] = (None, None)
    parts: str = "equal"  # or one of _VALID, or what is wrong with them

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
        """What makes sizes that are right look wrong: refuse them, and it was meant; or else ""."""
        sizes = self.sizes(world_size)
        shown = f"[{', '.join(f'{size:.3g}' for size in sizes)}]"
        if total_of(sizes) != 1:
            return (
                f"sizes that are right: {sizes} add up to {total_of(sizes)!r}, since floats are rounded. "
                "Compare with math.isclose."
            )
        if 0.0 in sizes:
            return f"a size of 0, {shown}: only a size below 0 is wrong, and a partition may be empty."
        if self.samples == len(sizes):
            return f"as many sizes as samples, {shown} for {len(sizes)} samples: only more are too many."
        return ""


_VALID = ("equal", "unequal", "one of them 0")


# not all of them add up to 1 exactly, as floats go: 0.7 + 0.2 + 0.1 is 0.9999999999999999
_UNEQUAL: dict[int, tuple[float, ...]] = {
    1: (1.0,),
    2: (0.7, 0.3),
    3: (0.7, 0.2, 0.1),
    4: (0.1, 0.2, 0.3, 0.4),
}


class Cuts(InTurns):
    """Cut the data again and again, each time with other random numbers, and read this rank's partition.

    Of the first cut it is read twice: the second reading is the last of the answers.
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
    """The indices of its samples, or what it is if it has none."""
    if isinstance(partition, str | dict) or not all(hasattr(partition, name) for name in ("__len__", "__getitem__")):
        return partition
    if isinstance(partition, Tensor) and not partition.dim():
        return partition
    indices = [index_of(partition[place]) for place in range(min(len(partition), most))]
    return torch.tensor(indices, dtype=torch.int64)


def total_of(sizes: Sequence[float]) -> float:
    """Added up one by one, as most would."""
    total = 0.0
    for size in sizes:
        total += size
    return total
