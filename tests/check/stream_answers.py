"""Answers to the exercise `shard_stream`: right ones, and wrong ones with the sentence that each must get."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch.distributed
from torch.utils.data import IterableDataset, get_worker_info

dist: Any = torch.distributed


def ranks() -> tuple[int, int]:
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def workers() -> tuple[int, int]:
    info = get_worker_info()
    return (info.id, info.num_workers) if info is not None else (0, 1)


class Stream(IterableDataset[Any]):
    def __init__(self, source: Any) -> None:
        super().__init__()
        self.source = source


# right


class BySlice(Stream):
    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        return itertools.islice(self.source, rank * many + worker, None, world_size * many)


class ByRemainder(Stream):
    """The workers of all ranks with number 0 first: that is a complete partition, too."""

    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        for number, sample in enumerate(self.source):
            if number % (world_size * many) == worker * world_size + rank:
                yield sample


class InTwoSteps(Stream):
    """Ranks first, and the workers of a rank divide what it has."""

    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        mine = itertools.islice(self.source, rank, None, world_size)
        yield from itertools.islice(mine, worker, None, many)


class RankFromInit(Stream):
    """The rank may be known before the workers are."""

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.rank, self.world_size = ranks()

    def __iter__(self) -> Iterator[Any]:
        worker, many = workers()
        turns = itertools.cycle(range(self.world_size * many))
        part = self.rank + self.world_size * worker
        return (sample for turn, sample in zip(turns, self.source, strict=False) if turn == part)


class InPairs(Stream):
    """Two neighbors go to the same part."""

    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        for number, sample in enumerate(self.source):
            if number // 2 % (world_size * many) == rank * many + worker:
                yield sample


class WithItsOwnNext(Stream):
    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        self.left = iter(self.source)
        self.first, self.step = rank * many + worker, world_size * many
        return self

    def __next__(self) -> Any:
        skipped, self.first = self.first, self.step - 1
        for _ in range(skipped):
            next(self.left)
        return next(self.left)


class NotDerived(IterableDataset[Any]):
    """Without super().__init__(), which an IterableDataset does not need."""

    def __init__(self, source: Any) -> None:
        self.lines = source

    def __iter__(self) -> Iterator[Any]:
        return iter(BySlice(self.lines))


def by_function(source: Any) -> BySlice:
    return BySlice(source)


RIGHT: list[Any] = [
    *(BySlice, ByRemainder, InTwoSteps, RankFromInit, InPairs, WithItsOwnNext, NotDerived, by_function),
]


# wrong


class EverythingEverywhere(Stream):
    def __iter__(self) -> Iterator[Any]:
        return iter(self.source)


class RanksOnly(Stream):
    def __iter__(self) -> Iterator[Any]:
        rank, world_size = ranks()
        return itertools.islice(self.source, rank, None, world_size)


class WorkersOnly(Stream):
    def __iter__(self) -> Iterator[Any]:
        worker, many = workers()
        return itertools.islice(self.source, worker, None, many)


class Formula(Stream):
    """Every step-th sample, with the wrong number or the wrong step."""

    def part(self, rank: int, world_size: int, worker: int, many: int) -> tuple[int, int]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        first, step = self.part(*ranks(), *workers())
        return itertools.islice(self.source, first, None, step)


class RankTimesWorker(Formula):
    def part(self, rank: int, world_size: int, worker: int, many: int) -> tuple[int, int]:
        return rank * worker, world_size * many


class RankPlusWorker(Formula):
    def part(self, rank: int, world_size: int, worker: int, many: int) -> tuple[int, int]:
        return rank + worker, world_size * many


class WorldSizeAsFactor(Formula):
    def part(self, rank: int, world_size: int, worker: int, many: int) -> tuple[int, int]:
        return rank * world_size + worker, world_size * many


class WorkersAsFactor(Formula):
    """Right if there are as many ranks as workers."""

    def part(self, rank: int, world_size: int, worker: int, many: int) -> tuple[int, int]:
        return worker * many + rank, world_size * many


class TwoWorkers(Formula):
    def part(self, rank: int, world_size: int, worker: int, many: int) -> tuple[int, int]:
        return rank * min(2, many) + worker, world_size * many


class StepOfWorldSize(Formula):
    def part(self, rank: int, world_size: int, worker: int, many: int) -> tuple[int, int]:
        return rank * many + worker, world_size


class StepOfWorkers(Formula):
    def part(self, rank: int, world_size: int, worker: int, many: int) -> tuple[int, int]:
        return rank * many + worker, many


class PartIsRank(Formula):
    def part(self, rank: int, world_size: int, worker: int, many: int) -> tuple[int, int]:
        return rank, world_size * many


class CountsFromOne(Formula):
    def part(self, rank: int, world_size: int, worker: int, many: int) -> tuple[int, int]:
        return rank * many + worker + 1, world_size * many


class DropsTheRemainder(Stream):
    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        parts = world_size * many
        for group in zip(*[iter(self.source)] * parts, strict=False):
            yield group[rank * many + worker]


class Pads(Stream):
    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        parts, part = world_size * many, rank * many + worker
        group: list[Any] = []
        first: list[Any] = []
        for sample in self.source:
            group.append(sample)
            if len(first) < parts:
                first.append(sample)
            if len(group) == parts:
                yield group[part]
                group = []
        if group:
            yield (group + first * parts)[part]


class AsksForTheLength(Stream):
    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        size = len(self.source) // (world_size * many)
        return itertools.islice(self.source, size * (rank * many + worker), size * (rank * many + worker + 1))


class CountsFirst(Stream):
    """Contiguous chunks need the length, so it reads the source twice."""

    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        parts, part = world_size * many, rank * many + worker
        length = sum(1 for _ in self.source)
        return itertools.islice(self.source, length * part // parts, length * (part + 1) // parts)


class CountsInInit(CountsFirst):
    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.length = sum(1 for _ in source)

    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        parts, part = world_size * many, rank * many + worker
        return itertools.islice(self.source, self.length * part // parts, self.length * (part + 1) // parts)


class ReadsItAll(Stream):
    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        return iter(list(self.source)[rank * many + worker :: world_size * many])


class SlicesTheSource(Stream):
    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        return iter(self.source[rank * many + worker :: world_size * many])


class WorkersInInit(Stream):
    def __init__(self, source: Any) -> None:
        super().__init__(source)
        info = get_worker_info()
        self.worker, self.many = (info.id, info.num_workers) if info is not None else (0, 1)

    def __iter__(self) -> Iterator[Any]:
        rank, world_size = ranks()
        return itertools.islice(self.source, rank * self.many + self.worker, None, world_size * self.many)


class WorkersInInitUnchecked(Stream):
    def __init__(self, source: Any) -> None:
        super().__init__(source)
        info: Any = get_worker_info()
        self.worker, self.many = info.id, info.num_workers

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source)


class NeverAsksForNone(Stream):
    def __iter__(self) -> Iterator[Any]:
        rank, world_size = ranks()
        info: Any = get_worker_info()
        return itertools.islice(self.source, rank * info.num_workers + info.id, None, world_size * info.num_workers)


class KeepsAnIterator(Stream):
    def __init__(self, source: Any) -> None:
        super().__init__(iter(source))

    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        return itertools.islice(self.source, rank * many + worker, None, world_size * many)


class NeedsAGroup(Stream):
    def __iter__(self) -> Iterator[Any]:
        worker, many = workers()
        return itertools.islice(self.source, dist.get_rank() * many + worker, None, dist.get_world_size() * many)


class OnlyRankZero(Stream):
    def __iter__(self) -> Iterator[Any]:
        worker, many = workers()
        if ranks()[0] == 0:
            yield from itertools.islice(self.source, worker, None, many)


class WithNumbers(Stream):
    def __iter__(self) -> Iterator[Any]:
        return enumerate(BySlice(self.source))


class OpensPerWorker(Stream):
    """Its part is right, but it goes through the source once for each part."""

    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        for part in range(world_size * many):
            for number, sample in enumerate(self.source):
                if part == rank * many + worker and number % (world_size * many) == part:
                    yield sample


class ReturnsAList(Stream):
    def __iter__(self) -> Iterator[Any]:
        return list(itertools.islice(self.source, 3))  # type: ignore[return-value]


class NoDataset:
    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source)


class ByHash(Stream):
    """Each rank has another hash, as other machines do."""

    def __iter__(self) -> Iterator[Any]:
        (rank, world_size), (worker, many) = ranks(), workers()
        return (sample for sample in self.source if hash(sample) % (world_size * many) == rank * many + worker)


class OtherOrderEachTime(Stream):
    turn = 0

    def __iter__(self) -> Iterator[Any]:
        self.turn += 1
        (rank, world_size), (worker, many) = ranks(), workers()
        for number, sample in enumerate(self.source):
            if (number + self.turn) % (world_size * many) == rank * many + worker:
                yield sample


class NeverStops(Stream):
    """A new epoch begins by itself."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from BySlice(self.source)


class WaitsForMore(Stream):
    def __iter__(self) -> Iterator[Any]:
        yield from BySlice(self.source)
        while True:
            pass


class OnlyTheSource(Stream):
    pass


class OnlyDots(Stream):
    def __iter__(self) -> Any: ...


class NotImplementedYet(Stream):
    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError


class Nothing(IterableDataset[Any]):
    """Say what it shall do."""


STUBS: list[Any] = [OnlyTheSource, OnlyDots, NotImplementedYet, Nothing]

WRONG: list[tuple[Any, str]] = [
    (EverythingEverywhere, "Every worker of every rank yields all 24 samples, so each sample comes 6 times."),
    (RanksOnly, "The samples are split over the ranks but not over their workers, so each comes 3 times."),
    (WorkersOnly, "The samples are split over the workers but not over the ranks, so each comes 2 times."),
    (RankTimesWorker, "With part number rank * worker.id, sample 0 comes 4 times, and 12 of 24 never."),
    (RankPlusWorker, "With part number rank + worker.id, sample 1 comes 2 times, and 8 of 24 never."),
    (WorldSizeAsFactor, "With part number rank * world_size + worker.id, sample 2 comes 2 times, and 4 of 24 never."),
    (WorkersAsFactor, "With part number worker.id * num_workers + rank, sample 6 comes 2 times, and 8 of 24 never."),
    (StepOfWorldSize, "With steps of world_size (2), sample 2 comes 2 times."),
    (StepOfWorkers, "With steps of num_workers (3), sample 3 comes 2 times."),
    (PartIsRank, "With part number rank, sample 0 comes 3 times, and 16 of 24 never."),
    (TwoWorkers, "With part number rank * world_size + worker.id, sample 2 comes 2 times, and 4 of 24 never."),
    (CountsFromOne, "With part number 1 + rank * num_workers + worker.id, 1 of 24 samples is lost."),
    (DropsTheRemainder, "fails for 13 samples: the remainder is dropped, so 1 of 13 samples is lost."),
    (Pads, "It pads the parts to equal length, so rank 0 and rank 1 both yield sample 0."),
    (AsksForTheLength, "The length of a stream is not known."),
    (CountsFirst, "It opens the source 2 times for one pass"),
    (CountsInInit, "It opens the source 2 times for one pass"),
    (ReadsItAll, "It reads the whole source before it yields a sample."),
    (SlicesTheSource, "A stream has no [index]."),
    (WorkersInInit, "get_worker_info() is None in __init__, which runs before the workers start."),
    (WorkersInInitUnchecked, "get_worker_info() is None in __init__, which runs before the workers start."),
    (NeverAsksForNone, "fails for num_workers=0: get_worker_info() is None with num_workers=0."),
    (KeepsAnIterator, "fails for num_workers=0: the second pass is empty, because one iterator serves both."),
    (NeedsAGroup, "fails for a single process: get_rank() raises an error without a process group."),
    (OnlyRankZero, "Rank 1 yields none of the 24 samples."),
    (WithNumbers, "It yields a list of length 2."),
    (OpensPerWorker, "It opens the source 3 times for one pass."),
    (ReturnsAList, "__iter__ returns no iterator."),
    (NoDataset, "inherit from torch.utils.data.IterableDataset"),
    (ByHash, " both yield sample "),
    (OtherOrderEachTime, "The second pass differs from the first."),
    (NeverStops, "Rank 0's worker 0 yields sample 0 twice."),
]
HANGING: list[tuple[Any, str]] = [(WaitsForMore, "It does not return: rank 0 waits for its DataLoader workers")]
