from itertools import islice

import torch.distributed as dist
from torch.utils.data import IterableDataset, get_worker_info

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


class ShardedStream(IterableDataset):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        rank = dist.get_rank() if dist.is_initialized() else 0
        world_size = dist.get_world_size() if dist.is_initialized() else 1
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        return islice(self.source, rank * workers + worker, None, world_size * workers)
right(ShardedStream, "islice")


class ByModulo(IterableDataset):
    def __init__(self, source):
        super().__init__()
        self.source = source
        self.rank, self.world_size = 0, 1
        if dist.is_available() and dist.is_initialized():
            self.rank, self.world_size = dist.get_rank(), dist.get_world_size()

    def __iter__(self):
        info = get_worker_info()
        part, parts = self.rank, self.world_size
        if info is not None:
            part += self.world_size * info.id
            parts *= info.num_workers
        for i, sample in enumerate(self.source):
            if i % parts == part:
                yield sample
right(ByModulo, "enumerate and a remainder; the ranks count fastest")


class Rounds(IterableDataset):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        info = get_worker_info()
        me = rank if info is None else rank * info.num_workers + info.id
        n = world_size if info is None else world_size * info.num_workers
        countdown = me
        for sample in self.source:
            if countdown == 0:
                yield sample
                countdown = n
            countdown -= 1
right(Rounds, "counts down to its turn")


class Unsharded(IterableDataset):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        yield from self.source
wrong(Unsharded, "everything on every rank", "every rank")


class OnlyRanks(IterableDataset):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        if not dist.is_initialized():
            yield from self.source
        for i, sample in enumerate(self.source):
            if i % dist.get_world_size() == dist.get_rank():
                yield sample
wrong(OnlyRanks, "workers forgotten", "workers, 2 times")


class OnlyWorkers(IterableDataset):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        info = get_worker_info()
        return iter(self.source) if info is None else islice(self.source, info.id, None, info.num_workers)
wrong(OnlyWorkers, "from the documentation of IterableDataset, without ranks", "every rank")


class AskedTooEarly(IterableDataset):
    def __init__(self, source):
        self.source = source
        info = get_worker_info()
        workers = 1 if info is None else info.num_workers
        worker = 0 if info is None else info.id
        self.parts = dist.get_world_size() * workers if dist.is_initialized() else workers
        self.part = dist.get_rank() * workers + worker if dist.is_initialized() else worker

    def __iter__(self):
        return islice(self.source, self.part, None, self.parts)
wrong(AskedTooEarly, "worker info in __init__", "__init__, None")


class Listed(IterableDataset):
    def __init__(self, source):
        self.samples = list(source)

    def __iter__(self):
        rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        info = get_worker_info()
        mine = self.samples[rank::world_size]
        return iter(mine if info is None else mine[info.id :: info.num_workers])
wrong(Listed, "all in memory", "whole source")


class Chunks(IterableDataset):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        samples = list(self.source)
        rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        info = get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        size = len(samples) // (world_size * workers)
        start = (rank * workers + worker) * size
        return iter(samples[start : start + size])
wrong(Chunks, "chunks without the rest", "remainder, whole source")


class OneShot(IterableDataset):
    def __init__(self, source):
        self.numbered = enumerate(source)

    def __iter__(self):
        rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        info = get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        return (s for i, s in self.numbered if i % (world_size * workers) == rank * workers + worker)
wrong(OneShot, "the iterator is used up after an epoch", "second pass, empty")


class Multiplied(IterableDataset):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        info = get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        for i, sample in enumerate(self.source):
            if i % (world_size * workers) == rank + worker:
                yield sample
wrong(Multiplied, "two workers with the same number", "rank + worker.id")


class Numbered(IterableDataset):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        for i, sample in enumerate(ShardedStream(self.source)):
            yield i, sample
wrong(Numbered, "pairs instead of samples", "yields, as it is")


class EvenOut(IterableDataset):
    def __init__(self, source):
        self.source = source

    def __iter__(self):
        rank, world_size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        info = get_worker_info()
        workers, worker = (1, 0) if info is None else (info.num_workers, info.id)
        n = world_size * workers
        samples = iter(self.source)
        while len(group := list(islice(samples, n))) == n:
            yield group[rank * workers + worker]
wrong(EvenOut, "drops the last incomplete round, so that all have as many", "remainder, dropped")
