"""The trials of an exercise: what the ranks are given, and which ranks come late.

Everything is drawn from seeds, so that the ranks and the notebook can each make the same tensors without sending them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

SECONDS_TO_THE_LAST = 0.008


@dataclass(frozen=True)
class Trial:
    """One call of the learner's function on every rank."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    seed: int = 0
    trait: str = ""  # what is new in it: "a tensor with one element"; "" for the plain first one
    lengths_differ: bool = False  # each rank gets its own multiple of the shape's only length
    smallest_world: int = 1
    largest_world: int = 8
    largest: int = 0  # of the values in it; 0: a default for its dtype
    sign: int = 1  # of integers
    lateness: str = "nobody"  # or "the last ranks", "the first ranks", "at random"

    def tensor(self, rank: int) -> Tensor:
        """What this rank is given."""
        generator = torch.Generator().manual_seed(1000 * self.seed + rank)
        length = math.prod(self.shape)
        if self.lengths_differ:
            length *= 1 + 3 * (rank + self.seed) % 8
            # the values of one rank are far from another's, so that their weights matter
            numbers = torch.rand(length, generator=generator, dtype=torch.float64) + 10 * (rank - 1)
            return numbers.to(getattr(torch, self.dtype))
        # integers, so that a sum is exact in any order; int64 values do not fit into a float
        largest = self.largest or (2**57 if self.dtype == "int64" else 10_000)
        numbers = self.sign * torch.randint(1, largest, (length,), generator=generator)
        # a copy, because a tensor in flight is watched for changes, and changes of a view go unnoticed
        return numbers.to(getattr(torch, self.dtype)).view(self.shape).clone()

    def tensors(self, world_size: int) -> list[Tensor]:
        return [self.tensor(rank) for rank in range(world_size)]

    def arguments(self, rank: int) -> tuple[Any, ...]:
        """The arguments of the function on this rank."""
        return (self.tensor(rank),)

    def afterwards(self, arguments: tuple[Any, ...]) -> object:
        """The tensor, or whatever else is judged, after the function has returned."""
        return arguments[-1].detach().clone()

    def is_unchanged(self, rank: int, afterwards: Any) -> bool:
        return torch.equal(afterwards, self.tensor(rank))

    def delay_seconds(self, rank: int, world_size: int) -> float:
        """How long this rank waits before it starts."""
        places = {"nobody": 0, "the last ranks": rank, "the first ranks": world_size - 1 - rank}
        place = places.get(self.lateness, self.random(rank).randrange(world_size))
        return place * SECONDS_TO_THE_LAST / max(1, world_size - 1)

    def random(self, rank: int) -> random.Random:
        return random.Random(1000 * self.seed + rank)

    def named(self, rank: int) -> str:
        """The tensor of a rank in words: "a tensor of shape [120], float32"."""
        return f"a tensor of shape {list(self.tensor(rank).shape)}, {self.dtype}"


@dataclass(frozen=True)
class LossesTrial(Trial):
    """Each rank is given a list of numbers. `lengths[rank]` is its length; further ranks begin again."""

    lengths: tuple[int, ...] = (3, 1, 4)

    def tensor(self, rank: int) -> Tensor:
        generator = torch.Generator().manual_seed(1000 * self.seed + rank)
        length = self.lengths[rank % len(self.lengths)]
        return torch.rand(length, generator=generator, dtype=torch.float64) + 3 * (rank + 1)

    def arguments(self, rank: int) -> tuple[Any, ...]:
        return (self.tensor(rank).tolist(),)

    def afterwards(self, arguments: tuple[Any, ...]) -> object:
        return torch.tensor([float(loss) for loss in arguments[0]], dtype=torch.float64)

    def named(self, rank: int) -> str:
        length = len(self.tensor(rank))
        return f"a list of {length} {'loss' if length == 1 else 'losses'}"


@dataclass(frozen=True)
class ScoredTrial(Trial):
    """Each rank is given a score and a tensor. `scores[rank]` is the score; further ranks begin again."""

    scores: tuple[float, ...] = ()

    def score(self, rank: int) -> float:
        return self.scores[rank % len(self.scores)]

    def arguments(self, rank: int) -> tuple[Any, ...]:
        return self.score(rank), self.tensor(rank)

    def best(self, world_size: int) -> int:
        """The rank with the highest score, the lowest rank in a tie."""
        return max(range(world_size), key=lambda rank: (self.score(rank), -rank))

    def named(self, rank: int) -> str:
        return f"the score {self.score(rank):g} and {super().named(rank)}"


def of_every_kind() -> list[Trial]:
    """For functions of tensors that have the same shape and dtype on every rank."""
    again = "the same shape a second time"
    return with_lateness(
        [
            Trial((120,)),  # 120 is divisible by each world size that is tried
            Trial((120,), trait=again),
            Trial((120,), trait="negative numbers", sign=-1, largest_world=3),
            Trial((120,), "int64", trait="integers (int64)"),
            Trial((120,), "float64", trait="another dtype (float64)", largest_world=3),
            Trial((121,), trait="a length not divisible by world_size"),
            Trial((119,), trait="a length not divisible by world_size", largest_world=4),
            Trial((4, 7), trait="a two-dimensional tensor", largest_world=3),
            Trial((1,), trait="a tensor with one element", largest_world=4),
            Trial((3,), "int64", trait="a tensor with fewer elements than ranks"),
            Trial((262_147,), trait="a large tensor", largest_world=3),
        ]
    )


def with_lateness(trials: Sequence[Trial]) -> list[Trial]:
    """Add seeds and late ranks: none in the first trial, then the last ranks, then the first ones, then random ones."""
    in_turn = ["nobody", "the last ranks", "the first ranks"]
    return [
        replace(trial, seed=seed, lateness=in_turn[seed] if seed < len(in_turn) else "at random")
        for seed, trial in enumerate(trials)
    ]
