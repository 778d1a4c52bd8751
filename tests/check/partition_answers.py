"""Answers to the exercise `data_partitioner`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, type-arg, no-any-return"
from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import random
from typing import Any

import numpy as np
import torch
import torch.distributed
from torch.utils.data import DataLoader, Dataset, Subset, random_split

dist: Any = torch.distributed


class Part:
    def __init__(self, data, indices):
        self.data = data
        self.indices = indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, index):
        return self.data[self.indices[index]]


def check_sizes(data, sizes):
    if min(sizes) < 0 or not math.isclose(sum(sizes), 1) or len(sizes) > len(data):
        raise ValueError(f"{sizes} are no sizes of partitions of {len(data)} samples")


def ends_of(data, sizes):
    ends = [round(len(data) * end) for end in itertools.accumulate(sizes)]
    return [*ends[:-1], len(data)]


def cut(data, sizes, indices):
    check_sizes(data, sizes)
    return [list(indices[begin:end]) for begin, end in itertools.pairwise([0, *ends_of(data, sizes)])]


def shuffled(data, seed):
    indices = list(range(len(data)))
    random.Random(seed).shuffle(indices)
    return indices


# right


class ByCumulativeEnds:
    def __init__(self, data, sizes, seed=1234):
        self.data = data
        self.partitions = cut(data, sizes, shuffled(data, seed))

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class TheLastTakesTheRest:
    """The notes' own, repaired."""

    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        self.data, self.partitions = data, []
        indexes = list(range(len(data)))
        rng = random.Random()
        rng.seed(seed)
        rng.shuffle(indexes)
        for frac in sizes[:-1]:
            part_len = int(frac * len(data))
            self.partitions.append(indexes[0:part_len])
            indexes = indexes[part_len:]
        self.partitions.append(indexes)

    def use(self, partition):
        return Subset(self.data, self.partitions[partition])


class ByRandomSplit(Dataset):
    def __init__(self, data, sizes, seed=1234):
        if len(sizes) > len(data):
            raise ValueError("more partitions than samples")
        if abs(sum(sizes) - 1) > 1e-6:
            raise ValueError("the sizes do not add up to 1")
        self.parts = random_split(data, sizes, generator=torch.Generator().manual_seed(seed))

    def use(self, rank):
        return self.parts[rank]


class ByRandperm:
    def __init__(self, data, sizes, seed=0):
        check_sizes(data, sizes)
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
        ends = torch.tensor(ends_of(data, sizes))
        self.data, self.parts = data, torch.tensor_split(order, ends[:-1])

    def use(self, rank):
        return Part(self.data, self.parts[rank])


class ByNumpy:
    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        order = np.random.default_rng(seed).permutation(len(data))
        self.data, self.parts = data, np.split(order, ends_of(data, sizes)[:-1])

    def use(self, rank):
        return Subset(self.data, self.parts[rank].tolist())


class SeedsTheGlobalGenerator:
    def __init__(self, data, sizes, seed=1234):
        random.seed(seed)
        indices = list(range(len(data)))
        random.shuffle(indices)
        self.data, self.partitions = data, cut(data, sizes, indices)

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class SeedsTorch:
    def __init__(self, data, sizes, seed=1234):
        torch.manual_seed(seed)
        self.data, self.partitions = data, cut(data, sizes, torch.randperm(len(data)).tolist())

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class WithoutASeed:
    def __init__(self, data, sizes):
        self.data, self.partitions = data, cut(data, sizes, shuffled(data, 1234))

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class SeedIsNeeded:
    def __init__(self, data, sizes, seed):
        self.data, self.partitions = data, cut(data, sizes, shuffled(data, seed))

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class SeedOfAnotherName:
    def __init__(self, data, sizes, random_state=0):
        self.data, self.partitions = data, cut(data, sizes, shuffled(data, random_state))

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class SeedByKeywordOnly:
    def __init__(self, data, sizes, *, shuffle=True, seed=1234):
        self.data, self.partitions = data, cut(data, sizes, shuffled(data, seed) if shuffle else range(len(data)))

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class KeepsSamples:
    """No indices: lists of the samples themselves."""

    def __init__(self, data, sizes, seed=1234):
        self.parts = [[data[index] for index in part] for part in cut(data, sizes, shuffled(data, seed))]

    def use(self, rank):
        return self.parts[rank]


class CutsWhenUsed:
    def __init__(self, data, sizes, seed=1234):
        self.data, self.sizes, self.seed = data, sizes, seed

    def use(self, rank):
        return Part(self.data, cut(self.data, self.sizes, shuffled(self.data, self.seed))[rank])


class SortsEachPartition:
    def __init__(self, data, sizes, seed=1234):
        self.data, self.partitions = data, [sorted(part) for part in cut(data, sizes, shuffled(data, seed))]

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class BroadcastFromRank0:
    def __init__(self, data, sizes, seed=1234):
        box: list[Any] = [cut(data, sizes, shuffled(data, seed)) if dist.get_rank() == 0 else None]
        check_sizes(data, sizes)
        dist.broadcast_object_list(box, src=0)
        self.data, self.partitions = data, box[0]

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class ScatteredFromRank0:
    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        mine: list[Any] = [None]
        dist.scatter_object_list(mine, cut(data, sizes, shuffled(data, seed)) if dist.get_rank() == 0 else None, src=0)
        self.data, self.mine = data, mine[0]

    def use(self, rank):
        return Part(self.data, self.mine)


@dataclasses.dataclass
class AsADataclass:
    data: Any
    sizes: Any
    seed: int = 1234

    def __post_init__(self):
        self.partitions = cut(self.data, self.sizes, shuffled(self.data, self.seed))

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class ByLargestRemainder:
    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        lengths = [math.floor(size * len(data)) for size in sizes]
        for place in range(len(data) - sum(lengths)):
            lengths[place % len(lengths)] += 1
        indices = iter(shuffled(data, seed))
        self.data, self.parts = data, [list(itertools.islice(indices, length)) for length in lengths]

    def use(self, rank=0):
        return Part(self.data, self.parts[rank])


def a_factory(data, sizes, seed=1234):
    return ByCumulativeEnds(data, sizes, seed)


class Inherits(ByCumulativeEnds):
    pass


RIGHT: list[Any] = [
    ByCumulativeEnds,
    TheLastTakesTheRest,
    ByRandomSplit,
    ByRandperm,
    ByNumpy,
    SeedsTheGlobalGenerator,
    SeedsTorch,
    WithoutASeed,
    SeedIsNeeded,
    SeedOfAnotherName,
    SeedByKeywordOnly,
    KeepsSamples,
    CutsWhenUsed,
    SortsEachPartition,
    BroadcastFromRank0,
    ScatteredFromRank0,
    AsADataclass,
    ByLargestRemainder,
    a_factory,
    Inherits,
    functools.partial(ByCumulativeEnds, seed=7),
    lambda data, sizes, seed=1: ByRandperm(data, sizes, seed),
]


# of learners who have read only the lesson


class SortedByDraws:
    """A draw for each sample, and the samples in the order of their draws."""

    def __init__(self, data, sizes, seed=1234):
        draws = random.Random(seed)
        order = sorted(range(len(data)), key=lambda index: draws.random())
        self.data, self.partitions = data, cut(data, sizes, order)

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class KeepsASeededState:
    """Numpy's old generator, and only the ends are kept: the cut comes with use()."""

    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        self.data, self.order = data, np.arange(len(data))
        np.random.RandomState(seed).shuffle(self.order)
        self.ends = [0, *ends_of(data, sizes)]

    def use(self, rank):
        return Part(self.data, self.order[self.ends[rank] : self.ends[rank + 1]].tolist())


class RoundsUp:
    """Lengths are rounded up, and slices stop where the data ends."""

    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        self.data, rest, self.partitions = data, shuffled(data, seed), []
        for size in sizes:
            length = math.ceil(size * len(data) - 1e-6)
            self.partitions.append(rest[:length])
            rest = rest[length:]

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class OnlyItsOwnRank:
    """It asks torch.distributed which rank this is."""

    def __init__(self, data, sizes, seed=1234):
        self.data, self.mine = data, cut(data, sizes, shuffled(data, seed))[dist.get_rank()]

    def use(self, rank):
        return Subset(self.data, self.mine)


class IsItsOwnPartition:
    """use() returns the object itself, which then has a length and samples."""

    def __init__(self, data, sizes, seed=1234):
        self.data, self.partitions = data, cut(data, sizes, shuffled(data, seed))

    def use(self, rank):
        self.mine = self.partitions[rank]
        return self

    def __len__(self):
        return len(self.mine)

    def __getitem__(self, index):
        return self.data[self.mine[index]]


class Tolerant:
    """A little room of a thousandth, and decimal parts."""

    def __init__(self, data, sizes, seed=1234):
        if any(size < 0 for size in sizes) or abs(1 - sum(sizes)) > 1e-3:
            raise ValueError("sizes")
        if len(data) < len(sizes):
            raise ValueError("too many sizes")
        indices, begin, self.parts = shuffled(data, seed), 0, {}
        for rank, size in enumerate(sizes):
            end = len(data) if rank == len(sizes) - 1 else begin + int(size * len(data))
            self.parts[rank] = [data[index] for index in indices[begin:end]]
            begin = end

    def use(self, rank):
        return self.parts[rank]


RIGHT += [SortedByDraws, KeepsASeededState, RoundsUp, OnlyItsOwnRank, IsItsOwnPartition, Tolerant]


# wrong


class TheNotesOwn:
    def __init__(self, data, sizes, seed=1234):
        self.data, self.partitions = data, []
        indexes = list(range(len(data)))
        rng = random.Random()
        rng.shuffle(indexes)
        for frac in sizes:
            part_len = int(frac * len(data))
            self.partitions.append(indexes[0:part_len])
            indexes = indexes[part_len:]

    def use(self, partition):
        return Part(self.data, self.partitions[partition])


class WithShuffle:
    """A right one but for the indices, which come from `order`."""

    def __init__(self, data, sizes, seed=1234):
        self.data, self.partitions = data, cut(data, sizes, self.order(data, seed))

    def order(self, data, seed):
        return shuffled(data, seed)

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class GlobalShuffle(WithShuffle):
    def order(self, data, seed):
        indices = list(range(len(data)))
        random.shuffle(indices)
        return indices


class GlobalRandperm(WithShuffle):
    def order(self, data, seed):
        return torch.randperm(len(data)).tolist()


class GlobalNumpy(WithShuffle):
    def order(self, data, seed):
        return np.random.permutation(len(data))


class RankInTheSeed(WithShuffle):
    def order(self, data, seed):
        return shuffled(data, seed + dist.get_rank())


class DoesNotShuffle(WithShuffle):
    def order(self, data, seed):
        return range(len(data))


class LosesTheShuffle(WithShuffle):
    def order(self, data, seed):
        indices = list(range(len(data)))
        random.Random(seed).sample(indices, len(indices))
        return indices


class ForgetsTheSeed(WithShuffle):
    def order(self, data, seed):
        return shuffled(data, 1234)


class ReversesTheData(WithShuffle):
    def order(self, data, seed):
        return range(len(data) - 1, -1, -1)


class OneGeneratorForAll(WithShuffle):
    generator = random.Random(1234)

    def order(self, data, seed):
        indices = list(range(len(data)))
        self.generator.shuffle(indices)
        return indices


class SeedIsNone(WithShuffle):
    def __init__(self, data, sizes, seed=None):
        super().__init__(data, sizes, seed)


class DropsTheRemainder:
    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        self.data, self.partitions = data, []
        indexes = shuffled(data, seed)
        for frac in sizes:
            part_len = int(frac * len(data))
            self.partitions.append(indexes[0:part_len])
            indexes = indexes[part_len:]

    def use(self, partition):
        return Part(self.data, self.partitions[partition])


class RoundsLengths:
    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        ends = [0, *itertools.accumulate(round(size * len(data)) for size in sizes)]
        self.data, indices = data, shuffled(data, seed)
        self.partitions = [indices[begin:end] for begin, end in itertools.pairwise(ends)]

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class OverlapsByOne:
    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        indices = shuffled(data, seed)
        self.data = data
        self.partitions = [indices[begin : end + 1] for begin, end in itertools.pairwise([0, *ends_of(data, sizes)])]

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class LeavesOneOut:
    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        indices = shuffled(data, seed)
        self.data = data
        self.partitions = [indices[begin + 1 : end] for begin, end in itertools.pairwise([0, *ends_of(data, sizes)])]

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class AlwaysTheFront:
    """Each partition begins at 0."""

    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        indices = shuffled(data, seed)
        self.data, self.partitions = data, [indices[: round(size * len(data))] for size in sizes]

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class NeglectsTheSizes:
    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        self.data, indices = data, shuffled(data, seed)
        self.partitions = [indices[rank :: len(sizes)] for rank in range(len(sizes))]

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class NeglectsTheRank(WithShuffle):
    def use(self, rank):
        return Part(self.data, self.partitions[0])


class GivesEverything(WithShuffle):
    def use(self, rank):
        return self.data


class GivesIndices(WithShuffle):
    def use(self, rank):
        return self.partitions[rank]


class GivesATensorOfIndices(WithShuffle):
    def use(self, rank):
        return torch.tensor(self.partitions[rank])


class GivesALoader(WithShuffle):
    def use(self, rank):
        return DataLoader(Subset(self.data, self.partitions[rank]), batch_size=4)


class GivesAGenerator(WithShuffle):
    def use(self, rank):
        return (self.data[index] for index in self.partitions[rank])


class ForgetsToReturn(WithShuffle):
    def use(self, rank):
        Part(self.data, self.partitions[rank])


class CountsFromOne(WithShuffle):
    def use(self, rank):
        return Part(self.data, self.partitions[rank - 1 + 2])


class ItemsFromOne(WithShuffle):
    def use(self, rank):
        part = Part(self.data, self.partitions[rank])
        return [part[place + 1] for place in range(len(part))]


class ShuffledInside:
    def __init__(self, data, sizes, seed=1234):
        self.data, self.partitions = data, cut(data, sizes, range(len(data)))
        for part in self.partitions:
            random.Random(seed).shuffle(part)

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class ShufflesTheDataItself:
    def __init__(self, data, sizes, seed=1234):
        random.Random(seed).shuffle(data)
        self.data, self.partitions = data, cut(data, sizes, range(len(data)))

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class ShufflesAList(WithShuffle):
    """Only what can be shuffled in place."""

    def order(self, data, seed):
        if isinstance(data, list):
            random.Random(seed).shuffle(data)
        return shuffled(data, seed)


class NeverRefuses:
    def __init__(self, data, sizes, seed=1234):
        indices = shuffled(data, seed)
        ends = [0, *ends_of(data, sizes)]
        self.data, self.partitions = data, [indices[begin:end] for begin, end in itertools.pairwise(ends)]

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class RefusesOnlyTooLarge(NeverRefuses):
    def __init__(self, data, sizes, seed=1234):
        if sum(sizes) > 1:
            raise ValueError("too much")
        super().__init__(data, sizes, seed)


class RefusesNothingNegative(NeverRefuses):
    def __init__(self, data, sizes, seed=1234):
        if not math.isclose(sum(sizes), 1):
            raise ValueError("not 1")
        super().__init__(data, sizes, seed)


class TakesTooMany(NeverRefuses):
    def __init__(self, data, sizes, seed=1234):
        if not math.isclose(sum(sizes), 1) or min(sizes) < 0:
            raise ValueError("not 1")
        super().__init__(data, sizes, seed)


class Asserts(NeverRefuses):
    def __init__(self, data, sizes, seed=1234):
        assert math.isclose(sum(sizes), 1)
        super().__init__(data, sizes, seed)


class ComparesExactly(NeverRefuses):
    def __init__(self, data, sizes, seed=1234):
        if functools.reduce(lambda one, other: one + other, sizes) != 1:
            raise ValueError("the sizes have to add up to 1")
        check_sizes(data, sizes)
        super().__init__(data, sizes, seed)


class HasNoUse:
    def __init__(self, data, sizes, seed=1234):
        self.partitions = cut(data, sizes, shuffled(data, seed))


class AsksForMore:
    def __init__(self, data, sizes, rank, world_size):
        self.partitions = cut(data, sizes, shuffled(data, 1))

    def use(self, rank):
        return self.partitions[rank]


class ReadsBeyond(WithShuffle):
    def use(self, rank):
        return Part(self.data, [index + 1 for index in self.partitions[rank]])


class OnlyRank0Cuts(WithShuffle):
    def __init__(self, data, sizes, seed=1234):
        if dist.get_rank() == 0:
            super().__init__(data, sizes, seed)


WRONG: list[tuple[Any, str]] = [
    (TheNotesOwn, "Each rank shuffles differently, so some samples are on several ranks and others on none"),
    (GlobalShuffle, "shuffle with a generator that has the same seed on all ranks"),
    (GlobalRandperm, "shuffle with a generator that has the same seed on all ranks"),
    (GlobalNumpy, "shuffle with a generator that has the same seed on all ranks"),
    (RankInTheSeed, "Each rank shuffles differently, as if its rank were part of the seed"),
    (
        DoesNotShuffle,
        "Your partitioner does not shuffle: the samples are in their original order. Shuffle the indices before "
        "splitting them",
    ),
    (LosesTheShuffle, "Your partitioner does not shuffle"),
    (ReversesTheData, "Your partitioner does not shuffle"),
    (ForgetsTheSeed, "The seed has no effect. Pass it to the generator that shuffles"),
    (OneGeneratorForAll, "The same seed gives different partitions each time"),
    (
        SeedIsNone,
        "Without a seed each rank shuffles differently, so some samples are on several ranks and others on none",
    ),
    (
        DropsTheRemainder,
        "The remainder is lost: 1 of 25 samples is not assigned to any rank. Round the end of each partition "
        "instead of its "
        "length, and let the last one end with the data",
    ),
    (RoundsLengths, "The remainder is lost: 1 of 25 samples is not assigned to any rank"),
    (OverlapsByOne, "Partitions overlap: sample"),
    (LeavesOneOut, "Some samples are in no partition: 2 of 24 samples are not assigned to any rank"),
    (AlwaysTheFront, "use() gives every rank the same samples"),
    (NeglectsTheSizes, "Partition 0 has 30 of 60 samples, but its size is 0.7. Check where it starts and ends"),
    (NeglectsTheRank, "use() gives every rank the same samples. Choose the partition by its argument"),
    (GivesEverything, "use() gives every rank all of the data"),
    (GivesIndices, "use(0)[0] is not a sample of the data. Return data[index], not the index"),
    (GivesATensorOfIndices, "use(0)[0] is not a sample of the data"),
    (GivesALoader, "use(0) returns an object of type DataLoader. Return something with len() and [index]"),
    (GivesAGenerator, "use(0) returns an object of type generator"),
    (ForgetsToReturn, "use(0) returns None. Return that rank's partition"),
    (CountsFromOne, "IndexError"),
    (ItemsFromOne, "IndexError"),
    (ShuffledInside, "It splits first and shuffles afterwards, so each rank gets one contiguous part of the data"),
    (ShufflesTheDataItself, "It shuffles the data itself. Shuffle a list of indices, and leave the data unchanged"),
    (ShufflesAList, "It shuffles the data itself. Shuffle a list of indices, and leave the data unchanged"),
    (
        NeverRefuses,
        "It works for data of 24 samples, but fails for invalid sizes: it accepts sizes that add up to less than "
        "1, [0.25, 0.5]. Raise ValueError for these sizes",
    ),
    (
        RefusesOnlyTooLarge,
        "It works for data of 24 samples, but fails for invalid sizes: it accepts sizes that add up to less than "
        "1, [0.25, 0.5]. Raise ValueError for these sizes",
    ),
    (
        RefusesNothingNegative,
        "It accepts a size below 0, [-0.75, 1.75]. Raise ValueError for these sizes",
    ),
    (
        TakesTooMany,
        "It works for data of 24 samples, but fails for invalid sizes: it accepts more sizes than samples, [0.5, "
        "0.5] for 1 sample. Raise ValueError for these sizes",
    ),
    (Asserts, "It raises AssertionError for sizes that add up to less than 1"),
    (
        ComparesExactly,
        "It works with 2 ranks, but not with 3: it rejects valid sizes, [0.7, 0.2, 0.1], which add up to "
        "0.9999999999999999 because floats are rounded. Compare with math.isclose",
    ),
    (HasNoUse, "HasNoUse has no method use(rank)"),
    (AsksForMore, "The check calls AsksForMore(data, sizes, seed=1234), but the definition is AsksForMore("),
    (ReadsBeyond, "IndexError"),
    (OnlyRank0Cuts, "AttributeError"),
    (None, "It got None instead of a class. Write check.data_partitioner(DataPartitioner)"),
    (ByCumulativeEnds([1.0, 2.0], [1.0]), "It needs the class, not an instance. Write check.data_partitioner("),
    (3, "It needs a class that every rank can call, but got the int 3"),
    (shuffled, "raised"),
]


class RefusesAsManyAsSamples(NeverRefuses):
    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        if len(sizes) >= len(data):
            raise ValueError("too many sizes")
        super().__init__(data, sizes, seed)


class AssertsMoreSamplesThanSizes(NeverRefuses):
    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        assert len(data) > len(sizes)
        super().__init__(data, sizes, seed)


class RefusesASizeOfZero(NeverRefuses):
    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        if any(size <= 0 for size in sizes):
            raise ValueError("a size is not positive")
        super().__init__(data, sizes, seed)


class RefusesAnEmptyPartition(WithShuffle):
    def use(self, rank):
        if not self.partitions[rank]:
            raise ValueError("an empty partition")
        return Part(self.data, self.partitions[rank])


class ShufflesInUse:
    """One generator for all calls of use(), so that each call cuts another order."""

    def __init__(self, data, sizes, seed=1234):
        self.data, self.sizes, self.generator = data, sizes, random.Random(seed)
        check_sizes(data, sizes)

    def use(self, rank):
        indices = list(range(len(self.data)))
        self.generator.shuffle(indices)
        return Part(self.data, cut(self.data, self.sizes, indices)[rank])


class ShufflesTheSameListAgain:
    def __init__(self, data, sizes, seed=1234):
        self.data, self.sizes, self.seed = data, sizes, seed
        self.indices = list(range(len(data)))

    def use(self, rank):
        random.Random(self.seed).shuffle(self.indices)
        return Part(self.data, cut(self.data, self.sizes, self.indices)[rank])


class TakesOutWhatItGives(WithShuffle):
    def use(self, rank):
        mine, self.partitions[rank] = self.partitions[rank], []
        return Part(self.data, mine)


class NotMapped(Part):
    def __getitem__(self, index):
        return self.data[index]


class ForgetsToMapTheIndex(WithShuffle):
    def use(self, rank):
        return NotMapped(self.data, self.partitions[rank])


class MapsOverTheWholeOrder:
    """partition[0] is the first sample of the whole order, on every rank."""

    def __init__(self, data, sizes, seed=1234):
        self.data, self.order, self.partitions = data, shuffled(data, seed), cut(data, sizes, shuffled(data, seed))

    def use(self, rank):
        return [self.data[self.order[place]] for place in range(len(self.partitions[rank]))]


class CutsTheEndsDown:
    """The sum of the sizes is a little less than 1, and so is the last end."""

    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        self.data, indices = data, shuffled(data, seed)
        ends = [0, *(int(end * len(data)) for end in itertools.accumulate(sizes))]
        self.partitions = [indices[begin:end] for begin, end in itertools.pairwise(ends)]

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class SplitsAtRandom:
    """torch's random_split, without a generator."""

    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        self.parts = random_split(data, sizes)

    def use(self, rank):
        return self.parts[rank]


class GenerousRoom(NeverRefuses):
    def __init__(self, data, sizes, seed=1234):
        if min(sizes) < 0 or len(sizes) > len(data) or abs(sum(sizes) - 1) > 0.1:
            raise ValueError("no sizes")
        super().__init__(data, sizes, seed)


class OnlyPrints(NeverRefuses):
    def __init__(self, data, sizes, seed=1234):
        try:
            check_sizes(data, sizes)
        except ValueError as error:
            print(error)
        super().__init__(data, sizes, seed)


class RaisesAnException(NeverRefuses):
    def __init__(self, data, sizes, seed=1234):
        if sum(sizes) > 1.001 or sum(sizes) < 0.999:
            raise Exception("wrong sizes")
        super().__init__(data, sizes, seed)


class GivesTheRestToEveryone:
    """Parts of equal length, and the remainder in each of them."""

    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        self.data, indices, whole = data, shuffled(data, seed), [int(size * len(data)) for size in sizes]
        ends = [0, *itertools.accumulate(whole)]
        self.partitions = [indices[begin:end] + indices[ends[-1] :] for begin, end in itertools.pairwise(ends)]

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class WithReplacement(WithShuffle):
    def order(self, data, seed):
        return random.Random(seed).choices(range(len(data)), k=len(data))


WRONG += [
    (
        RefusesAsManyAsSamples,
        "It works for data of 24 samples, but fails for one sample per partition: it rejects as many sizes as "
        "samples, [0.5, 0.5] for 2 samples. That is one sample each",
    ),
    (
        AssertsMoreSamplesThanSizes,
        "It works for data of 24 samples, but fails for one sample per partition: it rejects as many sizes as "
        "samples, [0.5, 0.5] for 2 samples. That is one sample each",
    ),
    (
        RefusesASizeOfZero,
        "It works for data of 24 samples, but fails for a partition of size 0: it rejects a size of 0, [0, 1]. "
        "Reject only sizes below 0: a partition may be empty",
    ),
    (
        RefusesAnEmptyPartition,
        "It works for data of 24 samples, but fails for a partition of size 0: it rejects a size of 0, [0, 1]. "
        "Reject only sizes below 0: a partition may be empty",
    ),
    (ShufflesInUse, "use(0) returns different samples when called again"),
    (ShufflesTheSameListAgain, "use(0) returns different samples when called again"),
    (TakesOutWhatItGives, "use(0) returns different samples when called again"),
    (
        ForgetsToMapTheIndex,
        "Every partition holds the first samples of the data in order. Let partition[i] return data[indices[i]], "
        "not data[i]",
    ),
    (MapsOverTheWholeOrder, "use() gives every rank the same samples"),
    (CutsTheEndsDown, "let the last one end with the data"),
    (SplitsAtRandom, "shuffle with a generator that has the same seed on all ranks"),
    (
        GenerousRoom,
        "It works for data of 24 samples, but fails for invalid sizes: it accepts sizes that add up to less than "
        "1, [0.45, 0.5]. Raise ValueError for these sizes",
    ),
    (
        OnlyPrints,
        "It works for data of 24 samples, but fails for invalid sizes: it accepts sizes that add up to less than "
        "1, [0.25, 0.5]. Raise ValueError for these sizes",
    ),
    (RaisesAnException, "It raises Exception for sizes that add up to less than 1"),
    (GivesTheRestToEveryone, "Partitions overlap"),
    (WithReplacement, "Shuffle all indices with torch.randperm, instead of drawing each index at random"),
]


# hanging


class BroadcastOnlyOnRank0:
    def __init__(self, data, sizes, seed=1234):
        check_sizes(data, sizes)
        box = [cut(data, sizes, shuffled(data, seed))]
        if dist.get_rank() == 0:
            dist.broadcast_object_list(box, src=0)
        self.data, self.partitions = data, box[0]

    def use(self, rank):
        return Part(self.data, self.partitions[rank])


class NeverEnds(WithShuffle):
    def order(self, data, seed):
        indices: list[int] = []
        while len(indices) < len(data):
            pass
        return indices


HANGING: list[tuple[Any, str]] = [
    (BroadcastOnlyOnRank0, "Not every rank calls broadcast"),
    (NeverEnds, "It does not return: rank 0"),
]


# not written yet


class Dots:
    def __init__(self, data, sizes, seed=1234): ...

    def use(self, rank): ...


class DotsInOne:
    def __init__(self, data, sizes, seed=1234):
        self.data = data
        self.partitions: list[Any] = []
        # your code

    def use(self, rank):
        """Return the partition of one rank."""
        # your code


class DotsInTheOther:
    def __init__(self, data, sizes, seed=1234):
        """Cut shuffled data."""
        # your code

    def use(self, rank):
        return Part(self.data, self.partitions[rank])  # type: ignore[attr-defined]


class NotImplementedYet:
    def __init__(self, data, sizes, seed=1234):
        self.data = data

    def use(self, rank):
        raise NotImplementedError


class Empty:
    """Cut shuffled data."""


STUBS: list[Any] = [Dots, Empty]
HALF: list[tuple[Any, str]] = [(DotsInOne, "use"), (DotsInTheOther, "__init__"), (NotImplementedYet, "use")]


class PartsOfTheClass:
    parts: list = []  # noqa: RUF012

    def __init__(self, data, sizes, seed=1234):
        self.data = data
        check_sizes(data, sizes)
        order = list(range(len(data)))
        random.Random(seed).shuffle(order)
        ends = [round(end * len(data)) for end in itertools.accumulate(sizes)]
        for start, end in zip([0, *ends], [*ends[:-1], len(data)], strict=False):
            self.parts.append(order[start:end])

    def use(self, rank):
        return Part(self.data, self.parts[rank])


WRONG += [(PartsOfTheClass, "A second DataPartitioner still returns the samples of the first")]
