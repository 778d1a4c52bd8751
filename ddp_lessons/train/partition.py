"""Divide data among ranks by hand, so that every sample goes to exactly one of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from random import Random
from typing import Any

from torch.utils.data import Dataset


class Partition(Dataset[Any]):
    """The samples at these indices of a dataset, numbered from 0."""

    def __init__(self, data: Any, indices: Sequence[int]) -> None:
        self.data = data
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.data[self.indices[index]]


class DataPartitioner:
    """Cut shuffled data into partitions; the sizes are fractions that add up to 1.

    Raises:
        ValueError: sizes are negative or do not add up to 1, or there are more of them than samples.
    """

    def __init__(self, data: Any, sizes: Sequence[float], seed: int = 1234) -> None:
        self.data = data
        _check(sizes, len(data))
        indices = list(range(len(data)))
        # Every rank cuts by itself, without communication. With a shared seed all ranks shuffle in the same way.
        # Without one, the orders would differ, and partitions would overlap and leave samples out.
        Random(seed).shuffle(indices)
        # Round the end of each partition, not its length: no sample is lost, and the last partition ends with the data.
        # (Halves are rounded up, because `round` rounds to even: 1.5 and 2.5 would give the same end.)
        ends = [math.floor(len(data) * end + 0.5) for end in itertools.accumulate(sizes)]
        self.partitions = [indices[begin:end] for begin, end in itertools.pairwise([0, *ends[:-1], len(data)])]

    def use(self, rank: int) -> Partition:
        """Return the partition of one rank."""
        return Partition(self.data, self.partitions[rank])


def _check(sizes: Sequence[float], samples: int) -> None:
    if not all(size >= 0 for size in sizes):  # nan fails this too
        raise ValueError(f"partition sizes must be numbers from 0 to 1, not {list(sizes)}")
    if not math.isclose(sum(sizes), 1, abs_tol=1e-6):
        raise ValueError(f"partition sizes must add up to 1, not {sum(sizes):.6g}; equal: [1 / ranks] * ranks")
    if len(sizes) > samples:
        raise ValueError(f"{samples} samples cannot be divided into {len(sizes)} partitions")
