"""Orders of samples in several epochs: is each a new shuffle, or has one been handed on, turned or dealt again?"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

ByRank = Sequence[list[int]]


def why_the_same(first: ByRank, second: ByRank, epochs: str, samples: int) -> str:
    """A sentence if what the ranks see in one epoch is too much like what they see in another."""
    if first == second:
        return f"The order is the same in {epochs}: the epoch has to be in it, as set_epoch(epoch) does."
    if len(first) > 1 and [set(share) for share in first] == [set(share) for share in second]:
        return (
            f"Every rank has the same samples in {epochs}, in another order: rank 0 never sees what rank 1 has. "
            "Shuffle all indices first, and then take this rank's share."
        )
    if _steps(first) == _steps(second):
        return (
            f"The shuffle is the same in {epochs}: only the ranks change places, and together they see the same "
            "samples at each step. Let the epoch decide about the shuffle."
        )
    pairs, others = _neighbours(first), _neighbours(second)
    if 2 * len(pairs & others) > len(pairs) or _distances(first, samples) == _distances(second, samples):
        return (
            f"It is one shuffle, moved on: in {epochs} mostly the same samples follow each other. Let the epoch decide "
            "about the shuffle, as its seed."
        )
    if len(first) > 1 and {frozenset(share) for share in first} == {frozenset(share) for share in second}:
        return (
            f"The shares are the same in {epochs}, and only their owners change: shuffle all indices first, and then "
            "take this rank's share."
        )
    return ""


def _neighbours(by_rank: ByRank) -> set[frozenset[int]]:
    """Which samples follow each other on some rank, whichever comes first."""
    return {frozenset(pair) for share in by_rank for pair in itertools.pairwise(share)}


def _distances(by_rank: ByRank, samples: int) -> list[list[int]]:
    return [[(b - a) % samples for a, b in itertools.pairwise(share)] for share in by_rank]


def never_seen(by_epoch: Sequence[ByRank], samples: int) -> dict[int, set[int]]:
    """By rank, what it never had, if that is too much for chance."""
    never = {
        rank: set(range(samples)) - {index for by_rank in by_epoch for index in by_rank[rank]}
        for rank in range(len(by_epoch[0]))
    }
    return {rank: unseen for rank, unseen in never.items() if 3 * len(unseen) > samples}


def _steps(by_rank: Iterable[list[int]]) -> list[set[int | None]]:
    """What all ranks together see at each step."""
    return [set(step) for step in itertools.zip_longest(*by_rank)]
