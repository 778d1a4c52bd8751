import time
from random import Random

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


import itertools
import math
from fractions import Fraction


class Partition(Dataset):
    def __init__(self, data, indices):
        self.data, self.indices = data, indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, index):
        return self.data[self.indices[index]]


def look_at(data, sizes):
    if min(sizes) < 0 or abs(sum(sizes) - 1) > 1e-6 or len(sizes) > len(data):
        raise ValueError(f"cannot cut {len(data)} samples into {sizes}")


class EndsAreRounded:
    def __init__(self, data, sizes, seed=1234):
        if any(s < 0 for s in sizes):
            raise ValueError("a size is below 0")
        if not math.isclose(sum(sizes), 1, abs_tol=1e-6):
            raise ValueError("sizes do not add up to 1")
        if len(sizes) > len(data):
            raise ValueError("more partitions than samples")
        self.data, order = data, list(range(len(data)))
        Random(seed).shuffle(order)
        ends = [0] + [round(e * len(data)) for e in itertools.accumulate(sizes)]
        ends[-1] = len(data)
        self.parts = [order[a:b] for a, b in zip(ends, ends[1:])]

    def use(self, rank):
        return Partition(self.data, self.parts[rank])
right(EndsAreRounded, "ends rounded, the last one ends with the data")


class LastTakesTheRest:
    def __init__(self, data, sizes, seed=1234):
        look_at(data, sizes)
        self.data, self.parts = data, []
        order = list(range(len(data)))
        Random(seed).shuffle(order)
        for size in sizes[:-1]:
            length = int(size * len(data))
            self.parts.append(order[:length])
            order = order[length:]
        self.parts.append(order)

    def use(self, rank):
        return Partition(self.data, self.parts[rank])
right(LastTakesTheRest, "lengths cut off, the last partition takes the rest (any rule of rounding will do)")


class CutsWhenAsked:
    def __init__(self, data, sizes, seed=1234):
        look_at(data, sizes)
        self.data, self.sizes, self.seed = data, list(sizes), seed

    def use(self, rank):
        n = len(self.data)
        order = Random(self.seed).sample(range(n), n)
        a = round(n * sum(self.sizes[:rank]))
        b = n if rank == len(self.sizes) - 1 else round(n * sum(self.sizes[: rank + 1]))
        return Partition(self.data, order[a:b])
right(CutsWhenAsked, "everything in use(), Random.sample for the shuffle")


class LargestRemainder:
    def __init__(self, data, sizes, seed=1234):
        look_at(data, sizes)
        n = len(data)
        exact = [size * n for size in sizes]
        lengths = [math.floor(e) for e in exact]
        by_rest = sorted(range(len(sizes)), key=lambda i: lengths[i] - exact[i])
        for i in itertools.islice(itertools.cycle(by_rest), max(0, n - sum(lengths))):
            lengths[i] += 1
        order = list(range(n))
        Random(seed).shuffle(order)
        self.data, it = data, iter(order)
        self.parts = [list(itertools.islice(it, length)) for length in lengths]

    def use(self, rank):
        return Partition(self.data, self.parts[rank])
right(LargestRemainder, "the largest remainders get one more, dealt from an iterator")


class WithFractions:
    def __init__(self, data, sizes, seed=1234):
        look_at(data, sizes)
        sizes = [Fraction(s).limit_denominator(10**6) for s in sizes]
        total, n = sum(sizes), len(data)
        order = list(range(n))
        Random(seed).shuffle(order)
        self.data, self.parts, done = data, [], Fraction(0)
        for s in sizes:
            self.parts.append(order[math.floor(done / total * n) : math.floor((done + s) / total * n)])
            done += s

    def use(self, rank):
        return Partition(self.data, self.parts[rank])
right(WithFractions, "exact fractions, so the last end is exactly the end")


class CutOffEnds:
    """Rounds down where a partition ends."""

    def __init__(self, data, sizes, seed=1234):
        look_at(data, sizes)
        self.data, self.order = data, list(range(len(data)))
        Random(seed).shuffle(self.order)
        self.ends = [int(sum(sizes[: i + 1]) * len(data) + 1e-9) for i in range(len(sizes) - 1)] + [len(data)]

    def use(self, rank):
        return Partition(self.data, self.order[self.ends[rank - 1] if rank else 0 : self.ends[rank]])
right(CutOffEnds, "ends rounded down, slices made in use()")


class LosesTheRemainder:
    def __init__(self, data, sizes, seed=1234):
        look_at(data, sizes)
        self.data, self.parts, order = data, [], list(range(len(data)))
        Random(seed).shuffle(order)
        for size in sizes:
            length = int(size * len(data))
            self.parts.append(order[:length])
            order = order[length:]

    def use(self, rank):
        return Partition(self.data, self.parts[rank])
wrong(LosesTheRemainder, "int(size * length) for every partition: samples lost", "remainder, lost, nobody")


class RoundsLengths(LosesTheRemainder):
    def __init__(self, data, sizes, seed=1234):
        look_at(data, sizes)
        self.data, self.parts, order = data, [], list(range(len(data)))
        Random(seed).shuffle(order)
        for size in sizes:
            length = round(size * len(data))
            self.parts.append(order[:length])
            order = order[length:]
wrong(RoundsLengths, "rounds how long, not where it ends: 12.5 twice is 24 of 25", "rounding, lost, ends")


class ForgetsTheSeed(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        super().__init__(data, sizes, seed=None)
wrong(ForgetsTheSeed, "Random(None): every rank shuffles otherwise", "seed, every rank another order")


class SeedIsAlwaysTheSame(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        super().__init__(data, sizes, 1234)
wrong(SeedIsAlwaysTheSame, "ignores the seed that it is given", "seed, argument")


class SeedFromRank(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        super().__init__(data, sizes, seed + dist.get_rank())
wrong(SeedFromRank, "seed plus rank: each cuts a cake of its own", "same seed on all ranks, rank")


class NotShuffled:
    def __init__(self, data, sizes, seed=1234):
        look_at(data, sizes)
        self.data = data
        self.ends = [0] + [round(e * len(data)) for e in itertools.accumulate(sizes)]
        self.ends[-1] = len(data)

    def use(self, rank):
        return Partition(self.data, range(self.ends[rank], self.ends[rank + 1]))
wrong(NotShuffled, "does not shuffle", "shuffle, in order")


class SumMustBeExact(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        if sum(sizes) != 1:
            raise ValueError("must be 1")
        super().__init__(data, sizes, seed)
wrong(SumMustBeExact, "refuses ten times 0.1", "0.1, little room, tolerance")


class NeverComplains(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        self.data, order = data, list(range(len(data)))
        Random(seed).shuffle(order)
        ends = [0] + [round(e * len(data)) for e in itertools.accumulate(sizes)]
        ends[-1] = len(data)
        self.parts = [order[a:b] for a, b in zip(ends, ends[1:])]
wrong(NeverComplains, "no ValueError for anything", "ValueError, negative, add up")


class AssertsInstead(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        assert min(sizes) >= 0 and abs(sum(sizes) - 1) < 1e-6 and len(sizes) <= len(data)
        super().__init__(data, sizes, seed)
wrong(AssertsInstead, "AssertionError instead of ValueError", "ValueError, AssertionError")


class AllowsNegative(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        if abs(sum(sizes) - 1) > 1e-6 or len(sizes) > len(data):
            raise ValueError("no")
        NeverComplains.__init__(self, data, sizes, seed)
wrong(AllowsNegative, "1.5 and -0.5 add up to 1 and get through", "negative, below 0, ValueError")


class OnlyTooMuchIsRefused(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        if min(sizes) < 0 or sum(sizes) > 1 + 1e-6 or len(sizes) > len(data):
            raise ValueError("no")
        NeverComplains.__init__(self, data, sizes, seed)
wrong(OnlyTooMuchIsRefused, "sizes that add up to less than 1 get through", "add up to 1, less, ValueError")


class MorePartitionsThanSamples(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        if min(sizes) < 0 or abs(sum(sizes) - 1) > 1e-6:
            raise ValueError("no")
        NeverComplains.__init__(self, data, sizes, seed)
wrong(MorePartitionsThanSamples, "more partitions than samples get through", "more partitions than samples, ValueError")


class RefusesAsManyPartitionsAsSamples(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        if len(sizes) >= len(data):
            raise ValueError("too many partitions")
        super().__init__(data, sizes, seed)
wrong(RefusesAsManyPartitionsAsSamples, ">= for >: as many partitions as samples are legal", "as many, >=, refused")


class EqualPartsWhateverTheSizes(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        super().__init__(data, sizes, seed)
        order = list(range(len(data)))
        Random(seed).shuffle(order)
        self.parts = [order[r :: len(sizes)] for r in range(len(sizes))]
wrong(EqualPartsWhateverTheSizes, "deals out like cards, sizes ignored", "sizes, equal parts")


class ShufflesAtEachUse(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        super().__init__(data, sizes, seed)
        self.random, self.lengths = Random(seed), [len(p) for p in self.parts]

    def use(self, rank):
        order = list(range(len(self.data)))
        self.random.shuffle(order)
        a = sum(self.lengths[:rank])
        return Partition(self.data, order[a : a + self.lengths[rank]])
wrong(ShufflesAtEachUse, "use() shuffles anew: two partitions overlap, the same one asked twice differs", "overlap, shuffle once, use")


class GivesIndices(EndsAreRounded):
    def use(self, rank):
        return self.parts[rank]
wrong(GivesIndices, "use() gives the indices, not the samples", "Partition, samples, indices")


class EndsOverlapByOne(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        super().__init__(data, sizes, seed)
        for left, after in zip(self.parts, self.parts[1:]):
            left.extend(after[:1])
wrong(EndsOverlapByOne, "the end is taken as included", "twice, off by one")


class LastEndFromFloats(EndsAreRounded):
    def __init__(self, data, sizes, seed=1234):
        look_at(data, sizes)
        self.data, order = data, list(range(len(data)))
        Random(seed).shuffle(order)
        ends = [0] + [int(e * len(data)) for e in itertools.accumulate(sizes)]
        self.parts = [order[a:b] for a, b in zip(ends, ends[1:])]
wrong(LastEndFromFloats, "ten times 0.1 end at 0.99999, the last sample is lost", "last sample, lost, end with the data")


class SharedList:
    parts = []

    def __init__(self, data, sizes, seed=1234):
        look_at(data, sizes)
        self.data, order = data, list(range(len(data)))
        Random(seed).shuffle(order)
        ends = [0] + [round(e * len(data)) for e in itertools.accumulate(sizes)]
        ends[-1] = len(data)
        for a, b in zip(ends, ends[1:]):
            self.parts.append(order[a:b])

    def use(self, rank):
        return Partition(self.data, self.parts[rank])
wrong(SharedList, "the list belongs to the class: a second partitioner has the first one's parts", "class, second, self")
