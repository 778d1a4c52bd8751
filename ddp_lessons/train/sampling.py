"""Which samples a rank sees, and in which order: a new order in every epoch, the same on all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data.distributed import DistributedSampler


def epoch_order(data: Any, epoch: int, seed: int = 0) -> list[int]:
    """Return the indices of the samples that this rank sees in this epoch, in order."""
    rank, world_size = rank_and_world_size()
    sampler: DistributedSampler[Any] = DistributedSampler(data, world_size, rank, seed=seed)
    # Without this line the order would be the same in every epoch.
    sampler.set_epoch(epoch)
    return list(sampler)


class GlobalBatches:
    """This rank's part of every global batch, straight from memory.

    `data.images` and `data.labels` are tensors. `batch_size` is the global batch size for any world size, so training
    takes the same steps on one rank and on four.
    """

    def __init__(self, data: Any, batch_size: int, seed: int = 0, device: torch.device | str = "cpu") -> None:
        self.data = data
        self.batch_size = batch_size
        self.seed = seed
        self.device = device

    def __len__(self) -> int:
        return -(-len(self.data) // self.batch_size)

    def epoch(self, number: int) -> Iterator[tuple[Tensor, Tensor, float]]:
        """Yield inputs, labels and a scale: the sum of this rank's losses times the scale is its part of the step.

        The mean of these parts over the ranks is the mean loss of the global batch, also if a rank has fewer samples
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
    """Each worker of each rank reads the whole source, and keeps every n-th sample of it."""

    def __init__(self, source: Iterable[Any]) -> None:
        self.source = source
        self.rank, self.world_size = rank_and_world_size()  # a worker that is spawned has no process group

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()  # None in a process that is not a worker, so ask here and not in __init__
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        return islice(self.source, self.rank * workers + worker, None, self.world_size * workers)


def rank_and_world_size() -> tuple[int, int]:
    """Outside a process group, one process is the world."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
