"""Answers to the exercise of the DataPartitioner, in other styles, and wrong ones that are nobody's listed mistake."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import Subset, random_split


def check_sizes(data: Any, sizes: Sequence[float]) -> None:
    if min(sizes) < 0 or not math.isclose(sum(sizes), 1) or len(sizes) > len(data):
        raise ValueError(f"{sizes} are no sizes of partitions of {len(data)} samples")


def cut(data: Any, sizes: Sequence[float], indices: Sequence[int], refuses: bool = True) -> list[list[int]]:
    if refuses:
        check_sizes(data, sizes)
    ends = [*[round(len(data) * end) for end in itertools.accumulate(sizes)][:-1], len(data)]
    return [list(indices[begin:end]) for begin, end in itertools.pairwise([0, *ends])]


def shuffled(data: Any, seed: int) -> list[int]:
    indices = list(range(len(data)))
    random.Random(seed).shuffle(indices)
    return indices


class ByRandomSplit:
    def __init__(self, data: Any, sizes: Any, seed: int = 1234) -> None:
        check_sizes(data, sizes)
        self.parts = random_split(data, sizes, generator=torch.Generator().manual_seed(seed))

    def use(self, rank: int) -> Any:
        return self.parts[rank]


class WithoutASeed:
    def __init__(self, data: Any, sizes: Any) -> None:
        self.parts = [[data[index] for index in part] for part in cut(data, sizes, shuffled(data, 7))]

    def use(self, rank: int) -> Any:
        return self.parts[rank]


class BroadcastFromRank0:
    def __init__(self, data: Any, sizes: Any, *, seed: int = 1234) -> None:
        check_sizes(data, sizes)
        box: list[Any] = [cut(data, sizes, shuffled(data, seed)) if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(box, src=0)
        self.data, self.partitions = data, box[0]

    def use(self, rank: int) -> Any:
        return Subset(self.data, sorted(self.partitions[rank]))


class Cut:
    """Right; what is wrong is in a subclass."""

    def __init__(self, data: Any, sizes: Any, seed: int = 1234) -> None:
        self.data, self.parts = data, cut(data, sizes, shuffled(data, seed))

    def use(self, rank: int) -> Any:
        return Subset(self.data, self.parts[rank])


class TakesOutWhatItGives(Cut):
    def use(self, rank: int) -> Any:
        part, self.parts[rank] = self.parts[rank], []
        return Subset(self.data, part)


class SeedOfTheHash(Cut):
    """Each Python has other hashes."""

    def __init__(self, data: Any, sizes: Any, seed: int = 1234) -> None:
        super().__init__(data, sizes, hash(f"seed {seed}"))


class ComparesExactly(Cut):
    def __init__(self, data: Any, sizes: Any, seed: int = 1234) -> None:
        if sum(sizes) != 1:
            raise ValueError("the sizes do not add up to 1")
        super().__init__(data, sizes, seed)


class ShufflesTheList(Cut):
    def __init__(self, data: Any, sizes: Any, seed: int = 1234) -> None:
        if isinstance(data, list):
            random.Random(seed).shuffle(data)
        super().__init__(data, sizes, seed)


class NeverRefuses(Cut):
    def __init__(self, data: Any, sizes: Any, seed: int = 1234) -> None:
        self.data, self.parts = data, cut(data, sizes, shuffled(data, seed), refuses=False)


RIGHT = {"data_partitioner": [ByRandomSplit, WithoutASeed, BroadcastFromRank0]}
WRONG = {
    "data_partitioner": [
        (TakesOutWhatItGives, "returns different samples when called again."),
        (SeedOfTheHash, "Each rank shuffles differently"),
        (ComparesExactly, "Raise ValueError if a size is below 0"),
        (ShufflesTheList, "Your class shuffles the data itself."),
        (NeverRefuses, "Raise ValueError if a size is below 0"),
    ]
}
