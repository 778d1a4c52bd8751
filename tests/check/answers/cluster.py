"""Answers to the exercises `ranks_of` and `choose_backend`."""

from __future__ import annotations

import ast
import enum
import itertools
from typing import Any

import torch


def by_accumulation(gpus: str, machine: int) -> range:
    ends = [0, *itertools.accumulate(map(int, gpus.split(",")))]
    return range(ends[machine], ends[machine + 1])


def by_counting(gpus: str, machine: int) -> list[int]:
    owners = [owner for owner, count in enumerate(gpus.split(",")) for _ in range(int(count))]
    return [rank for rank, owner in enumerate(owners) if owner == machine]


def as_elements_of_a_tensor(gpus: str, machine: int) -> Any:
    counts = ast.literal_eval(f"[{gpus}]")
    return tuple(torch.arange(sum(counts)).split(counts)[machine])


def by_recursion(gpus: str, machine: int) -> list[int]:
    first, _, rest = gpus.partition(",")
    return [int(first) + rank for rank in by_recursion(rest, machine - 1)] if machine else list(range(int(first)))


def digit_by_digit(gpus: str, machine: int) -> range:
    """Right until a node has ten GPUs."""
    counts = [int(letter) for letter in gpus if letter.isdigit()]
    return range(sum(counts[:machine]), sum(counts[: machine + 1]))


def as_floats(gpus: str, machine: int) -> list[float]:
    return [float(rank) for rank in by_accumulation(gpus, machine)]


def only_the_node_before(gpus: str, machine: int) -> range:
    counts = [int(count) for count in gpus.split(",")]
    first = counts[machine - 1] if machine else 0
    return range(first, first + counts[machine])


def a_tensor(gpus: str, machine: int) -> Any:
    return torch.tensor(list(by_accumulation(gpus, machine)))


class Kind(str, enum.Enum):
    GLOO = "gloo"
    NCCL = "nccl"


def step_by_step(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    if device == "cpu" or not has_nccl:
        return "gloo"
    return "gloo" if gpus_here < ranks_here else "nccl"


def by_an_enum(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> Kind:
    return Kind.NCCL if device == "cuda" and has_nccl and gpus_here >= ranks_here else Kind.GLOO


def with_other_names(where: str, ranks: int, gpus: int, nccl: bool = True) -> str:
    return ("gloo", "nccl")[where.startswith("cuda") and nccl and ranks <= gpus]


def by_ranks_for_each_gpu(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    fits = gpus_here > 0 and ranks_here / gpus_here <= 1
    return {True: "nccl", False: "gloo"}[torch.device(device).type == "cuda" and fits and has_nccl]


def asks_this_machine(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if torch.cuda.device_count() >= ranks_here else "gloo"


def only_for_several(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if device == "cuda" and has_nccl and gpus_here >= ranks_here > 1 else "gloo"


def a_third_one_for_many_ranks(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "mpi" if ranks_here > 8 else step_by_step(device, ranks_here, gpus_here, has_nccl)


class EqualToEverything(str):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


def equal_to_everything(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return EqualToEverything("mpi")


RIGHT = {
    "ranks_of": [by_accumulation, by_counting, as_elements_of_a_tensor, by_recursion],
    "choose_backend": [step_by_step, by_an_enum, with_other_names, by_ranks_for_each_gpu],
}
WRONG = {
    "ranks_of": [digit_by_digit, as_floats, only_the_node_before, a_tensor],
    "choose_backend": [asks_this_machine, only_for_several, a_third_one_for_many_ranks, equal_to_everything],
}
