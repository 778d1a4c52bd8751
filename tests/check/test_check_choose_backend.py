"""check.choose_backend: what it accepts, and by which name it refuses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch.distributed as dist
from banks import assert_refuses, name_of

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


WRONG = [
    (asks_what_was_built, "what was built in says nothing about the machine"),
    (asks_for_any_gpu, "NCCL refuses two ranks on one GPU"),
    (forgets_the_device, "NCCL carries CUDA tensors only"),
    (forgets_what_was_built, "This torch has no NCCL"),
    (wants_as_many, "the others may rest"),
    (wants_more, "what NCCL is made for"),
    (always_gloo, "what NCCL is made for"),
    (in_capitals, 'the name is written "nccl"'),
    (takes_mpi, "none of the two"),
    (says_so_only, "return the name of a backend"),
    (divides, "ZeroDivisionError for ('cpu', 4, 0, False)"),
    (waits, "is a coroutine"),
    (lambda device: "gloo", "is called as"),
    ("gloo", "It needs a function"),
    (None, "without calling choose_backend itself"),
]


@pytest.mark.parametrize("answer", [choose_backend, step_by_step, with_other_names], ids=name_of)
def test_right_answers_pass(answer: Callable[..., str]) -> None:
    report = check.choose_backend(answer)
    assert report.passed, report.text
    assert "right for 9 machines" in report.text


@pytest.mark.parametrize(("answer", "sentence"), WRONG, ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: Any, sentence: str) -> None:
    report = assert_refuses(check.choose_backend, answer, sentence)
    assert ("yours" in report.text) == callable(answer) or "called as" in sentence or "coroutine" in sentence


def stub(device: str, ranks_here: int, gpus_here: int, has_nccl: bool) -> Any: ...


@pytest.mark.parametrize("answer", [stub, functools.partial(stub)], ids=["function", "partial"])
def test_a_stub_is_not_started_yet(answer: Any) -> None:
    assert check.choose_backend(answer).text == "check.choose_backend: not started yet"
