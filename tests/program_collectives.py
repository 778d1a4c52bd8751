"""Calls one collective of a generated program, and knows what has to come of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist
from program_steps import Collective, Program, number_of, part_length
from torch import Tensor

Answer = tuple[list[Any], Callable[[], str]]

REDUCE_OPS: dict[str, Callable[[int, int], int]] = {
    "SUM": lambda one, other: one + other,
    "AVG": lambda one, other: one + other,  # and divided in the end
    "PRODUCT": lambda one, other: one * other,
    "MIN": min,
    "MAX": max,
    "BAND": lambda one, other: one & other,
    "BOR": lambda one, other: one | other,
    "BXOR": lambda one, other: one ^ other,
}
# torch renamed the second and the third
_ALL_GATHER_SINGLE = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_REDUCE_SCATTER_SINGLE = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def call(step: Collective, rank: int, group: Any, program: Program) -> Answer:
    """Call it, and give what to wait for and a check for afterwards."""
    turn = Turn(step, rank, group, program.groups[step.group])
    work, expected = getattr(turn, step.name)()
    pairs: Sequence[tuple[Any, Any]] = expected
    return [work] if step.handle is not None else [], lambda: _first_difference(pairs)


def _first_difference(pairs: Sequence[tuple[Any, Any]]) -> str:
    for had, expected in pairs:
        if isinstance(had, Tensor):
            number = torch.tensor(expected).to(had.dtype)
            if not torch.allclose(had.double(), number.double(), rtol=0.01):
                return f"{number.item()} expected, but {had.flatten()[:4].tolist()} came"
        elif had != expected:
            return f"{expected} expected, but {had} came"
    return ""


Called = tuple[Any, list[tuple[Any, Any]]]


class Turn:
    """One rank's call of one collective; a method for each, by the name that it has in torch."""

    def __init__(self, step: Collective, rank: int, group: Any, ranks: Sequence[int]) -> None:
        self.step = step
        self.rank = rank
        self.ranks = ranks
        self.is_root = step.root == rank
        self.place: dict[str, Any] = {"group": group}
        self.how = {**self.place, "async_op": step.handle is not None}

    def tensor(self, number: int, elements: int | None = None) -> Tensor:
        dtype = getattr(torch, self.step.content.dtype)
        if elements is not None:
            return torch.full((elements,), number, dtype=dtype)
        if not self.step.content.sliced:
            return torch.full(self.step.content.shape, number, dtype=dtype)
        whole = torch.full((self.step.content.elements + 3,), number, dtype=dtype)
        return whole[1:-2].view(self.step.content.shape)

    def number(self, rank: int) -> int:
        return number_of(self.step.turn, rank)

    def mine(self) -> Tensor:
        return self.tensor(self.number(self.rank))

    def places(self) -> list[Tensor]:
        return [self.tensor(0) for _ in self.ranks]

    def numbers(self) -> list[int]:
        return [self.number(rank) for rank in self.ranks]

    def reduced(self) -> float:
        assert self.step.reduce_op is not None
        all_together = reduce(REDUCE_OPS[self.step.reduce_op], self.numbers())
        return all_together / len(self.ranks) if self.step.reduce_op == "AVG" else all_together

    @property
    def reduce_op(self) -> Any:
        return getattr(dist.ReduceOp, self.step.reduce_op or "SUM")

    def all_reduce(self) -> Called:
        tensor = self.mine()
        return dist.all_reduce(tensor, self.reduce_op, **self.how), [(tensor, self.reduced())]

    def reduce(self) -> Called:
        tensor = self.mine()
        work = dist.reduce(tensor, self.step.root, self.reduce_op, **self.how)
        return work, [(tensor, self.reduced())] if self.is_root else []

    def broadcast(self) -> Called:
        tensor = self.mine() if self.is_root else self.tensor(0)
        assert self.step.root is not None
        return dist.broadcast(tensor, self.step.root, **self.how), [(tensor, self.number(self.step.root))]

    def all_gather(self) -> Called:
        places = self.places()
        return dist.all_gather(places, self.mine(), **self.how), list(zip(places, self.numbers(), strict=True))

    def all_gather_single(self) -> Called:
        elements = self.step.content.elements
        place = self.tensor(0, elements * len(self.ranks))
        work = _ALL_GATHER_SINGLE(place, self.tensor(self.number(self.rank), elements), **self.how)
        return work, list(zip(place.split(elements), self.numbers(), strict=True))

    def gather(self) -> Called:
        places = self.places() if self.is_root else []
        work = dist.gather(self.mine(), places if self.is_root else None, self.step.root, **self.how)
        return work, list(zip(places, self.numbers(), strict=False))

    def scatter(self) -> Called:
        parts = [self.tensor(self.number(rank)) for rank in self.ranks] if self.is_root else None
        place = self.tensor(0)
        return dist.scatter(place, parts, self.step.root, **self.how), [(place, self.number(self.rank))]

    def reduce_scatter(self) -> Called:
        place = self.tensor(0)
        parts = [self.mine() for _ in self.ranks]
        return dist.reduce_scatter(place, parts, self.reduce_op, **self.how), [(place, self.reduced())]

    def reduce_scatter_single(self) -> Called:
        elements = self.step.content.elements
        place = self.tensor(0, elements)
        parts = self.tensor(self.number(self.rank), elements * len(self.ranks))
        return _REDUCE_SCATTER_SINGLE(place, parts, self.reduce_op, **self.how), [(place, self.reduced())]

    def all_to_all(self) -> Called:
        places = self.places()
        work = dist.all_to_all(places, [self.mine() for _ in self.ranks], **self.how)
        return work, list(zip(places, self.numbers(), strict=True))

    def all_to_all_single(self) -> Called:
        elements = self.step.content.elements
        place = self.tensor(0, elements * len(self.ranks))
        parts = self.tensor(self.number(self.rank), elements * len(self.ranks))
        work = dist.all_to_all_single(place, parts, **self.how)
        return work, list(zip(place.split(elements), self.numbers(), strict=True))

    def all_to_all_uneven(self) -> Called:
        coming = [part_length(self.step.turn, rank, self.rank) for rank in self.ranks]
        going = [part_length(self.step.turn, self.rank, rank) for rank in self.ranks]
        place = self.tensor(0, sum(coming))
        parts = self.tensor(self.number(self.rank), sum(going))
        work = dist.all_to_all_single(place, parts, coming, going, **self.how)
        return work, list(zip(place.split(coming), self.numbers(), strict=True))

    def barrier(self) -> Called:
        return dist.barrier(**self.how), []

    def monitored_barrier(self) -> Called:
        dist.monitored_barrier(timeout=timedelta(minutes=10), **self.place)
        return None, []

    def all_gather_object(self) -> Called:
        places: list[object] = [None] * len(self.ranks)
        dist.all_gather_object(places, {"from": self.rank}, **self.place)
        return None, [(places, [{"from": rank} for rank in self.ranks])]

    def gather_object(self) -> Called:
        places: list[object] | None = [None] * len(self.ranks) if self.is_root else None
        dist.gather_object(f"from {self.rank}", places, self.step.root, **self.place)
        return None, [(places, [f"from {rank}" for rank in self.ranks])] if self.is_root else []

    def broadcast_object_list(self) -> Called:
        objects = ["from", self.rank]
        dist.broadcast_object_list(objects, self.step.root, **self.place)
        return None, [(objects, ["from", self.step.root])]

    def scatter_object_list(self) -> Called:
        place: list[object] = [None]
        dist.scatter_object_list(place, list(self.ranks) if self.is_root else None, self.step.root, **self.place)
        return None, [(place, [self.rank])]
