"""Which backend supports which call on this machine: each call is tried in new processes, for some seconds.

A call that kills a process, or never returns, costs only one field of the table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_lessons.backends.calls import CALLS, attempt, first_sentence
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.launch import launch
from ddp_lessons.run.output.progress_line import ProgressLine

if TYPE_CHECKING:
    import torch

    Call = Callable[[torch.device], bool]

PATIENCE_SECONDS = 15.0  # for calls that take milliseconds, plus a first import
JOIN = "init_process_group"
NO_GPU = "there is no GPU here"
NEEDS_TWO = {"send, recv", "batch_isend_irecv", "recv from anyone"}
OUTCOMES = ("works", "wrong", "refused", "no answer", "died", "not tried")


@dataclass(frozen=True)
class Place:
    """A backend, and the device of the tensors. `name` is its name in the table."""

    name: str
    backend: str
    device: str = "cpu"
    shares_a_gpu: bool = False


GLOO, GLOO_ON_GPU = Place("gloo", "gloo"), Place("gloo, CUDA tensors", "gloo", "cuda", shares_a_gpu=True)
NCCL = Place("NCCL, a GPU for each rank", "nccl", "cuda")
NCCL_SHARED = Place("NCCL, two ranks on a GPU", "nccl", "cuda", shares_a_gpu=True)
MPI = Place("MPI", "mpi")
PLACES = (GLOO, GLOO_ON_GPU, NCCL, NCCL_SHARED, MPI)


@dataclass(frozen=True)
class Trial:
    """The outcome of one call in one place: one of OUTCOMES, and the message."""

    place: str
    call: str
    outcome: str
    words: str = ""


@dataclass(frozen=True, repr=False)
class Trials:
    """The trials on this machine. Print them to see the outcomes, which the picture's own text does not contain."""

    all: tuple[Trial, ...]

    @property
    def places(self) -> list[str]:
        return list(dict.fromkeys(trial.place for trial in self.all))

    @property
    def calls(self) -> list[str]:
        return list(dict.fromkeys(trial.call for trial in self.all))

    def of(self, place: str, call: str) -> Trial:
        return next(trial for trial in self.all if (trial.place, trial.call) == (place, call))

    def why_not(self, place: str) -> str:
        """Why ranks could not join in this place, or ""."""
        joining = self.of(place, JOIN)
        return "" if joining.outcome == "works" else joining.words

    def __repr__(self) -> str:
        width = max(map(len, self.calls))
        lines = []
        for place in self.places:
            lines += [place, *(f"  {call:{width}}  {self._told(place, call)}" for call in self.calls)]
        return "\n".join(lines)

    def _told(self, place: str, call: str) -> str:
        trial = self.of(place, call)
        return f"{trial.outcome}: {trial.words}" if trial.words else trial.outcome


def try_backends() -> Trials:
    """Try every call with every backend; on two ranks, if two are possible."""
    done: list[Trial] = []
    with ProgressLine() as progress:
        for trial in itertools.chain.from_iterable(map(tried, PLACES)):
            done.append(trial)
            progress.show(f"Trying what works here, calls: {len(done)} of {len(PLACES) * (1 + len(CALLS))}")
    return Trials(tuple(done))


def tried(place: Place) -> Iterator[Trial]:
    """Join in this place, and if that works, try every call there."""
    why_not = _why_nobody_can_join(place)
    # NCCL really joins only in the first call
    join = CALLS["all_reduce"] if place.backend == "nccl" else None
    joining = Trial(place.name, JOIN, "not tried", why_not) if why_not else try_one(place, JOIN, join)
    yield joining
    for name, call in CALLS.items():
        if joining.outcome != "works" or (name in NEEDS_TWO and _ranks(place) < 2):
            yield Trial(place.name, name, "not tried")
        else:
            yield try_one(place, name, call)


def _why_nobody_can_join(place: Place) -> str:
    import torch

    # without a GPU, NCCL is tried once for its error message
    needs_gpu = place in (GLOO_ON_GPU, NCCL_SHARED)
    return NO_GPU if needs_gpu and not torch.cuda.device_count() else ""


def _ranks(place: Place) -> int:
    import torch

    gpus = torch.cuda.device_count()
    return 1 if place is NCCL and gpus == 1 else 2


def try_one(place: Place, name: str, call: Call | None) -> Trial:
    """Join in this place on new ranks, and make the call there, if there is one."""
    patience = PATIENCE_SECONDS * (4 if place.device == "cuda" else 1)  # a GPU and NCCL take seconds to start
    try:
        answers = launch(
            _try_on_this_rank,
            _ranks(place),
            place,
            call,
            join=False,
            quiet=True,
            record=False,
            timeout_seconds=patience,
        )
    except WorkersStuck:
        return Trial(place.name, name, "no answer", f"no answer in {patience:g} seconds")
    except WorkerFailed as failure:
        return Trial(place.name, name, "died", first_sentence(failure))
    # the worst outcome of all ranks counts
    outcome, words = max(answers, key=lambda answer: OUTCOMES.index(answer[0]))
    return Trial(place.name, name, outcome, words)


def _try_on_this_rank(rank: int, world_size: int, place: Place, call: Call | None) -> tuple[str, str]:
    import torch
    import torch.distributed as dist

    device = torch.device("cpu")
    try:
        if place.device == "cuda" and torch.cuda.device_count():  # without a GPU, joining fails and says so
            device = torch.device("cuda", 0 if place.shares_a_gpu else rank)
            torch.cuda.set_device(device)
        # NCCL has to know the GPU: torch 2.15 would take that of the local rank, even if two ranks share one
        binds = place.backend == "nccl" and device.type == "cuda"
        dist.init_process_group(place.backend, device_id=device if binds else None)
    except Exception as error:
        return "refused", first_sentence(error)
    return attempt(call, device) if call is not None else ("works", "")
