"""Orders of samples in several epochs: is each a new shuffle, or an old one shifted, rotated or dealt again?"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

ByRank = Sequence[list[int]]


def why_the_same(first: ByRank, second: ByRank, epochs: str, samples: int) -> str:
    """A sentence if two epochs are too similar."""
    if first == second:
        return (
            f"The order is the same in {epochs}. Shuffle with a seed that depends on the epoch, as DistributedSampler "
            "does after set_epoch(epoch)."
        )
    if len(first) > 1 and [set(share) for share in first] == [set(share) for share in second]:
        return (
            f"In {epochs}, each rank has the same samples, only in a different order. Shuffle all indices first, and "
            "then take this rank's partition."
        )
    if _steps(first) == _steps(second):
        return (
            f"Each step has the same samples in {epochs}, only on other ranks. Seed the shuffle with the epoch, as "
            f"set_epoch(epoch) does."
        )
    pairs, others = _neighbors(first), _neighbors(second)
    if 2 * len(pairs & others) > len(pairs) or _distances(first, samples) == _distances(second, samples):
        return (
            f"The order in {epochs} is one shuffle, only shifted. Seed the shuffle with the epoch, as "
            "set_epoch(epoch) does."
        )
    if len(first) > 1 and {frozenset(share) for share in first} == {frozenset(share) for share in second}:
        return (
            f"The partitions are the same in {epochs}, only on other ranks. Shuffle all indices first, and then take "
            "this rank's partition."
        )
    return ""


def _neighbors(by_rank: ByRank) -> set[frozenset[int]]:
    """Which samples follow each other on some rank, in either order."""
    return {frozenset(pair) for share in by_rank for pair in itertools.pairwise(share)}


def _distances(by_rank: ByRank, samples: int) -> list[list[int]]:
    return [[(b - a) % samples for a, b in itertools.pairwise(share)] for share in by_rank]


def never_seen(by_epoch: Sequence[ByRank], samples: int) -> dict[int, set[int]]:
    """By rank, the samples that it never had, if they are too many for chance."""
    never = {
        rank: set(range(samples)) - {index for by_rank in by_epoch for index in by_rank[rank]}
        for rank in range(len(by_epoch[0]))
    }
    return {rank: unseen for rank, unseen in never.items() if 3 * len(unseen) > samples}


def _steps(by_rank: Iterable[list[int]]) -> list[set[int | None]]:
    """The samples that all ranks together see at each step."""
    return [set(step) for step in itertools.zip_longest(*by_rank)]
