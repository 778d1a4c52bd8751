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
from random import Random
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import TensorDataset

from ddp_lessons.check.differences import named, plain
from ddp_lessons.check.exercise import Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.train.partition import DataPartitioner, Partition

MANY = 20  # with so many samples, nothing is in order or repeated by chance
_FACTOR = 7  # a sample's value differs from its index, so that the two cannot be confused


def samples_in(samples: int, is_list: bool = False) -> Any:
    """Pairs of an image and a label, or a list of numbers; each sample tells its index."""
    values = [_FACTOR * index + 0.5 for index in range(samples)]
    return values if is_list else TensorDataset(torch.tensor(values).view(-1, 1, 1, 1), torch.arange(samples) % 10)


def index_of(sample: Any) -> int:
    """The index of this sample, or -1 if it is none."""
    value = sample[0] if isinstance(sample, list | tuple) and len(sample) == 2 else sample
    try:
        index = (float(value) - 0.5) / _FACTOR
    except (TypeError, ValueError, RuntimeError):
        return -1
    return int(index) if index == int(index) else -1


def other_random_numbers(rank: int, turn: int) -> None:
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


def told(shares: Sequence[Sequence[int]], samples: int) -> str:
    """Which samples the ranks have together, in words without numbers that may depend on chance."""
    times = Counter(index for share in shares for index in share)
    lost, several = samples - len(times), sum(count > 1 for count in times.values())
    if len(shares) > 1 and several and all(sorted(share) == sorted(shares[0]) for share in shares):
        return "the same on every rank"
    if any(len(set(share)) < len(share) for share in shares):
        return "some twice on one rank"
    if lost and several:
        rows = [{*zip(share, share[1:], share[2:], strict=False)} for share in shares]
        is_one_order = any(one & other for one, other in itertools.combinations(rows, 2))
        return "some never, some twice, in one order" if is_one_order else "some never, some twice"
    return (
        f"{lost} of {samples} never"
        if lost
        else f"{several} of {samples} twice"
        if several
        else f"{samples}, once each"
    )


def order_of(shares: Sequence[Sequence[int]], samples: int) -> str:
    def in_order(shares: Sequence[Sequence[int]]) -> bool:
        return all(len({(b - a) % samples for a, b in itertools.pairwise(share)}) == 1 for share in shares)

    if samples < MANY or len(shares) == 1 or not in_order([sorted(share) for share in shares]):
        return "shuffled"
    return "as in the data" if in_order(shares) else "shuffled within contiguous parts"


def _data_and_sizes(
    rank: int,
    world_size: int,
    chance: torch.Generator,
    samples: int = 24,
    seeds: tuple[int | None, ...] = (None, None),
    sizes: str = "equal",
    is_list: bool = False,
) -> tuple[Any, ...]:
    equal = [1 / world_size] * world_size
    chosen = {
        "equal": equal,
        "unequal": _UNEQUAL[world_size],
        "one is 0": [0.0, *equal[2:], 2 / world_size] if world_size > 1 else equal,
        "too small": [equal[0] - 0.05, *equal[1:]],
        "too large": [equal[0] + 0.05, *equal[1:]],
        "half too small": [equal[0] / 2, *equal[1:]],
        "negative": [equal[0] - 1.25, *equal[1:-1], equal[-1] + 1.25],
    }[sizes]
    return samples_in(samples, is_list), list(chosen), seeds


# not all add up to exactly 1 in floats: 0.7 + 0.2 + 0.1 is 0.9999999999999999
_UNEQUAL = {1: [1.0], 2: [0.7, 0.3], 3: [0.7, 0.2, 0.1], 4: [0.1, 0.2, 0.3, 0.4]}


def _cut(program: Program, data: Any, sizes: list[float], seeds: tuple[int | None, ...]) -> Fields:
    """Partition the data once per seed, each time with other random numbers, and read this rank's partition."""
    rank, turns, again = dist.get_rank(), [], None
    is_valid = abs(sum(sizes) - 1) < 1e-6 and min(sizes) >= 0 and len(sizes) <= len(data)
    raises = ""
    for turn, seed in enumerate(seeds):
        other_random_numbers(rank, turn)
        try:
            partitioner = _made(program, data, list(sizes), seed)
            turns.append(_read(partitioner.use(rank), 10 * len(data)))
            again = again or _read(partitioner.use(rank), 10 * len(data))
        except Exception as refusal:
            if is_valid and not isinstance(refusal, ValueError | AssertionError):
                raise
            raises = type(refusal).__name__
            break
    in_order = [index_of(data[place]) for place in range(len(data))] == [*range(len(data))]
    return {
        "raises": raises or "nothing",
        "data": "as it was" if in_order else "in another order",
        "turns": turns,
        "again": again,
        "asked": sizes[rank] * len(data) if is_valid else 0.0,
        "samples": len(data),
        "takes a seed": _seed_of(program) is not None,
    }


def _seed_of(program: Program) -> inspect.Parameter | None:
    """The parameter that takes the seed."""
    parameters = inspect.signature(program).parameters
    third = [one for one in [*parameters.values()][2:3] if not isinstance(one.default, bool | float | str)]
    return parameters.get("seed") or next(iter(third), None)


def _made(program: Program, data: Any, sizes: list[float], seed: int | None) -> Any:
    parameter = _seed_of(program)
    is_optional = parameter is None or parameter.default is not parameter.empty or parameter.kind.name.startswith("VAR")
    if parameter is None or (seed is None and is_optional):
        return program(data, sizes)
    given = 1234 if seed is None else seed
    if parameter.name == "seed" or parameter.kind is parameter.VAR_KEYWORD:
        return program(data, sizes, seed=given)
    return program(data, sizes, given)


def _read(partition: Any, most: int) -> Any:
    """The indices of its samples, or in words what it is instead."""
    is_like_a_list = all(hasattr(partition, name) for name in ("__len__", "__getitem__"))
    if (
        not is_like_a_list
        or isinstance(partition, str | dict)
        or (isinstance(partition, Tensor) and not partition.dim())
    ):
        return named(plain(partition))
    return [index_of(partition[place]) for place in range(min(len(partition), most))]


def _of_all_ranks(outcomes: Sequence[Fields]) -> list[Fields]:
    kinds = [_kind_of(outcome) for outcome in outcomes]
    basis = [{"raises": one["raises"], "given data": one["data"]} for one in outcomes]
    if any(one["raises"] != "nothing" for one in outcomes):
        return list(basis)
    basis = [one | {"use(rank)": kind} for one, kind in zip(basis, kinds, strict=True)]
    if any(kind != "a partition" for kind in kinds):
        return list(basis)
    return [one | _of_one_rank(outcomes, rank) for rank, one in enumerate(basis)]


def _kind_of(outcome: Fields) -> str:
    for turn in outcome["turns"]:
        if not isinstance(turn, list):
            return str(turn)
        if -1 in turn:
            return f"[{turn.index(-1)}] is no sample"
    return "a partition"


def _of_one_rank(outcomes: Sequence[Fields], rank: int) -> dict[str, str]:
    mine, samples, ranks = outcomes[rank], outcomes[rank]["samples"], len(outcomes)
    turns = [[sorted(one["turns"][turn]) for one in outcomes] for turn in range(len(mine["turns"]))]
    is_alike = len(turns) < 2 or turns[0] == turns[1]
    is_off = abs(len(turns[0][rank]) - mine["asked"]) > ranks
    fields = {
        "samples": told([one["turns"][0] for one in outcomes], samples),
        "use(rank), called again": "the same samples" if sorted(mine["again"]) == turns[0][rank] else "other samples",
        "len(use(rank))": str(len(turns[0][rank])) if is_off else "as asked",
    }
    if ranks == 1 or samples < MANY:  # then all partitions hold the same samples, or they may be equal by chance
        return fields
    is_other = len(turns) < 3 or turns[0] != turns[2] or not mine["takes a seed"]
    return fields | {
        "order": order_of([one["turns"][0] for one in outcomes], samples),
        "made again, with the same seed": "the same samples"
        if is_alike or not mine["takes a seed"]
        else "other samples",
        "made again, with another seed": "other samples" if is_other else "the same samples",
    }


class _Cut:
    """The lesson's partitioner with one thing wrong."""

    kept: ClassVar[list[Any]] = []  # one of the mistakes

    def __init__(self, data: Any, sizes: Sequence[float], seed: int = 1234, wrong: str = "") -> None:
        self.data, self.wrong = data, wrong
        indices = list(range(len(data)))
        if wrong != "order":
            Random(
                {"no seed": random.random(), "by rank": seed + dist.get_rank(), "fixed": 3}.get(wrong, seed)
            ).shuffle(indices)
        parts: list[Any] = self.kept if wrong == "kept" else []
        ends = [int(len(data) * end + 0.5) for end in itertools.accumulate(sizes)]
        for begin, end in itertools.pairwise([0, *ends[:-1], len(data)]):
            parts.append(indices[begin:end])
        self.parts = parts

    def use(self, rank: int) -> Any:
        if self.wrong == "all":
            return self.data
        return Partition(self.data, self.parts[rank] if self.wrong != "places" else range(len(self.parts[rank])))


class _Floors(DataPartitioner):
    def __init__(self, data: Any, sizes: Sequence[float], seed: int = 1234) -> None:
        super().__init__(data, sizes, seed)
        indices, start = list(range(len(data))), 0
        Random(seed).shuffle(indices)
        for rank, size in enumerate(sizes):
            length = int(size * len(data))
            self.partitions[rank] = indices[start : start + length]
            start += length


data_partitioner = Exercise(
    """Check a class: `partitioner(data, sizes, seed=1234)` on every rank, and its `use(rank)`.

    The sizes are fractions of 1, one for each rank. `use(rank)` returns something with len() and [index]: the samples
    of that rank. Together the partitions hold every sample exactly once, also where the sizes do not divide the data.
    They are shuffled, in the same way on all ranks and whenever the seed is the same.

    Raise ValueError for sizes below 0, sizes that do not add up to 1, and more sizes than samples. A class without a
    seed may always shuffle in the same way. Communication is allowed, but not needed.
    """,
    solution=DataPartitioner,
    call=_cut,
    together=_of_all_ranks,
    parameters=("data", "sizes"),
    methods=("__init__", "use"),
    world_sizes=(2, 3, 4, 1),
    trials=[
        Trial(_data_and_sizes),
        Trial(partial(_data_and_sizes, samples=60, seeds=(7, 7)), "the next data"),
        Trial(partial(_data_and_sizes, samples=25), "data not divisible by world_size"),
        Trial(partial(_data_and_sizes, samples=61, seeds=(5, 5, 6), sizes="unequal"), "partitions of different sizes"),
        Trial(partial(_data_and_sizes, samples=47, seeds=(0, 0, 1), is_list=True), "data in a list"),
        Trial(partial(_data_and_sizes, samples=5), "little data"),
        Trial(partial(_data_and_sizes, sizes="one is 0"), "a partition of size 0", smallest_world=2),
        *(
            Trial(partial(_data_and_sizes, samples=ranks), "one sample per partition", ranks, ranks)
            for ranks in (2, 3, 4)
        ),
        *(
            Trial(partial(_data_and_sizes, seeds=(1,), sizes=sizes), f"invalid sizes ({what})", 2, 3)
            for sizes, what in (
                ("half too small", "they add up to less than 1"),
                ("too small", "they add up to less than 1"),
                ("too large", "they add up to more than 1"),
                ("negative", "one is below 0"),
            )
        ),
        Trial(partial(_data_and_sizes, samples=1, seeds=(1,)), "invalid sizes (more sizes than samples)", 2, 3),
    ],
    hints={
        "raises": "Raise ValueError for sizes below 0, for sizes that do not add up to 1 (up to rounding, with "
        "math.isclose), and for more sizes than samples, and for no others.",
        "given data": "It shuffles the data itself. Shuffle a list of indices, and leave the data unchanged.",
        "use(rank), called": "use(rank) returns different samples when called again. Shuffle and split once, in "
        "__init__, and let use() only return a partition.",
        "use(rank)": "use(rank) does not return a partition. Return something with len() and [index], whose items "
        "are samples, data[index].",
        "samples": "Some samples are in no partition or in two. Shuffle all indices in the same way on every rank, "
        "start each partition where the previous one ends, and let the last one end with the data.",
        "len(use(rank))": "The partition of rank {rank} has not the size that was asked for. Check where it starts and "
        "ends.",
        "order": "The samples are not shuffled over the whole data. Shuffle the indices before splitting them.",
        "made again, with the same seed": "The same seed gives different partitions each time. Shuffle with a new "
        "generator that is seeded only with `seed`, such as random.Random(seed).",
        "made again, with another seed": "The seed has no effect. Pass it to the generator that shuffles.",
    },
    mistakes=[
        Mistake(
            _Floors,
            "The remainder is lost. Round the end of each partition instead of its length, and let the last one end "
            "with the data.",
        ),
        Mistake(
            partial(_Cut, wrong="no seed"),
            "Each rank shuffles differently, so some samples are on several ranks and others on none. Shuffle with a "
            "generator that has the same seed on all ranks, as DistributedSampler does.",
        ),
        Mistake(
            partial(_Cut, wrong="by rank"),
            "Each rank shuffles differently, as if its rank were part of the seed. Use the same seed on all ranks.",
        ),
        Mistake(
            partial(_Cut, wrong="order"),
            "It does not shuffle: the samples are in their original order. Shuffle the indices before splitting them.",
        ),
        Mistake(
            partial(_Cut, wrong="places"),
            "Every partition holds the first samples of the data in order. Let partition[i] return data[indices[i]], "
            "not data[i].",
        ),
        Mistake(
            partial(_Cut, wrong="all"),
            "use() gives every rank all of the data. Split the data, so that each rank has its own partition.",
        ),
        Mistake(
            partial(_Cut, wrong="kept"),
            "A second DataPartitioner still returns the samples of the first. Create attributes such as self.parts = "
            "[] in __init__, not in the class body.",
        ),
    ],
)
