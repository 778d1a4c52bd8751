"""The table of what works here: its entries are real, and a call that dies or hangs costs one of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import ClassVar

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly

from ddp_lessons.backends import backend_trials, try_backends
from ddp_lessons.backends.backend_trials import GLOO, JOIN, MPI, NCCL, NCCL_SHARED, Trials
from ddp_lessons.backends.calls import CALLS


class Told:
    """In the place of the line, which is seen only in a notebook or a terminal."""

    seen: ClassVar[list[str]] = []

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, words: str) -> None:
        self.seen.append(words)


@pytest.fixture(scope="module")
def tried() -> Trials:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend_trials, "ProgressLine", Told)
        return try_backends()


def what_works(tried: Trials, place: str) -> set[str]:
    return {call for call in tried.calls if tried.of(place, call).outcome == "works"}


@nightly
def test_every_call_is_there_for_every_place(tried: Trials) -> None:
    assert tried.calls == [JOIN, *CALLS]
    assert len(tried.all) == len(tried.places) * len(tried.calls)


@nightly
def test_after_each_call_it_is_said_how_many_are_done(tried: Trials) -> None:
    total = len(tried.all)
    assert Told.seen == [f"Trying what works here, calls: {done} of {total}" for done in range(1, total + 1)]


@nightly
def test_gloo_can_do_all_but_what_its_release_has_not_learned(tried: Trials) -> None:
    missing = set(tried.calls) - what_works(tried, GLOO.name)
    assert missing <= {"all_to_all"}, repr(tried)


@nightly
def test_what_is_not_built_in_is_refused_in_torchs_words(tried: Trials) -> None:
    assert tried.of(MPI.name, JOIN).outcome == ("works" if dist.is_mpi_available() else "refused")
    if not dist.is_mpi_available():
        assert "MPI" in tried.why_not(MPI.name)
        assert {tried.of(MPI.name, call).outcome for call in CALLS} == {"not tried"}


@nightly
def test_nccl_works_where_each_rank_has_a_gpu_and_nowhere_else(tried: Trials) -> None:
    gpus = torch.cuda.device_count()
    assert bool(what_works(tried, NCCL.name)) == (gpus > 0 and dist.is_nccl_available()), repr(tried)
    assert not what_works(tried, NCCL_SHARED.name), repr(tried)
    if not gpus:
        assert tried.of(NCCL.name, JOIN).outcome == "refused"
        assert any(word in tried.why_not(NCCL.name).lower() for word in ("gpu", "cuda", "nccl")), repr(tried)


@nightly
def test_the_table_can_be_printed(tried: Trials) -> None:
    lines = repr(tried).splitlines()
    assert len(lines) == len(tried.places) * (1 + len(tried.calls))
    assert lines[1].split() == [JOIN, "works"]


def dies(device: torch.device) -> bool:
    os._exit(3)


def hangs(device: torch.device) -> bool:
    if dist.get_rank() == 0:
        dist.barrier()
    else:
        time.sleep(60)
    return True


def is_wrong_on_rank_1(device: torch.device) -> bool:
    return dist.get_rank() == 0


def refuses(device: torch.device) -> bool:
    raise RuntimeError("\n  not today: use\nsomething else")


@pytest.mark.parametrize(
    ("call", "outcome", "words"),
    by_day(
        [
            (dies, "died", "rank"),
            (hangs, "no answer", "no answer in 0.8 seconds"),
            (is_wrong_on_rank_1, "wrong", "the answer is not the right one"),
            (refuses, "refused", "not today: use"),
        ],
        2,
    ),
)
def test_whatever_a_call_does_is_told_in_a_word(
    call: Callable[[torch.device], bool], outcome: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if outcome == "no answer":
        monkeypatch.setattr(backend_trials, "PATIENCE_SECONDS", 0.8)
    trial = backend_trials.try_one(GLOO, "a call of the test", call)
    assert (trial.outcome, words in trial.words) == (outcome, True), trial
