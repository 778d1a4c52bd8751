"""Ranks on nodes with different numbers of GPUs, lesson 14, and the choice of a backend, lesson 17."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ddp_lessons.check.exercise import Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.train import devices, machines


def _given(rank: int, world_size: int, chance: torch.Generator, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return arguments


def _ranks_called(program: Program, gpus: str, machine: int) -> Fields:
    answer = program(gpus, machine)
    items = answer if isinstance(answer, list | tuple) else ()
    odd = next((type(item).__name__ for item in items if integer(item) < 0), "")
    return {"kind of rank": odd or "integer", "answer": answer}


def integer(value: Any) -> int:
    """Also of one-element tensors and NumPy's; -1 of anything else, even if it equals one: 8.0."""
    try:
        return -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return -1


def _from(gpus: str, machine: int, start: Callable[[Sequence[int], int], int]) -> list[int]:
    counts = [int(count) for count in gpus.split(",")]
    first = start(counts, machine)
    return [*range(first, first + counts[machine])]


ranks_of = Exercise(
    """Check `function(gpus, machine)`: it returns a node's ranks in order, where `gpus` is a string such as "8,2".

    Return a list, a tuple or a range. There can be any number of nodes, and some may have no GPU.
    """,
    solution=machines.ranks_of,
    call=_ranks_called,
    world_sizes=(1,),
    trials=[
        Trial(partial(_given, arguments=arguments), trait)
        for trait, arguments in {
            "": ("5,1,2", 2),  # all mistakes below give other ranks
            "the second node": ("2,8", 1),
            "one node": ("4", 0),
            "a two-digit number of GPUs": ("12,4", 1),
            "a node without a GPU": ("2,0,2", 1),
            "a node without a GPU before this one": ("2,0,2", 2),
        }.items()
    ],
    hints={
        "kind": "Ranks are integers that start at 0. Use // or int().",
        "answer": "The first rank is the number of GPUs on all earlier nodes. Start there, and return one rank for "
        "each GPU of this node.",
    },
    mistakes=[
        Mistake(
            partial(_from, start=lambda counts, machine: 0),
            "These are the local ranks on this node. Add the number of GPUs on all earlier nodes.",
        ),
        Mistake(
            partial(_from, start=lambda counts, machine: machine * counts[machine]),
            "Your function assumes that every earlier node has as many GPUs as this one. Add up their actual numbers "
            "of GPUs.",
        ),
        Mistake(
            partial(_from, start=lambda counts, machine: sum(counts[: machine + 1])),
            "Your function includes the GPUs of this node in the sum. Add up only the GPUs of the earlier nodes.",
        ),
        Mistake(
            partial(_from, start=lambda counts, machine: sum(counts[:machine]) + 1),
            "The ranks are too high by 1. Count from 0.",
        ),
        Mistake(
            lambda gpus, machine: machines.ranks_of(gpus, machine)[::-1],
            "The ranks are correct, but in the wrong order. Start with the lowest.",
        ),
    ],
)

_SITUATIONS = (
    ("a GPU for each rank", "cuda", 8, 8, True),
    ("a node without GPUs", "cuda", 2, 0, True),
    ("ranks that share a GPU", "cuda", 2, 1, True),
    ("ranks that share a GPU", "cuda", 4, 3, True),
    ("more GPUs than ranks", "cuda", 2, 8, True),
    ("CPU tensors", "cpu", 4, 8, True),
    ("a torch without NCCL", "cuda", 4, 4, False),
    ("a node without GPUs", "cpu", 64, 0, True),
    ("one rank with its own GPU", "cuda", 1, 1, True),
)


def _backend_called(
    program: Program, device: str, ranks_here: int, gpus_here: int, has_nccl: bool, where: str
) -> Fields:
    answer = program(device, ranks_here, gpus_here, has_nccl)
    is_one = isinstance(answer, str) and str.__str__(answer) in ("nccl", "gloo")
    return {"answer": '"nccl" or "gloo"' if is_one else answer, where: answer}


choose_backend = Exercise(
    """Check `function(device, ranks_here, gpus_here, has_nccl)`: it returns "nccl" or "gloo".

    `device` is where the tensors are, "cpu" or "cuda". `ranks_here` and `gpus_here` are the numbers of ranks and
    GPUs on this node, and `has_nccl` says whether this torch was built with NCCL.
    """,
    solution=devices.choose_backend,
    call=_backend_called,
    world_sizes=(1,),
    trials=[Trial(partial(_given, arguments=(*arguments, where))) for where, *arguments in _SITUATIONS],
    hints={
        "answer": 'Your function returns neither of the two names. Return "nccl" or "gloo", spelled exactly like that.',
        "a GPU for each rank": "Each rank has its own GPU, as NCCL requires. Use nccl, even if your own machine has "
        "no GPU.",
        "a node without GPUs": "This node has no GPU, and NCCL works only between GPUs. Check the number of GPUs, too.",
        "ranks that share": "With NCCL, two ranks cannot share a GPU. Compare gpus_here with ranks_here.",
        "more GPUs": "Each rank has its own GPU, and NCCL does not need the remaining ones. Use nccl.",
        "CPU tensors": "The tensors are on the CPU, and NCCL supports CUDA tensors only. Use gloo.",
        "a torch without NCCL": "This torch was built without NCCL. Use gloo.",
        "one rank": "One rank with its own GPU is enough for NCCL. Use nccl.",
    },
)
