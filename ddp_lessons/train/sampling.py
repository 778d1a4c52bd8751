"""Which samples a rank sees, and in which order: a new order in every epoch, the same on all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import IterableDataset, Sampler, get_worker_info


class RankSampler(Sampler[int]):
    """The indices of one rank in each epoch, the same as those of torch's DistributedSampler."""

    def __init__(
        self, dataset: Any, num_replicas: int, rank: int, shuffle: bool = True, seed: int = 0, drop_last: bool = False
    ) -> None:
        self.samples = len(dataset)
        self.num_replicas, self.rank = num_replicas, rank
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.samples // self.num_replicas if self.drop_last else -(-self.samples // self.num_replicas)

    def __iter__(self) -> Iterator[int]:
        order = list(range(self.samples))
        if self.shuffle:  # in the same way on all ranks, and differently in every epoch
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            order = torch.randperm(self.samples, generator=generator).tolist()
        # Equally many for all ranks: repeat the order from its front, or drop its tail.
        order = list(islice(cycle(order), len(self) * self.num_replicas))
        return iter(order[self.rank :: self.num_replicas])


class GlobalBatches:
    """This rank's part of every global batch, straight from memory.

    `data.images` and `data.labels` are tensors. `batch_size` is the global batch size, whatever the world size, so
    training takes the same steps on one rank and on four.
    """

    def __init__(self, data: Any, batch_size: int, seed: int = 0, device: torch.device | str = "cpu") -> None:
        self.data = data
        self.batch_size = batch_size
        self.seed = seed
        self.device = device

    def __len__(self) -> int:
        return -(-len(self.data) // self.batch_size)

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor, float]]:
        """Yield inputs, labels and a scale, by which to multiply the sum of this rank's losses.

        The mean of these products over the ranks is the mean loss of the global batch, even if a rank has fewer samples
        than the others, as in the last batch, or none.
        """
        rank, world_size = rank_and_world_size()
        # All ranks shuffle in the same way, and each takes every world_size-th sample of a batch.
        order = torch.randperm(len(self.data), generator=torch.Generator().manual_seed(self.seed + number))
        for batch in order.split(self.batch_size):
            mine = batch[rank::world_size]
            # the same as images[mine], but faster
            inputs, labels = self.data.images.index_select(0, mine), self.data.labels.index_select(0, mine)
            yield inputs.to(self.device), labels.to(self.device), world_size / len(batch)


class ShardedStream(IterableDataset[Any]):
    """Each worker of each rank reads the whole source, and keeps every n-th sample."""

    def __init__(self, source: Iterable[Any]) -> None:
        self.source = source
        self.rank, self.world_size = rank_and_world_size()  # a worker that is spawned has no process group

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()  # None in a process that is not a worker, so ask here and not in __init__
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        return islice(self.source, self.rank * workers + worker, None, self.world_size * workers)


def rank_and_world_size() -> tuple[int, int]:
    """Return this rank and the world size: 0 and 1 outside a process group."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
