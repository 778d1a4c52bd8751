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


def as_elements_of_a_tensor(gpus: str, machine: int) -> Any:
    counts = ast.literal_eval(f"[{gpus}]")
    return tuple(torch.arange(sum(counts)).split(counts)[machine])


def digit_by_digit(gpus: str, machine: int) -> range:
    """Right until a node has ten GPUs."""
    counts = [int(letter) for letter in gpus if letter.isdigit()]
    return range(sum(counts[:machine]), sum(counts[: machine + 1]))


def as_floats(gpus: str, machine: int) -> list[float]:
    return [float(rank) for rank in by_accumulation(gpus, machine)]


class Kind(str, enum.Enum):
    GLOO = "gloo"
    NCCL = "nccl"


def by_an_enum(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> Kind:
    return Kind.NCCL if device == "cuda" and has_nccl and gpus_here >= ranks_here else Kind.GLOO


def with_other_names(where: str, ranks: int, gpus: int, nccl: bool = True) -> str:
    return ("gloo", "nccl")[where.startswith("cuda") and nccl and ranks <= gpus]


def asks_this_machine(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if torch.cuda.device_count() >= ranks_here else "gloo"


def only_for_several(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if device == "cuda" and has_nccl and gpus_here >= ranks_here > 1 else "gloo"


class EqualToEverything(str):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


def equal_to_everything(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return EqualToEverything("mpi")


RIGHT = {"ranks_of": [by_accumulation, as_elements_of_a_tensor], "choose_backend": [by_an_enum, with_other_names]}
WRONG = {
    "ranks_of": [(digit_by_digit, "fails for a two-digit number of GPUs"), (as_floats, "Ranks are integers")],
    "choose_backend": [
        (asks_this_machine, "Use nccl, even if your own machine has no GPU."),
        (only_for_several, "One rank with its own GPU is enough for NCCL."),
        (equal_to_everything, "Your function returns neither of the two names."),
    ],
}
