"""check.rank_sampler: right samplers pass, and of a wrong one the first difference or the likely mistake is named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from banks import assert_accepts, assert_refuses, name_of
from torch.utils.data import DistributedSampler

from ddp_lessons import check
from ddp_lessons.train.sampling import RankSampler


def variant(name: str, lines: str) -> Any:
    """The package's solution with another `__iter__`: the body of a function of self, n, ranks, rank and order."""
    body = "\n    ".join(lines.split("; "))
    text = f"""def __iter__(self):
    n, ranks, rank, seed = self.samples, self.num_replicas, self.rank, self.seed + self.epoch
    def order(seed=seed):
        generator = torch.Generator().manual_seed(seed)
        return torch.randperm(n, generator=generator).tolist() if self.shuffle else list(range(n))
    def even(order):
        return (order * ranks)[: len(self) * ranks]
    {body}"""
    names: dict[str, Any] = {"torch": torch}
    exec(text, names)
    return type(name, (RankSampler,), {"__iter__": names["__iter__"]})


class KeepsNoEpoch(RankSampler):
    def set_epoch(self, epoch: int) -> None:
        self.number = epoch


class CountsAll(DistributedSampler[int]):
    def __len__(self) -> int:
        return self.total_size


class SetsNoEpoch(RankSampler):
    def __setattr__(self, name: str, value: Any) -> None:
        if name != "epoch":
            super().__setattr__(name, value)


class Stub:
    def __init__(
        self, dataset: Any, num_replicas: int, rank: int, shuffle: bool, seed: int, drop_last: bool
    ) -> None: ...

    def set_epoch(self, epoch: int) -> None: ...

    def __iter__(self) -> Any: ...


RIGHT = (
    *(RankSampler, DistributedSampler, variant("Slices", "yield from even(order())[rank::ranks]")),
    variant("Steps", "o = even(order()); yield from [o[i * ranks + rank] for i in range(len(self))]"),
    variant("Tensors", "return iter(torch.tensor(even(order()), dtype=torch.int64)[rank::ranks])"),
)
WRONG: list[tuple[Any, str]] = [
    (variant("NoEpoch", "return iter(even(order(self.seed))[rank::ranks])"), "The order is the same in epochs 0 and 1"),
    (variant("NoPadding", "return iter(order()[rank::ranks])"), "Rank 2 has fewer indices than rank 0: 2, not 3."),
    (variant("Blocks", "k = len(self); return iter(even(order())[rank * k :][:k])"), "block. Take every world_size-th"),
    (variant("ByRank", "return iter(even(order(seed + rank))[rank::ranks])"), "they miss 3 of 12 samples"),
    (variant("Reversed", "return iter(even(order()[::-1])[rank::ranks])"), "Rank 0 has [7, 5, 3, 1], but Distr"),
    (variant("All", "return iter(order())"), "DistributedSampler gives it [0, 2, 4, 6]."),
    (variant("NeverEnds", "while True: yield rank"), "DistributedSampler gives it [0, 2, 4, 6]."),
    (variant("PadsOnce", "return iter((2 * order())[: len(self) * ranks][rank::ranks])"), "Rank 4 has fewer"),
    (variant("AList", "return order()"), "It raises TypeError: iter() returned non-iterator of type 'list'."),
    *((KeepsNoEpoch, "The order is the same in epochs 0 and 1"), (CountsAll, "len() is 8, but rank 0 has 4 indices")),
    (type("OneLeft", (RankSampler,), {"__iter__": Stub.__iter__}), "__iter__ is not written yet."),
    *((SetsNoEpoch, "has no attribute 'epoch'"), (None, "It got None"), (lambda dataset: [], "with six arguments")),
]


@pytest.mark.parametrize("answer", RIGHT, ids=name_of)
def test_right_samplers_pass(answer: object) -> None:
    assert_accepts(check.rank_sampler, answer)


@pytest.mark.parametrize(("answer", "sentence"), WRONG, ids=name_of)
def test_wrong_samplers_are_refused_with_the_first_difference(answer: object, sentence: str) -> None:
    assert_refuses(check.rank_sampler, answer, sentence)


def test_a_stub_is_not_started_yet() -> None:
    assert check.rank_sampler(Stub).text == "check.rank_sampler: not started yet"
