"""Which samples a rank sees: the DistributedSampler of lesson 6, and the stream of lesson 10."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from ddp_lessons.check.exercise import Budget, Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.check.exercises.partitions import told
from ddp_lessons.train.sampling import RankSampler, ShardedStream

# rank_sampler


def _options(*_: object, samples: int, ranks: int, shuffle: bool = True, seed: int = 0, drop_last: bool = False) -> Any:
    return range(samples), ranks, [*range(ranks)], shuffle, seed, drop_last


def _indices(program: Program, dataset: range, num_replicas: int, ranks: list[int], *options: Any) -> Fields:
    """Of a sampler for each rank, in several epochs; in epoch 1 twice, because a generator may go on."""
    samplers = [program(dataset, num_replicas, rank, *options) for rank in ranks]
    fields: dict[str, Any] = {"iter(sampler)": "an iterator"}
    for epoch, again in ((0, ""), (1, ""), (5, ""), (1, " again")):
        for rank, sampler in enumerate(samplers):
            if epoch:  # a new sampler is in epoch 0
                sampler.set_epoch(epoch)
            indices = sampler.__iter__()
            if not isinstance(indices, Iterator):
                return {"iter(sampler)": indices}
            most = 2 * (len(dataset) + num_replicas)  # of an iterator that never ends
            fields[f"epoch {epoch}{again}, rank {rank}"] = [*islice(indices, most)]
    return fields | {f"len() on rank {rank}": sampler.__len__() for rank, sampler in enumerate(samplers)}


class _OtherSampler(RankSampler):
    def __init__(self, *given: Any, wrong: str) -> None:
        super().__init__(*given)
        self.wrong = wrong

    def __iter__(self) -> Iterator[int]:
        order, length, ranks = [*range(self.samples)], len(self), self.num_replicas
        if self.shuffle:
            more = {"epoch": 0, "seed": self.epoch + self.rank}.get(self.wrong, self.epoch)
            order = torch.randperm(self.samples, generator=torch.Generator().manual_seed(self.seed + more)).tolist()
        if self.wrong != "padding":
            order = ((2 if self.wrong == "repeats" else ranks) * order)[: length * ranks]
        return iter(order[self.rank * length :][:length] if self.wrong == "step" else order[self.rank :: ranks])


_WRONG_SAMPLERS = {
    "epoch": "The order is the same in every epoch. Store the epoch in set_epoch(), and seed the generator with seed "
    "+ epoch.",
    "padding": "Some ranks have fewer indices than others. Before slicing the order, pad it with indices from its "
    "start, or drop its tail.",
    "repeats": "With more than twice as many ranks as samples, some ranks get no indices. Repeat the order until it "
    "is long enough.",
    "step": "Each rank takes a contiguous block. Take every num_replicas-th index instead: order[rank::num_replicas].",
    "seed": "The ranks shuffle differently. Seed the generator with seed + epoch, the same on every rank.",
}

rank_sampler = Exercise(
    """Check a class: in every epoch it must yield the same indices as `torch.utils.data.DistributedSampler`.

    `cls(dataset, num_replicas, rank, shuffle, seed, drop_last)` has `set_epoch(epoch)`, `__len__` and `__iter__`.
    """,
    solution=RankSampler,
    call=_indices,
    methods=("__init__", "set_epoch", "__len__", "__iter__"),
    world_sizes=(1,),
    trials=[
        Trial(partial(_options, samples=8, ranks=2, shuffle=False)),
        Trial(partial(_options, samples=12, ranks=3)),
        Trial(partial(_options, samples=10, ranks=4, shuffle=False)),
        Trial(partial(_options, samples=25, ranks=4, seed=7)),
        Trial(partial(_options, samples=25, ranks=4, seed=7, drop_last=True)),
        Trial(partial(_options, samples=3, ranks=8, seed=1)),
        Trial(partial(_options, samples=2, ranks=5, shuffle=False, drop_last=True)),
        Trial(partial(_options, samples=6, ranks=1)),
    ],
    hints={
        "iter(sampler)": "__iter__ does not return an iterator. Return iter(indices), with this rank's indices.",
        "epoch": "The indices differ from those of DistributedSampler. Seed the shuffle with seed + epoch, make the "
        "length of the order divisible by num_replicas, and take order[rank::num_replicas].",
        "len()": "len() is not the number of this rank's indices. Divide the number of samples by num_replicas, and "
        "round up (with drop_last, down).",
    },
    mistakes=[Mistake(partial(_OtherSampler, wrong=wrong), why) for wrong, why in _WRONG_SAMPLERS.items()],
)


# shard_stream


class _Source:
    """It can be gone through again, like a file; it has no length."""

    def __init__(self, samples: int) -> None:
        self._samples, self.opened, self.read = samples, 0, 0

    def __iter__(self) -> Iterator[str]:
        self.opened += 1
        worker = get_worker_info()
        for place in range(self._samples):
            self.read += 1
            yield f"line {place}, read by worker {worker.id if worker else 0}"


def _lines(*_: object, samples: int = 24, workers: int = 0, grouped: bool = True) -> tuple[range, int, bool]:
    return range(samples), workers, grouped


def _passes(program: Program, lines: range, workers: int, grouped: bool) -> Fields:
    source, group = _Source(len(lines)), dist.group.WORLD
    if not grouped:
        distributed_c10d._update_default_pg(None)  # as in a program that calls no init_process_group
    try:
        stream = program(source)
        if not isinstance(stream, IterableDataset):
            return {"yields": stream}
        fork = "fork" if workers else None  # a new Python cannot import a notebook's class
        loader: Any = DataLoader(stream, None, num_workers=workers, multiprocessing_context=fork)
        first = [(sample, source.read) for sample in islice(loader, 8 * (len(lines) + 1))]
        opened = source.opened
        second = first if workers else [(sample, 0) for sample in islice(loader, len(first) + 1)]
    finally:
        distributed_c10d._update_default_pg(group)
    found = [re.fullmatch(r"line (\d+), read by worker (\d+)", str(sample)) for sample, _ in first]
    shares: list[list[int]] = [[] for _ in range(max(1, workers))]
    for match, (sample, _) in zip(found, first, strict=True):
        if match is None or not isinstance(sample, str):
            return {"yields": sample}
        shares[int(match[2])].append(int(match[1]))
    return {
        "yields": "samples",
        "samples": len(lines),
        "grouped": grouped,
        "shares": shares,
        "second pass": "like the first" if [one for one, _ in second] == [one for one, _ in first] else "different",
        "source opened": 1 if workers else opened,
        "read before the first sample": "all" if first and first[0][1] >= len(lines) > 99 else "a part",
    }


def _of_all_ranks(by_rank: Sequence[Fields]) -> Sequence[Fields]:
    """Which share has which sample is up to the learner, as long as each comes once."""
    if not all("shares" in fields for fields in by_rank):
        return by_rank
    judged = []
    for mine in by_rank:
        ranks = by_rank if mine["grouped"] else [mine]
        words = told([[*chain(*one["shares"])] for one in ranks], mine["samples"])
        is_idle = not any(mine["shares"]) and mine["samples"] >= 4 * len(ranks) * len(mine["shares"])
        shares = mine["shares"] if "once each" not in words else "none" if is_idle else "any"
        judged.append({**mine, "samples": words, "shares": shares})
    return judged


class _Stepping(ShardedStream):
    """`formula(rank, world_size, worker.id, num_workers)` gives the first sample and the step."""

    def __init__(self, source: Any, formula: Callable[[int, int, int, int], tuple[int, int]]) -> None:
        super().__init__(source)
        self.formula = formula

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = self.formula(self.rank, self.world_size, *((info.id, info.num_workers) if info else (0, 1)))
        return islice(self.source, first, None, step)


_PART = "Number the parts with rank * num_workers + worker.id"
_STEP = "Use a step of world_size * num_workers"
_STEPPING = {
    f"Every sample is yielded several times. {_PART}, and yield only your worker's part.": lambda r, n, w, m: (0, 1),
    "The samples are split over the ranks but not over their workers. In __iter__, split them by "
    "get_worker_info().id, too. (In __init__, get_worker_info() returns None.)": lambda r, n, w, m: (r, n),
    f"The parts overlap, as if they were numbered rank + worker.id. {_PART}.": lambda r, n, w, m: (r + w, n * m),
    f"The parts overlap, as if they were numbered rank * world_size + worker.id. {_PART}.": lambda r, n, w, m: (
        r * n + w,
        n * m,
    ),
    f"The parts overlap, as with a step of world_size. {_STEP}.": lambda r, n, w, m: (r * m + w, n),
    f"The parts overlap, as with a step of num_workers. {_STEP}.": lambda r, n, w, m: (r * m + w, m),
}

shard_stream = Exercise(
    """Check a class: `cls(source)`, on every rank, is an IterableDataset that a DataLoader reads with 0 to 3 workers.

    `source` is any iterable of samples that can be read repeatedly; it has no length and may never end. Over all
    workers of all ranks, __iter__ yields every sample exactly once, even if the samples don't divide evenly, and a
    worker's samples are the same in every pass. Which worker gets which sample is up to you.

    It opens the source once per worker and pass, and yields while it reads. Without a process group, there is one rank.
    No communication is necessary.
    """,
    solution=ShardedStream,
    call=_passes,
    together=_of_all_ranks,
    methods=("__iter__",),
    world_sizes=(2, 3, 1),
    budget=Budget(most=lambda case: 0, too_much="Every worker can find its part without communication."),
    trials=[
        Trial(partial(_lines, samples=210)),
        Trial(partial(_lines, workers=3), "num_workers=3", smallest_world=2, largest_world=2),
        Trial(partial(_lines, workers=2), "num_workers=2", smallest_world=3),
        Trial(partial(_lines, samples=13), "13 samples"),
        Trial(partial(_lines, samples=1), "a single sample"),
        Trial(partial(_lines, grouped=False), "a single process", largest_world=2),
        Trial(partial(_lines, workers=2, grouped=False), "a single process with workers", largest_world=1),
    ],
    hints={
        "yields": "Your class does not yield the samples of the source. Inherit from "
        "torch.utils.data.IterableDataset, and yield each sample unchanged.",
        "samples": f"Some samples are lost or repeated. {_PART}. {_STEP}, and yield the last samples, too, even if "
        "they make some parts longer than others.",
        "shares": f"Rank {{rank}} yields no samples. {_PART}, and yield only your worker's part.",
        "second": "The second pass differs from the first. Call iter(source) in __iter__, because an iterator can be "
        "used only once, and yield the samples in the order of the source.",
        "source": "Your class opens the source several times in one pass. Iterate over it only once.",
        "read": "Your class reads the whole source before it yields a sample. Yield each sample of the part as soon "
        "as you have read it.",
    },
    mistakes=[Mistake(partial(_Stepping, formula=formula), why) for why, formula in _STEPPING.items()],
)
