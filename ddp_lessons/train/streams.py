"""A stream of samples that all ranks, and all workers of their loaders, divide among themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from ddp_lessons.train.sampling import rank_and_world_size


class ShardedStream(IterableDataset[Any]):
    """Each worker of each rank reads the whole source, and keeps every n-th sample of it."""

    def __init__(self, source: Iterable[Any]) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        rank, world_size = rank_and_world_size()
        info = get_worker_info()  # None in a process that is not a worker, so ask here and not in __init__
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        return islice(self.source, rank * workers + worker, None, world_size * workers)
