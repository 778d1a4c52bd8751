"""check.choose_backend: what it accepts, and by which name it refuses."""

from __future__ import annotations

import enum
import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from banks import assert_refuses, name_of, right, wrong

from ddp_lessons import check
from ddp_lessons.train.devices import choose_backend


def step_by_step(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    if device == "cpu" or not has_nccl:
        return "gloo"
    if gpus_here < ranks_here:
        return dist.Backend.GLOO
    return dist.Backend.NCCL


def with_other_names(where: str, ranks: int, gpus: int, nccl: bool = True) -> str:
    return ("gloo", "nccl")[where.startswith("cuda") and nccl and ranks <= gpus]


class Kind(str, enum.Enum):
    GLOO = "gloo"
    NCCL = "nccl"


def by_an_enum(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> Kind:
    return Kind.NCCL if device == "cuda" and has_nccl and gpus_here >= ranks_here else Kind.GLOO


def by_match(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    match (device, has_nccl):
        case ("cuda", True) if ranks_here <= gpus_here:
            return "nccl"
        case _:
            return "gloo"


def by_the_device_of_torch(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return {True: "nccl", False: "gloo"}[
        torch.device(device).type == "cuda" and has_nccl and not gpus_here < ranks_here
    ]


def by_ranks_for_each_gpu(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    try:
        fits = ranks_here / gpus_here <= 1
    except ZeroDivisionError:
        fits = False
    return "gloo" if not (fits and has_nccl) or device != "cuda" else "nccl"


def by_dealing_the_gpus(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    gpus = list(range(gpus_here))
    while ranks_here and gpus:
        ranks_here -= 1
        gpus.pop()
    return "gloo" if ranks_here or device == "cpu" or not has_nccl else "nccl"


def with_many_words(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    for _ in range(20_000):
        print("x" * 1_000)
    return choose_backend(device, ranks_here, gpus_here, has_nccl)


RIGHT = [
    *(choose_backend, step_by_step, with_other_names, by_an_enum, by_match, by_the_device_of_torch),
    *(by_ranks_for_each_gpu, by_dealing_the_gpus, with_many_words),
]


def asks_what_was_built(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if has_nccl and device == "cuda" else "gloo"


def asks_for_any_gpu(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if has_nccl and gpus_here > 0 and device == "cuda" else "gloo"


def forgets_the_device(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if has_nccl and gpus_here >= ranks_here else "gloo"


def forgets_what_was_built(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if device == "cuda" and gpus_here >= ranks_here else "gloo"


def wants_as_many(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if device == "cuda" and has_nccl and gpus_here == ranks_here else "gloo"


def wants_more(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if device == "cuda" and has_nccl and gpus_here > ranks_here else "gloo"


def always_gloo(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "gloo"


def in_capitals(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return choose_backend(device, ranks_here, gpus_here, has_nccl).upper()


def takes_mpi(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if choose_backend(device, ranks_here, gpus_here, has_nccl) == "nccl" else "mpi"


def says_so_only(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> None:
    str(choose_backend(device, ranks_here, gpus_here, has_nccl))


def divides(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if ranks_here / gpus_here <= 1 else "gloo"


async def waits(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "gloo"


class EqualToEverything(str):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class Anything:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


def equal_to_everything(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return EqualToEverything("mpi")


def anything(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> Any:
    return Anything()


def for_ever(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    while gpus_here < ranks_here:
        pass
    return "nccl"


def leaves(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    if device == "cpu":
        sys.exit("no GPU")
    return "nccl"


def ends_the_process(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    if not gpus_here:
        os._exit(1)
    return "nccl"


def interrupts(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    raise KeyboardInterrupt


def takes_all_memory(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "gloo" * 10**12


def with_a_long_error(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    raise ValueError("no" * 2_500_000)


def calls_itself(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return calls_itself(device, ranks_here, gpus_here, has_nccl)


def both_names(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> Any:
    return ["gloo", "nccl"] if device == "cuda" else ["gloo"]


def a_bool(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> Any:
    return device == "cuda" and has_nccl and gpus_here >= ranks_here


def by_device(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "cpu:gloo,cuda:nccl"


def asks_this_machine(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if torch.cuda.device_count() >= ranks_here else "gloo"


def always_nccl(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl"


def only_for_several(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if device == "cuda" and has_nccl and gpus_here >= ranks_here > 1 else "gloo"


def with_a_space(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return f"{choose_backend(device, ranks_here, gpus_here, has_nccl)} "


def knows_only_gpus(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str | None:
    return "nccl" if device == "cuda" and has_nccl and gpus_here >= ranks_here else None


def the_other_way_round(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if device == "cuda" and has_nccl and ranks_here >= gpus_here else "gloo"


def a_third_one_for_many_ranks(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "mpi" if ranks_here > 8 else choose_backend(device, ranks_here, gpus_here, has_nccl)


def asks_torch(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> str:
    return "nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"


WRONG = [
    (asks_torch, "for every input. Decide by the arguments, not by the machine that you run this on"),
    (a_third_one_for_many_ranks, 'It returns "mpi", which is neither of the two backends. Return "gloo" or "nccl"'),
    (equal_to_everything, 'It returns "mpi", which is neither of the two backends. Return "gloo" or "nccl"'),
    (anything, 'It returns an object of type Anything for (\'cuda\', 8, 8, True). Return a string, "gloo" or "nccl"'),
    (
        for_ever,
        "For ('cpu', 4, 0, False) your function does not return and is at test_check_choose_backend.py line 155:   "
        "while gpus_here < ranks_here",
    ),
    (leaves, "For ('cpu', 4, 0, False) your function calls sys.exit() instead of returning"),
    (ends_the_process, "For ('cpu', 4, 0, False) your function ends its process instead of returning"),
    (interrupts, "your function raises KeyboardInterrupt"),
    (takes_all_memory, "your function raises MemoryError"),
    (with_a_long_error, "your function raises ValueError: nono"),
    (calls_itself, "your function raises RecursionError"),
    (both_names, "It returns ['gloo', 'nccl'] for ('cuda', 8, 8, True). Return a string, \"gloo\" or \"nccl\""),
    (a_bool, 'It returns True for (\'cuda\', 8, 8, True). Return a string, "gloo" or "nccl"'),
    (by_device, 'It returns "cpu:gloo,cuda:nccl", which is neither of the two backends. Return "gloo" or "nccl"'),
    (asks_this_machine, "Each rank has its own GPU, as NCCL requires"),
    (always_nccl, "This node has no GPU, and NCCL works only between GPUs"),
    (only_for_several, "One rank with its own GPU is enough for NCCL"),
    (with_a_space, 'It returns "nccl ". Spell the name "nccl"'),
    (knows_only_gpus, "It returns None for ('cpu', 4, 0, False). Return the name of a backend"),
    (the_other_way_round, "Check the number of GPUs, too"),
    (asks_what_was_built, "Check the number of GPUs, too"),
    (asks_for_any_gpu, "NCCL refuses two ranks on one GPU"),
    (forgets_the_device, "NCCL supports CUDA tensors only"),
    (forgets_what_was_built, "This torch was built without NCCL. Use gloo"),
    (wants_as_many, "Each rank has its own GPU, and NCCL does not need the other GPUs"),
    (wants_more, "Each rank has its own GPU, as NCCL requires. As many GPUs as ranks are enough"),
    (
        always_gloo,
        'Each rank has its own GPU, as NCCL requires. Your function returns "gloo" for every input. '
        "Decide by the arguments, not by the machine that you run this on",
    ),
    (in_capitals, 'Spell the name "nccl"'),
    (takes_mpi, 'which is neither of the two backends. Return "gloo" or "nccl"'),
    (says_so_only, "return the name of a backend"),
    (divides, "For ('cpu', 4, 0, False) your function raises ZeroDivisionError"),
    (waits, "is a coroutine"),
    (lambda device: "gloo", "but the definition is"),
    ("gloo", "Pass a function that every rank can call"),
    (None, "Write check.choose_backend(choose_backend), without calling choose_backend"),
]


@pytest.mark.parametrize("answer", right(*RIGHT), ids=name_of)
def test_right_answers_pass(answer: Callable[..., str]) -> None:
    report = check.choose_backend(answer)
    assert report.passed, report.text
    assert "right for 11 machines" in report.text


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: Any, sentence: str) -> None:
    report = assert_refuses(check.choose_backend, answer, sentence)
    assert (
        ("yours" in report.text) == callable(answer) or "but the definition is" in sentence or "coroutine" in sentence
    )


def stub(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> Any: ...


@pytest.mark.parametrize("answer", [stub, functools.partial(stub)], ids=["function", "partial"])
def test_a_stub_is_not_started_yet(answer: Any) -> None:
    assert check.choose_backend(answer).text == "check.choose_backend: not started yet"
