"""Right and wrong answers to the exercises about samplers and streams."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed
from torch.utils.data import DistributedSampler, IterableDataset, get_worker_info

dist: Any = torch.distributed

# rank_sampler


class Sampler:
    """Steps through the order; subclasses change one thing."""

    def __init__(self, dataset: Any, num_replicas: int, rank: int, shuffle: bool, seed: int, drop_last: bool) -> None:
        self.n, self.ranks, self.rank = len(dataset), num_replicas, rank
        self.shuffle, self.seed, self.epoch = shuffle, seed, 0
        self.length = self.n // num_replicas if drop_last else -(-self.n // num_replicas)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.length

    def order(self) -> list[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return torch.randperm(self.n, generator=generator).tolist() if self.shuffle else list(range(self.n))

    def __iter__(self) -> Iterator[Any]:
        order = self.order()
        for step in range(self.length):
            yield order[(self.rank + step * self.ranks) % self.n]


class AsTensors(Sampler):
    def __iter__(self) -> Iterator[Any]:
        order = torch.tensor(self.order() * self.ranks)[: self.length * self.ranks]
        return iter(order.view(self.length, self.ranks)[:, self.rank])


class OneGeneratorForAllEpochs(Sampler):
    """Right as long as the epochs come in order."""

    generators: Any = None

    def order(self) -> list[int]:
        self.generators = self.generators or torch.Generator().manual_seed(self.seed)
        return torch.randperm(self.n, generator=self.generators).tolist() if self.shuffle else list(range(self.n))


class ReturnsAList(Sampler):
    def __iter__(self) -> Iterator[Any]:
        return self.order()[self.rank :: self.ranks]  # type: ignore[return-value]


# shard_stream


def part_of(ranks_first: bool = False) -> tuple[int, int]:
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    info = get_worker_info()
    worker, workers = (info.id, info.num_workers) if info is not None else (0, 1)
    return (worker * world_size + rank if ranks_first else rank * workers + worker), world_size * workers


class Stream(IterableDataset[Any]):
    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        part, parts = part_of(ranks_first=True)
        return (sample for number, sample in enumerate(self.source) if number % parts == part)


class WithItsOwnNext(Stream):
    def __iter__(self) -> Iterator[Any]:
        part, parts = part_of()
        self.left = itertools.islice(self.source, part, None, parts)
        return self

    def __next__(self) -> Any:
        return next(self.left)


def by_function(source: Any) -> Stream:
    return Stream(source)


class ByHash(Stream):
    """Right without workers: all ranks have the same hashes here, but the workers read other lines."""

    def __iter__(self) -> Iterator[Any]:
        part, parts = part_of()
        return (sample for sample in self.source if hash(sample) % parts == part)


class DropsTheLastRound(Stream):
    def __iter__(self) -> Iterator[Any]:
        part, parts = part_of()
        for group in zip(*[iter(self.source)] * parts, strict=False):
            yield group[part]


class AsksTheOthers(Stream):
    def __init__(self, source: Any) -> None:
        super().__init__(source)
        if dist.is_initialized():
            dist.all_reduce(torch.ones(100))


def gives_a_list(*given: Any) -> Any:
    return []


RIGHT: dict[str, list[Any]] = {
    "rank_sampler": [DistributedSampler, AsTensors],
    "shard_stream": [WithItsOwnNext, by_function],
}
WRONG: dict[str, list[Any]] = {
    "rank_sampler": [
        (OneGeneratorForAllEpochs, "The indices differ from those of DistributedSampler."),
        (ReturnsAList, "__iter__ does not return an iterator."),
        (gives_a_list, "'list' object has no attribute 'set_epoch'"),
    ],
    "shard_stream": [
        (ByHash, "fails for num_workers=3"),
        (DropsTheLastRound, "Some samples are lost"),
        (AsksTheOthers, "The ranks communicate too much"),
    ],
}
