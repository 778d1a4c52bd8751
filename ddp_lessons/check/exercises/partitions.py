"""The DataPartitioner of lesson 6, and which rank gets which sample."""

from __future__ import annotations

import builtins
import inspect
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset

from ddp_lessons.check.differences import named, plain
from ddp_lessons.check.exercise import Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.train.partition import DataPartitioner, Partition

_MANY = 20  # with so many samples, nothing is in order or repeated by chance
_FACTOR = 7  # a sample's value differs from its index, so that the two cannot be confused
_UNEQUAL = {1: [1.0], 2: [0.7, 0.3], 3: [0.7, 0.2, 0.1]}  # in floats, the last three add up to 0.9999999999999999


def told(shares: Sequence[Sequence[int]], samples: int) -> str:
    """In words: which samples the ranks have together, without numbers that may depend on chance."""
    times = Counter(itertools.chain(*shares))
    lost, several = samples - len(times), sum(count > 1 for count in times.values())
    if several and len(shares) > 1 and all(sorted(share) == sorted(shares[0]) for share in shares):
        return "the same on every rank"
    if lost and several:
        return "some missing, some repeated"
    if lost:
        return f"{lost} of {samples} missing"
    return f"{several} of {samples} repeated" if several else f"{samples}, once each"


def _data_and_sizes(
    rank: int,
    world_size: int,
    chance: torch.Generator,
    samples: int = 24,
    seeds: tuple[int | None, ...] = (None, None),
    sizes: str = "equal",
    is_list: bool = False,
) -> tuple[Any, ...]:
    """Pairs of an image and a label, or a list of numbers; each sample encodes its index."""
    values = [_FACTOR * index + 0.5 for index in range(samples)]
    pairs = TensorDataset(torch.tensor(values).view(-1, 1, 1, 1), torch.arange(samples) % 10)
    equal = 1 / world_size
    more = {"one is 0": (-equal, equal), "too small": (-0.05, 0), "too large": (0.05, 0), "negative": (-1.25, 1.25)}
    chosen = [equal] * world_size if sizes != "unequal" else list(_UNEQUAL[world_size])
    chosen[0] += more.get(sizes, (0, 0))[0]
    chosen[-1] += more.get(sizes, (0, 0))[1]
    return values if is_list else pairs, chosen, seeds


def _index_of(sample: Any) -> int:
    """The index of this sample, or -1 if it is none."""
    value = sample[0] if isinstance(sample, list | tuple) and len(sample) == 2 else sample
    try:
        index = (float(value) - 0.5) / _FACTOR
    except (TypeError, ValueError, RuntimeError):
        return -1
    return int(index) if index == int(index) else -1


def _other_random_numbers(rank: int, turn: int) -> None:
    """Give this rank other states of all generators, another clock and other hashes, as on another machine.

    Ranks choose their samples independently, so they agree only if nothing depends on chance.
    """
    seed = 7919 * (turn + 1) + 104_729 * rank
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    time.time = lambda: _time() + seed
    builtins.hash = lambda thing: _hash((rank, thing) if isinstance(thing, str | bytes | tuple) else thing)


_time, _hash = time.time, builtins.hash


def _partitioned(program: Program, data: Any, sizes: list[float], seeds: tuple[int | None, ...]) -> Fields:
    """Partition the data once per seed, each time with other random numbers, and read this rank's partition."""
    rank, turns, raises = dist.get_rank(), [], "nothing"
    has_a_seed = len(inspect.signature(program).parameters) > 2
    for turn, seed in enumerate(seeds):
        _other_random_numbers(rank, turn)
        try:
            partitioner = program(data, list(sizes), **_seed_for(program, seed))
            turns.append([_read(partitioner.use(rank), 10 * len(data)) for _ in range(2)])
        except ValueError:
            raises = "ValueError"
            break
    in_order = [_index_of(data[place]) for place in range(len(data))] == [*range(len(data))]
    fields = {"raises": raises, "given data": "as it was" if in_order else "in another order"}
    return fields | {"turns": turns, "asked": sizes[rank] * len(data), "of": len(data), "has a seed": has_a_seed}


def _seed_for(program: Program, seed: int | None) -> dict[str, int]:
    """None: its own, if it has one."""
    parameters = inspect.signature(program).parameters
    third = parameters.get("seed") or next(iter([*parameters.values()][2:3]), None)
    if third is None or (seed is None and third.default is not third.empty):
        return {}
    return {"seed" if third.kind is third.VAR_KEYWORD else third.name: 1234 if seed is None else seed}


def _read(partition: Any, most: int) -> Any:
    """The indices of its samples, or in words what it is instead."""
    if not (hasattr(partition, "__len__") and hasattr(partition, "__getitem__")) or isinstance(partition, str | dict):
        return named(plain(partition))
    indices = [_index_of(partition[place]) for place in range(min(len(partition), most))]
    return indices if -1 not in indices else f"[{indices.index(-1)}] is not a sample"


def _of_all_ranks(outcomes: Sequence[Fields]) -> Sequence[Fields]:
    judged = [{name: one[name] for name in ("raises", "given data")} for one in outcomes]
    if any(one["raises"] != "nothing" for one in outcomes):
        return judged
    read = [[*itertools.chain(*one["turns"])] for one in outcomes]
    kinds = [next((one for one in every if isinstance(one, str)), "a partition") for every in read]
    judged = [one | {"use(rank)": kind} for one, kind in zip(judged, kinds, strict=True)]
    if {*kinds} != {"a partition"}:
        return judged
    return [one | _of_one_rank(outcomes, rank) for rank, one in enumerate(judged)]


def _of_one_rank(outcomes: Sequence[Fields], rank: int) -> dict[str, str]:
    mine, samples, ranks = outcomes[rank], outcomes[rank]["of"], len(outcomes)
    first, *others = [[sorted(one["turns"][turn][0]) for one in outcomes] for turn in range(len(mine["turns"]))]
    is_off = abs(len(first[rank]) - mine["asked"]) > ranks
    fields = {
        "samples": told(first, samples),
        "use(rank), called again": _words(sorted(mine["turns"][0][1]) == first[rank]),
        "len(use(rank))": str(len(first[rank])) if is_off else "as asked",
    }
    if ranks == 1 or samples < _MANY:  # then all partitions hold the same samples, or they may be equal by chance
        return fields
    is_even = all(len({b - a for a, b in itertools.pairwise(share)}) == 1 for share in first)
    in_parts = "as in the data" if mine["turns"][0][0] == first[rank] else "shuffled within contiguous parts"
    has_a_seed = mine["has a seed"]
    return fields | {
        "order": in_parts if is_even else "shuffled",
        "made again, with the same seed": _words(not has_a_seed or all(one == first for one in others[:1])),
        "made again, with another seed": _words(has_a_seed and first in others[1:]),
    }


def _words(is_the_same: bool) -> str:
    return "the same samples" if is_the_same else "other samples"


class _Cut:
    """The lesson's partitioner with one thing wrong."""

    def __init__(self, data: Any, sizes: Sequence[float], seed: int = 1234, wrong: str = "") -> None:
        self.data, self.wrong, indices = data, wrong, list(range(len(data)))
        if wrong != "order":
            seeds = {"no seed": random.random(), "by rank": seed + dist.get_rank()}
            random.Random(seeds.get(wrong, seed)).shuffle(indices)
        ends = [round(len(data) * end) for end in itertools.accumulate(sizes)]
        if wrong == "floors":
            ends = [*itertools.accumulate(int(len(data) * size) for size in sizes)]
        self.parts = [indices[begin:end] for begin, end in itertools.pairwise([0, *ends])]

    def use(self, rank: int) -> Any:
        if self.wrong == "all":
            return self.data
        return Partition(self.data, self.parts[rank] if self.wrong != "places" else range(len(self.parts[rank])))


data_partitioner = Exercise(
    """Check a class: every rank calls `partitioner(data, sizes, seed=1234)` and then its `use(rank)`.

    The sizes are fractions of 1, one for each rank. `use(rank)` returns that rank's samples, as an object with len()
    and [index]. Together, the partitions contain every sample exactly once, even if the sizes don't divide the data
    evenly. The samples are shuffled, in the same way on all ranks and whenever the seed is the same.

    Raise ValueError for sizes below 0, for sizes that don't add up to 1, and for more sizes than samples. A class
    without a seed may always shuffle in the same way. Communication is allowed, but not necessary.
    """,
    solution=DataPartitioner,
    call=_partitioned,
    together=_of_all_ranks,
    parameters=("data", "sizes"),
    methods=("__init__", "use"),
    world_sizes=(2, 3, 1),
    trials=[
        Trial(_data_and_sizes),
        Trial(partial(_data_and_sizes, samples=60, seeds=(7, 7)), "other data"),
        Trial(partial(_data_and_sizes, samples=25), "data not divisible by world_size"),
        Trial(partial(_data_and_sizes, samples=61, seeds=(5, 5, 6), sizes="unequal"), "partitions of different sizes"),
        Trial(partial(_data_and_sizes, samples=47, seeds=(0, 0, 1), is_list=True), "data in a list"),
        Trial(partial(_data_and_sizes, samples=5), "a small dataset"),
        Trial(partial(_data_and_sizes, sizes="one is 0"), "a partition of size 0", smallest_world=2),
        *(Trial(partial(_data_and_sizes, samples=ranks), "one sample per partition", ranks, ranks) for ranks in (2, 3)),
        *(
            Trial(partial(_data_and_sizes, seeds=(1,), sizes=sizes), f"invalid sizes ({what})", 2)
            for sizes, what in {
                "too small": "they add up to less than 1",
                "too large": "they add up to more than 1",
                "negative": "one is below 0",
            }.items()
        ),
        Trial(partial(_data_and_sizes, samples=1, seeds=(1,)), "invalid sizes (more sizes than samples)", 2),
    ],
    hints={
        "raises": "Raise ValueError if a size is below 0, if the sizes do not add up to 1 (compare with "
        "math.isclose), or if there are more sizes than samples, but in no other case.",
        "given data": "Your class shuffles the data itself. Shuffle a list of indices, and leave the data unchanged.",
        "use(rank), called": "use(rank) returns different samples when called again. Shuffle and split once, in "
        "__init__, and let use() only return a partition.",
        "use(rank)": "use(rank) does not return a partition. Return an object with len() and [index] whose items are "
        "samples of the data.",
        "samples": "Some samples are in no partition or in two. Shuffle all indices in the same way on every rank, "
        "start each partition where the previous one ends, and let the last one reach the end of the data.",
        "len(use(rank))": "The partition of rank {rank} does not have the requested size. Check where it starts and "
        "ends.",
        "order": "The samples are not shuffled across the whole dataset. Shuffle the indices before splitting them.",
        "made again, with the same seed": "The same seed gives different partitions each time. Shuffle with a new "
        "generator that is seeded only with `seed`, such as random.Random(seed).",
        "made again, with another seed": "The seed has no effect. Pass it to the generator that shuffles.",
    },
    mistakes=[
        Mistake(partial(_Cut, wrong=wrong), sentence)
        for wrong, sentence in {
            "floors": "The remainder is lost. Round the end of each partition instead of its length, and let the "
            "last one reach the end of the data.",
            "no seed": "Each rank shuffles differently, so some samples are on several ranks and others on none. "
            "Shuffle with a generator that has the same seed on all ranks, as DistributedSampler does.",
            "by rank": "Each rank shuffles differently, as if its rank were part of the seed. Use the same seed on all "
            "ranks.",
            "order": "The samples are in their original order. Shuffle the indices before splitting them.",
            "places": "Every partition holds the first samples of the data, in order. Let partition[i] return "
            "data[indices[i]], not data[i].",
            "all": "use() gives every rank all of the data. Split the data, so that each rank has its own partition.",
        }.items()
    ],
)
