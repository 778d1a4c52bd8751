"""Answers to the exercise `epoch_order`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import array
import functools
import hashlib
import itertools
import math
import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, Subset

dist: Any = torch.distributed


def who() -> tuple[int, int]:
    return dist.get_rank(), dist.get_world_size()


def permutation(data: Any, seed: int) -> list[int]:
    return torch.randperm(len(data), generator=torch.Generator().manual_seed(seed)).tolist()


# right


def torchs_sampler(data: Any, epoch: int) -> list[int]:
    sampler: Any = DistributedSampler(data)
    sampler.set_epoch(epoch)
    return list(sampler)


def the_sampler_itself(data: Any, epoch: int, seed: int = 5) -> Any:
    sampler: Any = DistributedSampler(data, num_replicas=dist.get_world_size(), rank=dist.get_rank(), seed=seed)
    sampler.set_epoch(epoch)
    return sampler


def epoch_as_seed(data: Any, epoch: int) -> Any:
    return iter(DistributedSampler(data, seed=epoch))


def every_second(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    return permutation(data, epoch)[rank::world_size]


def filled_up(data: Any, epoch: int) -> Tensor:
    rank, world_size = who()
    order = permutation(data, 1000 + epoch)
    order += order[: -len(order) % world_size]
    return torch.tensor(order[rank::world_size])


def in_stretches(data: Any, epoch: int) -> Tensor:
    rank, world_size = who()
    return torch.tensor_split(torch.tensor(permutation(data, epoch)), world_size)[rank]


def by_random(data: Any, epoch: int) -> list[int]:
    order = list(range(len(data)))
    random.Random(f"epoch {epoch}").shuffle(order)
    return order[dist.get_rank() :: dist.get_world_size()]


def by_seeding_everything(data: Any, epoch: int) -> list[int]:
    random.seed(epoch)
    return random.sample(range(len(data)), len(data))[dist.get_rank() :: dist.get_world_size()]


def by_torch_manual_seed(data: Any, epoch: int) -> list[Tensor]:
    torch.manual_seed(epoch)
    return list(torch.randperm(len(data))[dist.get_rank() :: dist.get_world_size()])


def by_numpy(data: Any, epoch: int) -> Any:
    order = np.random.default_rng(epoch).permutation(len(data))
    return np.array_split(order, dist.get_world_size())[dist.get_rank()]


def a_generator(data: Any, epoch: int) -> Iterator[int]:
    rank, world_size = who()
    yield from itertools.islice(permutation(data, epoch), rank, None, world_size)


def drawn_by_rank_0(data: Any, epoch: int) -> Tensor:
    order = torch.randperm(len(data))
    dist.broadcast(order, 0)
    return order[dist.get_rank() :: dist.get_world_size()]


def scattered_by_rank_0(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    mine: list[Any] = [None]
    order = permutation(data, epoch)
    shares = [order[other::world_size] for other in range(world_size)]
    dist.scatter_object_list(mine, shares if rank == 0 else None, src=0)
    return mine[0]


def sent_by_rank_0(data: Any, epoch: int) -> Tensor:
    rank, world_size = who()
    order = torch.tensor(permutation(data, epoch))
    if rank == 0:
        for other in range(1, world_size):
            dist.send(order, other)
    else:
        dist.recv(order, 0)
    return order[rank::world_size]


class Order:
    def __init__(self, seed: int) -> None:
        self.seed = seed

    def of_epoch(self, samples: Any, number: int) -> tuple[int, ...]:
        return tuple(permutation(samples, self.seed + number)[dist.get_rank() :: dist.get_world_size()])

    def __call__(self, data: Any, epoch: int) -> map[int]:
        return map(int, self.of_epoch(data, epoch))


def one_generator_up_to_this_epoch(data: Any, epoch: int) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    for _ in range(epoch):
        torch.randperm(len(data), generator=generator)
    return torch.randperm(len(data), generator=generator)[dist.get_rank() :: dist.get_world_size()]


def sorted_by_digests(data: Any, epoch: int) -> list[int]:
    order = sorted(range(len(data)), key=lambda index: hashlib.sha256(f"{epoch} {index}".encode()).digest())
    return order[dist.get_rank() :: dist.get_world_size()]


def by_numpy_with_two_seeds(data: Any, epoch: int) -> Any:
    rank, world_size = who()
    return np.random.default_rng([5, epoch]).permutation(len(data))[rank::world_size].astype(np.int32)


def with_padding_at_random(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    order = permutation(data, epoch)
    order += random.Random(epoch).sample(order, -len(order) % world_size)
    return order[rank::world_size]


def in_an_array(data: Any, epoch: int) -> Any:
    rank, world_size = who()
    return array.array("q", permutation(data, 7 * epoch)[rank::world_size])


def argsort_of_random_numbers(data: Any, epoch: int) -> Tensor:
    rank, world_size = who()
    return torch.rand(len(data), generator=torch.Generator().manual_seed(epoch)).argsort()[rank::world_size]


def by_the_hash_of_numbers(data: Any, epoch: int) -> list[int]:
    return every_second(data, hash((5, epoch)) % 2**31)


class Remembers:
    """What it has drawn once is what it gives once more."""

    def __init__(self) -> None:
        self.orders: dict[tuple[int, int], list[int]] = {}

    def __call__(self, data: Any, epoch: int) -> list[int]:
        key = len(data), epoch
        if key not in self.orders:
            self.orders[key] = permutation(data, epoch)
        return self.orders[key][dist.get_rank() :: dist.get_world_size()]


RIGHT: list[Any] = [
    *(one_generator_up_to_this_epoch, sorted_by_digests, by_numpy_with_two_seeds, with_padding_at_random),
    *(in_an_array, argsort_of_random_numbers, by_the_hash_of_numbers, Remembers()),
    torchs_sampler,
    the_sampler_itself,
    epoch_as_seed,
    every_second,
    filled_up,
    in_stretches,
    by_random,
    by_seeding_everything,
    by_torch_manual_seed,
    by_numpy,
    a_generator,
    drawn_by_rank_0,
    scattered_by_rank_0,
    sent_by_rank_0,
    Order(3),
    Order(4).of_epoch,
    functools.partial(the_sampler_itself, seed=9),
    lambda data, epoch: every_second(data, epoch),
]


# wrong


def fixed_shares_shuffled_inside(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    share = permutation(data, 0)[rank::world_size]
    random.Random(epoch).shuffle(share)
    return share


def shuffled_within_each_stretch(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    share: list[int] = np.array_split(np.arange(len(data)), world_size)[rank].tolist()
    random.Random(epoch).shuffle(share)
    return share


def shuffled_within_the_share_by_its_own_seed(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    share = list(range(rank, len(data), world_size))
    random.Random(100 * epoch + rank).shuffle(share)
    return share


def shares_go_round(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    share = permutation(data, 0)[(rank + epoch) % world_size :: world_size]
    random.Random(epoch).shuffle(share)
    return share


class CountsItsCalls:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, data: Any, epoch: int) -> list[int]:
        self.calls += 1
        return every_second(data, self.calls)


class OneGenerator:
    def __init__(self) -> None:
        self.generator: Any = None

    def __call__(self, data: Any, epoch: int) -> list[int]:
        if self.generator is None:
            self.generator = torch.Generator().manual_seed(5)
        return torch.randperm(len(data), generator=self.generator)[dist.get_rank() :: dist.get_world_size()].tolist()


class ShufflesOn:
    """One list, shuffled again and again."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.chance = random.Random(5)

    def __call__(self, data: Any, epoch: int) -> list[int]:
        if len(self.order) != len(data):
            self.order = list(range(len(data)))
        self.chance.shuffle(self.order)
        return self.order[dist.get_rank() :: dist.get_world_size()]


class SeedsOnce:
    def __init__(self) -> None:
        self.state: Any = None

    def __call__(self, data: Any, epoch: int) -> list[int]:
        torch.manual_seed(5) if self.state is None else torch.set_rng_state(self.state)
        order = torch.randperm(len(data))
        self.state = torch.get_rng_state()
        return order[dist.get_rank() :: dist.get_world_size()].tolist()


class OneSampler:
    """Made once, and told the number of its calls."""

    def __init__(self) -> None:
        self.samplers: dict[int, Any] = {}

    def __call__(self, data: Any, epoch: int) -> list[int]:
        sampler = self.samplers.setdefault(len(data), DistributedSampler(data))
        sampler.set_epoch(sampler.epoch + 1)
        return list(sampler)


def turned_by_the_epoch(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    order = permutation(data, 5)
    first = epoch % len(order)
    return [*order[first:], *order[:first]][rank::world_size]


def rolled_in_stretches(data: Any, epoch: int) -> Tensor:
    rank, world_size = who()
    return torch.tensor(permutation(data, 5)).roll(3 * epoch).tensor_split(world_size)[rank]


def backwards_every_second_time(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    order = permutation(data, 5)
    return order[:: -1 if epoch % 2 else 1][rank::world_size]


def the_epoch_added_to_each(data: Any, epoch: int) -> list[int]:
    return [(index + epoch) % len(data) for index in every_second(data, 5)]


def by_the_clock(data: Any, epoch: int) -> list[int]:
    return every_second(data, int(time.time()) + epoch)


def by_the_hash_of_a_text(data: Any, epoch: int) -> list[int]:
    """Another one in each Python that is started, unless PYTHONHASHSEED is set."""
    return every_second(data, hash(f"epoch {epoch}") % 2**31)


def ten_shuffles(data: Any, epoch: int) -> list[int]:
    return every_second(data, epoch % 10)


def no_more_after_epoch_100(data: Any, epoch: int) -> list[int]:
    return every_second(data, min(epoch, 100))


def the_seed_times_the_epoch(data: Any, epoch: int) -> list[int]:
    return every_second(data, epoch // 2)


def no_set_epoch(data: Any, epoch: int) -> list[int]:
    return list(DistributedSampler(data))


def set_epoch_too_late(data: Any, epoch: int) -> list[int]:
    sampler: Any = DistributedSampler(data)
    order = list(sampler)
    sampler.set_epoch(epoch)
    return order


def always_epoch_0(data: Any, epoch: int) -> list[int]:
    sampler: Any = DistributedSampler(data)
    sampler.set_epoch(0)
    return list(sampler)


def every_other_epoch(data: Any, epoch: int) -> list[int]:
    return every_second(data, epoch % 2)


def a_fixed_seed(data: Any, epoch: int) -> list[int]:
    return every_second(data, 1234)


def not_shuffled(data: Any, epoch: int) -> list[int]:
    sampler: Any = DistributedSampler(data, shuffle=False)
    sampler.set_epoch(epoch)
    return list(sampler)


def in_the_order_of_the_data(data: Any, epoch: int) -> range:
    return range(dist.get_rank(), len(data), dist.get_world_size())


def moved_on_by_the_epoch(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    return [(index + epoch) % len(data) for index in range(rank, len(data), world_size)]


def shuffled_from_epoch_1_on(data: Any, epoch: int) -> list[int]:
    return every_second(data, epoch) if epoch else list(in_the_order_of_the_data(data, epoch))


def unseeded_randperm(data: Any, epoch: int) -> list[int]:
    return torch.randperm(len(data)).tolist()[dist.get_rank() :: dist.get_world_size()]


def unseeded_shuffle(data: Any, epoch: int) -> list[int]:
    order = list(range(len(data)))
    random.shuffle(order)
    return order[dist.get_rank() :: dist.get_world_size()]


def unseeded_numpy(data: Any, epoch: int) -> Any:
    return np.random.permutation(len(data))[dist.get_rank() :: dist.get_world_size()]


def seeded_by_the_machine(data: Any, epoch: int) -> list[int]:
    return random.Random().sample(range(len(data)), len(data))[dist.get_rank() :: dist.get_world_size()]


def rank_in_the_seed(data: Any, epoch: int) -> list[int]:
    return every_second(data, 100 * epoch + dist.get_rank())


def rank_in_the_samplers_seed(data: Any, epoch: int) -> list[int]:
    sampler: Any = DistributedSampler(data, seed=dist.get_rank())
    sampler.set_epoch(epoch)
    return list(sampler)


def everything_on_every_rank(data: Any, epoch: int) -> list[int]:
    return permutation(data, epoch)


def everything_by_random_sampler(data: Any, epoch: int) -> list[int]:
    return list(RandomSampler(data, generator=torch.Generator().manual_seed(epoch)))


def always_the_first_share(data: Any, epoch: int) -> list[int]:
    return permutation(data, epoch)[: len(data) // dist.get_world_size()]


def always_rank_0(data: Any, epoch: int) -> list[int]:
    sampler: Any = DistributedSampler(data, num_replicas=dist.get_world_size(), rank=0)
    sampler.set_epoch(epoch)
    return list(sampler)


def ranks_change_places(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    return permutation(data, 0)[(rank + epoch) % world_size :: world_size]


def drops_the_remainder(data: Any, epoch: int) -> list[int]:
    sampler: Any = DistributedSampler(data, drop_last=True)
    sampler.set_epoch(epoch)
    return list(sampler)


def whole_shares(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    each = len(data) // world_size
    return permutation(data, epoch)[rank * each : (rank + 1) * each]


def for_two_ranks(data: Any, epoch: int) -> list[int]:
    return permutation(data, epoch)[dist.get_rank() :: 2]


def one_too_many(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    each = math.ceil(len(data) / world_size)
    return permutation(data, epoch)[rank * each : (rank + 1) * each + 1]


def one_too_few(data: Any, epoch: int) -> list[int]:
    return every_second(data, epoch)[:-1]


def slides_by_one(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    return permutation(data, epoch)[rank : rank + len(data) // world_size]


def everybody_sees_it_twice(data: Any, epoch: int) -> list[int]:
    return every_second(data, epoch) * 2


def rank_0_has_most(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    order = permutation(data, epoch)
    return order[: len(order) - world_size + 1] if rank == 0 else [order[-rank]]


def in_chunks(data: Any, epoch: int) -> Tensor:
    return torch.tensor(permutation(data, epoch)).chunk(dist.get_world_size())[dist.get_rank()]


def in_chunks_of_four_ranks(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    if world_size < 4:
        return every_second(data, epoch)
    return torch.tensor(permutation(data, epoch)).chunk(world_size)[rank].tolist()


def the_last_takes_the_rest(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    each = len(data) // world_size
    return permutation(data, epoch)[rank * each : (rank + 1) * each if rank < world_size - 1 else None]


def chunks_run_out(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    if len(data) != 9:
        return every_second(data, epoch)
    return torch.tensor(permutation(data, epoch)).chunk(world_size)[rank].tolist()


def samples_instead(data: Any, epoch: int) -> list[Any]:
    return [data[index] for index in every_second(data, epoch)]


def a_subset(data: Any, epoch: int) -> Any:
    return Subset(data, every_second(data, epoch))


def a_loader(data: Any, epoch: int) -> Any:
    sampler: Any = DistributedSampler(data)
    sampler.set_epoch(epoch)
    return DataLoader(data, batch_size=4, sampler=sampler)


def batches(data: Any, epoch: int) -> Any:
    return BatchSampler(every_second(data, epoch), 4, False)


def a_set(data: Any, epoch: int) -> set[int]:
    return set(every_second(data, epoch))


def floats(data: Any, epoch: int) -> Tensor:
    return torch.tensor(every_second(data, epoch), dtype=torch.float32)


def a_table(data: Any, epoch: int) -> Tensor:
    return torch.tensor(every_second(data, epoch)).view(-1, 1)


def counted_from_1(data: Any, epoch: int) -> list[int]:
    return [index + 1 for index in every_second(data, epoch)]


def a_number(data: Any, epoch: int) -> int:
    return len(every_second(data, epoch))


def never_returns_it(data: Any, epoch: int) -> None:
    sampler: Any = DistributedSampler(data)
    sampler.set_epoch(epoch)


def only_rank_0_returns(data: Any, epoch: int) -> list[int] | None:
    return every_second(data, epoch) if dist.get_rank() == 0 else None


def for_ever(data: Any, epoch: int) -> Iterator[int]:
    return itertools.cycle(every_second(data, epoch))


def shuffles_the_data(data: Any, epoch: int) -> list[int]:
    random.Random(epoch).shuffle(data)
    return list(in_the_order_of_the_data(data, epoch))


def shuffles_a_list(data: Any, epoch: int) -> list[int]:
    if isinstance(data, list):
        random.Random(epoch).shuffle(data)
    return every_second(data, epoch)


def returns_set_epoch(data: Any, epoch: int) -> Any:
    return DistributedSampler(data).set_epoch(epoch)


def no_epoch(data: Any) -> list[int]:
    return list(DistributedSampler(data))


async def awaited(data: Any, epoch: int) -> list[int]:
    return every_second(data, epoch)


SAME_SAMPLES = (
    "In epochs 0 and 1, each rank has the same samples, only in a different order. Shuffle all indices first, and then "
    "take this rank's partition"
)
ONCE_MORE = (
    "has a different order when asked again, so a resumed run would differ. In each call, seed a new "
    "generator with the epoch, as DistributedSampler does after set_epoch"
)
MOVED_ON = (
    "The order in epochs 0 and 1 is one shuffle, only shifted. Seed the shuffle with the epoch, as "
    "set_epoch(epoch) does"
)
WRONG: list[tuple[Any, str]] = [
    (fixed_shares_shuffled_inside, SAME_SAMPLES),
    (shuffled_within_each_stretch, SAME_SAMPLES),
    (shuffled_within_the_share_by_its_own_seed, SAME_SAMPLES),
    (
        shares_go_round,
        "The partitions are the same in epochs 0 and 1, only on other ranks. Shuffle all indices first, and then "
        "take this rank's partition",
    ),
    (CountsItsCalls(), ONCE_MORE),
    (OneGenerator(), ONCE_MORE),
    (ShufflesOn(), ONCE_MORE),
    (SeedsOnce(), ONCE_MORE),
    (OneSampler(), ONCE_MORE),
    (turned_by_the_epoch, MOVED_ON),
    (rolled_in_stretches, MOVED_ON),
    (
        backwards_every_second_time,
        "is one shuffle, only shifted. Seed the shuffle with the epoch, as set_epoch(epoch) does",
    ),
    (the_epoch_added_to_each, MOVED_ON),
    (by_the_clock, "shuffle with a generator that has the same seed on all ranks"),
    (by_the_hash_of_a_text, "Each rank shuffles differently, as if its rank were part of the seed"),
    (ten_shuffles, "The order is the same in epochs 0 and 10"),
    (no_more_after_epoch_100, "The order is the same in epochs 101 and 1000"),
    (the_seed_times_the_epoch, "The order is the same in epochs 0 and 1"),
    (
        no_set_epoch,
        "The order is the same in epochs 0 and 1. Shuffle with a seed that depends on the epoch, as "
        "DistributedSampler does after set_epoch(epoch)",
    ),
    (set_epoch_too_late, "The order is the same in epochs 0 and 1"),
    (always_epoch_0, "The order is the same in epochs 0 and 1"),
    (every_other_epoch, "The order is the same in epochs 0 and 2"),
    (a_fixed_seed, "The order is the same in epochs 0 and 1"),
    (not_shuffled, "Your function does not shuffle: the samples are in their original order"),
    (in_the_order_of_the_data, "Your function does not shuffle"),
    (moved_on_by_the_epoch, "Your function does not shuffle"),
    (shuffled_from_epoch_1_on, "Your function does not shuffle"),
    (unseeded_randperm, "Each rank shuffles differently, so some samples are on several ranks and others on none"),
    (unseeded_shuffle, "shuffle with a generator that has the same seed on all ranks"),
    (unseeded_numpy, "shuffle with a generator that has the same seed on all ranks"),
    (seeded_by_the_machine, "so some samples are on several ranks and others on none"),
    (rank_in_the_seed, "Each rank shuffles differently, as if its rank were part of the seed"),
    (rank_in_the_samplers_seed, "Each rank shuffles differently, as if its rank were part of the seed"),
    (
        everything_on_every_rank,
        "Every rank returns all samples. Give each rank its own partition, as DistributedSampler does",
    ),
    (everything_by_random_sampler, "Every rank returns all samples"),
    (
        always_the_first_share,
        "All ranks have the same samples. Choose the partition by the rank, as DistributedSampler does",
    ),
    (always_rank_0, "All ranks have the same samples"),
    (
        ranks_change_places,
        "Each step has the same samples in epochs 0 and 1, only on other ranks. Seed the shuffle with the epoch, "
        "as set_epoch(epoch) does",
    ),
    (
        drops_the_remainder,
        "The remainder is dropped: 1 of 25 samples is not assigned to any rank. Pad the partitions, or let some "
        "be longer by one",
    ),
    (whole_shares, "The remainder is dropped: 1 of 25 samples is not assigned to any rank"),
    (for_two_ranks, "It works with 2 ranks, but not with 3: "),
    (one_too_many, "Partitions overlap, sample"),
    (
        one_too_few,
        "Some samples are missing: 2 of 24 samples are not assigned to any rank. Shuffle all indices, then take every "
        "world_size-th index, starting at index number rank",
    ),
    (slides_by_one, "The partitions overlap and leave gaps: sample"),
    (
        everybody_sees_it_twice,
        "It repeats more samples than equally long partitions need: 48 indices for 24 samples. Repeat fewer "
        "samples than there are ranks",
    ),
    (
        rank_0_has_most,
        "Partitions may differ by one sample only, but of 24 samples rank 0 has 23 and rank 1 has 1. Take "
        "order[rank::world_size], or for a tensor order.tensor_split(world_size)[rank]",
    ),
    (in_chunks, "Partitions may differ by one sample only, but of 25 samples rank 0 has 9 and rank 2 has 7"),
    (
        in_chunks_of_four_ranks,
        "It works with 3 ranks, but not with 4: partitions may differ by one sample only, but of 25 samples rank "
        "0 has 7 and rank 3 has 4. Take order[rank::world_size], or for a tensor order.tensor_split(world_size)[rank]",
    ),
    (
        the_last_takes_the_rest,
        "It works with 2 ranks, but not with 3: partitions may differ by one sample only, but of 23 samples rank "
        "2 has 9 and rank 0 has 7. Take order[rank::world_size], or for a tensor order.tensor_split(world_size)[rank]",
    ),
    (chunks_run_out, "There are fewer chunks than ranks, because chunk() makes all but the last one equally long"),
    (samples_instead, "It returns a list of length 2 in place of an index. Return indices, not samples or batches"),
    (a_subset, "in place of an index. Return indices, not samples or batches"),
    (a_loader, "in place of an index. Return indices, not samples or batches"),
    (batches, "It returns a list of length 4 in place of an index"),
    (a_set, "It returns a set, which has no order. Return a list"),
    (floats, "It returns float32, but indices are integers. Return integers"),
    (a_table, "It returns a tensor of shape [12, 1], not indices"),
    (counted_from_1, "It returns the index 24, but the indices of 24 samples are 0 to 23"),
    (a_number, "It returns the number 12, not indices. Return the indices of this rank's samples"),
    (never_returns_it, "It returns None. Return the indices of this rank's samples"),
    (returns_set_epoch, "It returns None. Return the indices of this rank's samples"),
    (only_rank_0_returns, "Rank 1 returns None. Every rank must return the indices of its own partition"),
    (for_ever, "It returns too many indices, or never ends. Check the loop"),
    (shuffles_the_data, "It shuffles the data itself. Shuffle a list of indices, and leave the data unchanged"),
    (shuffles_a_list, "It shuffles the data itself. Shuffle a list of indices, and leave the data unchanged"),
    (no_epoch, "The check calls no_epoch(data, epoch) with two arguments, but the definition is no_epoch(data"),
    (awaited, "awaited is a coroutine (async def)"),
    (None, "It got None instead of a function. Write check.epoch_order(epoch_order), without calling epoch_order"),
]


# hanging


def only_rank_0_broadcasts(data: Any, epoch: int) -> Tensor:
    order = torch.tensor(permutation(data, epoch))
    if dist.get_rank() == 0:
        dist.broadcast(order, 0)
    return order[dist.get_rank() :: dist.get_world_size()]


def looks_for_ever(data: Any, epoch: int) -> list[int]:
    seen: set[int] = set()
    while len(seen) <= len(data):
        seen.add(random.randrange(len(data)))
    return sorted(seen)


HANGING: list[tuple[Any, str]] = [
    (only_rank_0_broadcasts, "Not every rank calls broadcast"),
    (looks_for_ever, "It does not return: rank 0"),
]


# not written yet


def only_dots(data: Any, epoch: int) -> None: ...


def prepared(data: Any, epoch: int) -> None:
    """Return the indices of this rank's samples in this epoch."""
    rank, world_size = dist.get_rank(), dist.get_world_size()  # noqa: F841
    # your code


def not_implemented(data: Any, epoch: int) -> list[int]:
    raise NotImplementedError("your code")


STUBS: list[Any] = [only_dots, prepared, not_implemented]


def drawn_with_repetition(data: Any, epoch: int) -> list[int]:
    rank, world_size = who()
    generator = torch.Generator().manual_seed(epoch)
    return list(torch.randint(len(data), (len(data),), generator=generator)[rank::world_size])


WRONG += [(drawn_with_repetition, "Shuffle all indices with torch.randperm, instead of drawing each index at random")]
