"""What ranks returned, read as the samples that they saw, epoch by epoch; and the words for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ddp_lessons.record.results import NO_ANSWER, NO_VALUE
from ddp_lessons.show.page.picture import count

MOST_OF_TEXT = 16  # indices in a line of the text
MOST_EPOCHS_OF_TEXT = 8
WANTED = "every rank has to return the list of the indices that it saw, or a list of such lists, one for each epoch"


@dataclass(frozen=True)
class Epoch:
    """What each rank saw, in its order; None: it had no such epoch."""

    number: int
    by_rank: Sequence[Any]
    total: int
    same_as: int | None = None  # an earlier epoch in which every rank saw the same samples in the same order

    @cached_property
    def times(self) -> Any:
        """How often each sample was seen."""
        there = [seen for seen in self.by_rank if seen is not None]
        return np.bincount(np.concatenate(there), minlength=self.total) if there else np.zeros(self.total, dtype=int)

    @property
    def never(self) -> Any:
        return np.flatnonzero(self.times == 0)

    @property
    def often(self) -> Any:
        return np.flatnonzero(self.times > 1)

    @property
    def is_bad(self) -> bool:
        return len(self.never) > 0 or self.same_as is not None

    @property
    def often_words(self) -> str:
        return "twice" if self.times.max(initial=0) <= 2 else "twice or more"

    @cached_property
    def summary(self) -> str:
        never, often = len(self.never), len(self.often)
        if never:
            told = f"{_percent(self.total - never, self.total)} of {self.total:,} samples seen, {never:,} never"
            told += f", {often:,} {self.often_words} ({_percent(often, self.total)})" * bool(often)
        elif often:
            told = f"every sample seen, {often:,} of {self.total:,} {self.often_words}"
        else:
            told = "every sample seen exactly once"
        if self.same_as is not None:
            return f"{told}; the same order as in epoch {self.same_as}"
        return told + "; another order than before" * (self.number > 0)


def read_epochs(results: Any, total: int | None) -> tuple[list[Epoch], bool]:
    """The epochs, and whether they were given as such; none, if no rank saw anything and the total is not known.

    Raises:
        TypeError: these are not indices.
        ValueError: an index is below 0, or not below the total.
    """
    by_rank, has_epochs = _read(results)
    highest = max((int(seen.max()) for rank in by_rank for seen in rank if len(seen)), default=-1)
    _check(by_rank, total)
    total = highest + 1 if total is None else total
    return (_epochs(by_rank, total) if total else []), has_epochs


def tell_epochs(epochs: Sequence[Epoch], has_epochs: bool) -> str:
    ranks, total = len(epochs[0].by_rank), epochs[0].total
    lines = [f"Who saw which of {count(total, 'sample')}, {count(ranks, 'rank')}:"]
    for epoch in epochs[:MOST_EPOCHS_OF_TEXT]:
        name = f"epoch {epoch.number}: " if has_epochs else ""
        lines += ["", f"{name}{epoch.summary}"]
        for rank, seen in enumerate(epoch.by_rank):
            told = "had no such epoch" if seen is None else f"{len(seen):>6,} | {_listed(seen)}"
            lines.append(f"rank {rank} | {told}".rstrip())
        lines += [f"never: {_listed(epoch.never)}"] * bool(len(epoch.never))
        lines += [f"{epoch.often_words}: {_listed(epoch.often)}"] * bool(len(epoch.often))
    if len(epochs) > MOST_EPOCHS_OF_TEXT:
        lines += ["", f"... {count(len(epochs) - MOST_EPOCHS_OF_TEXT, 'further epoch')} left out"]
    return "\n".join(lines)


def _listed(indices: Any) -> str:
    return " ".join(map(str, indices[:MOST_OF_TEXT])) + " ..." * (len(indices) > MOST_OF_TEXT)


def describe_epochs(epochs: Sequence[Epoch], has_epochs: bool) -> str:
    ranks, total = len(epochs[0].by_rank), epochs[0].total
    told = [f"epoch {epoch.number}: {epoch.summary}" if has_epochs else epoch.summary for epoch in epochs[:4]]
    rest = f"; and {count(len(epochs) - 4, 'further epoch')}" if len(epochs) > 4 else ""
    return f"Who saw which of {count(total, 'sample')}, {count(ranks, 'rank')}: {'; '.join(told)}{rest}."


def _read(results: Any) -> tuple[list[list[Any]], bool]:
    """By rank, the indices of its epochs; and whether these were given as such."""
    results = getattr(results, "results", results)
    if isinstance(results, str) or not isinstance(results, Iterable) or not len(list(results)):
        raise TypeError(f"{WANTED}, and this is {_short(results)}")
    has_epochs = any(_is_nested(one) for one in results)
    by_rank = []
    for rank, one in enumerate(results):
        if one is NO_VALUE:
            raise TypeError(f"{WANTED}, and rank {rank} {NO_ANSWER}")
        epochs = list(one) if _is_nested(one) or (has_epochs and _is_empty(one)) else [one]
        by_rank.append([_indices(rank, epoch) for epoch in epochs])
    return by_rank, has_epochs


def _is_empty(one: Any) -> bool:
    return hasattr(one, "__len__") and len(one) == 0


def _is_nested(one: Any) -> bool:
    if isinstance(one, str) or not hasattr(one, "__len__") or not len(one):
        return False
    first = next(iter(one))
    return getattr(first, "ndim", 1) > 0 and hasattr(first, "__len__") and not isinstance(first, str)


def _indices(rank: int, given: Any) -> Any:
    try:
        plain = given if isinstance(given, np.ndarray | range | list | tuple) else given.tolist()
        indices = np.asarray(plain)
    except (AttributeError, TypeError, ValueError):
        raise TypeError(f"{WANTED}, and rank {rank} returned {_short(given)}") from None
    if indices.size == 0:
        return np.zeros(0, dtype=int)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise TypeError(f"{WANTED}, and rank {rank} returned {_short(given)}")
    return indices.astype(int)


def _short(value: object) -> str:
    plain = value is None or isinstance(value, bool | int | float | str | list | tuple)
    return repr(value) if plain and len(repr(value)) <= 40 else f"something of type {type(value).__name__}"


def _check(by_rank: Sequence[Sequence[Any]], total: int | None) -> None:
    if total is not None and total < 1:
        raise ValueError(f"total is how many samples there are, at least 1, not {total}")
    for rank, epochs in enumerate(by_rank):
        for seen in epochs:
            if len(seen) and seen.min() < 0:
                raise ValueError(f"an index is at least 0, and rank {rank} saw sample {seen.min()}")
            if total is not None and len(seen) and seen.max() >= total:
                raise ValueError(f"{_numbered(total)}, and rank {rank} saw sample {seen.max()}")


def _numbered(total: int) -> str:
    return f"{count(total, 'sample')} are numbered from 0 to {total - 1}" if total > 1 else "one sample has number 0"


def _epochs(by_rank: Sequence[Sequence[Any]], total: int) -> list[Epoch]:
    epochs: list[Epoch] = []
    for number in range(max(map(len, by_rank))):
        seen = [rank[number] if number < len(rank) else None for rank in by_rank]
        same = next((other.number for other in epochs if _is_same(other.by_rank, seen)), None)
        epochs.append(Epoch(number, seen, total, same))
    return epochs


def _is_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """A rank that had no such epoch says nothing; one sample has one order."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    return any(len(a) > 1 for a, _ in pairs) and all(np.array_equal(a, b) for a, b in pairs)


def _percent(part: int, whole: int) -> str:
    """Rounded, but for "100.0 %", which only all of them are."""
    tenths = 1000 * part / whole
    return f"{(min(round(tenths), 999) if part < whole else 1000) / 10} %"
