"""The table of what works here: its entries are real, and a call that dies or hangs costs one of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly

from ddp_lessons.backends import backend_trials, try_backends
from ddp_lessons.backends.backend_trials import JOIN, PLACES, Trials
from ddp_lessons.backends.calls import CALLS, Given
from ddp_lessons.run.output.progress_line import ProgressLine

GLOO, _, NCCL, NCCL_SHARED, MPI = (place.name for place in PLACES)


@pytest.fixture(scope="module")
def seen() -> list[str]:
    return []


@pytest.fixture(scope="module")
def tried(seen: list[str]) -> Trials:
    with pytest.MonkeyPatch.context() as patch:
        # the line is seen only in a notebook or a terminal
        patch.setattr(ProgressLine, "show", lambda _, words: seen.append(words))
        return try_backends()


def what_works(tried: Trials, place: str) -> set[str]:
    return {call for call in tried.calls if tried.of(place, call).outcome == "works"}


@nightly
def test_every_call_is_tried_in_every_place_and_counted(tried: Trials, seen: list[str]) -> None:
    assert tried.calls == [JOIN, *CALLS]
    total = len(PLACES) * len(tried.calls)
    assert len(tried.all) == total
    assert seen == [f"trying each call with each backend: {done} of {total}" for done in range(1, total + 1)]
    lines = repr(tried).splitlines()
    assert len(lines) == total + len(PLACES)
    assert lines[1].split() == [JOIN, "works"]


@nightly
def test_gloo_can_do_all_but_what_its_release_has_not_learned(tried: Trials) -> None:
    missing = set(tried.calls) - what_works(tried, GLOO)
    assert missing <= {"all_to_all"}, repr(tried)


@nightly
def test_what_is_not_built_in_is_refused_in_torchs_words(tried: Trials) -> None:
    assert tried.of(MPI, JOIN).outcome == ("works" if dist.is_mpi_available() else "refused")
    if not dist.is_mpi_available():
        assert "MPI" in tried.why_not(MPI)
        assert {tried.of(MPI, call).outcome for call in CALLS} == {"not tried"}


@nightly
def test_nccl_works_where_each_rank_has_a_gpu_and_nowhere_else(tried: Trials) -> None:
    gpus = torch.cuda.device_count()
    assert bool(what_works(tried, NCCL)) == (gpus > 0 and dist.is_nccl_available()), repr(tried)
    assert not what_works(tried, NCCL_SHARED), repr(tried)
    if not gpus:
        assert tried.of(NCCL, JOIN).outcome == "refused"
        assert any(word in tried.why_not(NCCL).lower() for word in ("gpu", "cuda", "nccl")), repr(tried)


def dies(given: Given) -> bool:
    os._exit(3)


def hangs(given: Given) -> bool:
    if given.rank == 0:
        dist.barrier()
    else:
        time.sleep(60)
    return True


def is_wrong_on_rank_1(given: Given) -> bool:
    return given.rank == 0


def refuses(given: Given) -> bool:
    raise RuntimeError("\n  not today: use\nsomething else")


@pytest.mark.parametrize(
    ("call", "outcome", "words"),
    by_day(
        [
            (dies, "died", "rank"),
            (hangs, "no answer", "no answer in 0.8 seconds"),
            (is_wrong_on_rank_1, "wrong", "the result is incorrect"),
            (refuses, "refused", "not today: use"),
        ],
        2,
    ),
)
def test_whatever_a_call_does_is_told_in_a_word(
    call: Callable[[Given], bool], outcome: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if outcome == "no answer":
        monkeypatch.setattr(backend_trials, "PATIENCE_SECONDS", 0.8)
    trial = backend_trials.try_one(PLACES[0], "a call of the test", call)
    assert (trial.outcome, words in trial.words) == (outcome, True), trial
