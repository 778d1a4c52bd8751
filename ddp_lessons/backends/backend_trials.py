"""Which backend supports which call on this machine: each call is tried in new processes, for some seconds.

A call that kills a process, or never returns, costs only one field of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist

from ddp_lessons.backends.calls import CALLS, NEED_TWO, Given
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.launch import launch
from ddp_lessons.run.output.progress_line import ProgressLine

PATIENCE_SECONDS = 15.0  # for calls that take milliseconds, plus a first import
JOIN = "init_process_group"
OUTCOMES = ("works", "wrong", "refused", "no answer", "died", "not tried")  # from best to worst


@dataclass(frozen=True)
class Place:
    """A backend, and the device of the tensors. `name` is its name in the table."""

    name: str
    backend: str
    device: str = "cpu"
    shares_a_gpu: bool = False  # two ranks do; otherwise each has its own

    @property
    def ranks(self) -> int:
        return 1 if self.device == "cuda" and not self.shares_a_gpu and torch.cuda.device_count() == 1 else 2


PLACES = (
    Place("gloo", "gloo"),
    Place("gloo, CUDA tensors", "gloo", "cuda", shares_a_gpu=True),
    Place("NCCL, one GPU per rank", "nccl", "cuda"),
    Place("NCCL, two ranks per GPU", "nccl", "cuda", shares_a_gpu=True),
    Place("MPI", "mpi"),
)


@dataclass(frozen=True)
class Trial:
    """The outcome of one call in one place: one of OUTCOMES, and the message."""

    place: str
    call: str
    outcome: str
    words: str = ""


@dataclass(frozen=True, repr=False)
class Trials:
    """The trials on this machine. Print them to see the outcomes, which the figure's own text doesn't contain."""

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
            trials = [self.of(place, call) for call in self.calls]
            told = [": ".join(filter(None, [trial.outcome, trial.words])) for trial in trials]
            lines += [place, *(f"  {call:{width}}  {words}" for call, words in zip(self.calls, told, strict=True))]
        return "\n".join(lines)


def try_backends() -> Trials:
    """Try every call with every backend, on two ranks if possible."""
    done: list[Trial] = []
    with ProgressLine() as progress:
        for place in PLACES:
            for trial in _tried(place):
                done.append(trial)
                progress.show(f"trying each call with each backend: {len(done)} of {len(PLACES) * (1 + len(CALLS))}")
    return Trials(tuple(done))


def _tried(place: Place) -> Iterator[Trial]:
    """Join in this place, and if that works, try every call there."""
    if place.shares_a_gpu and not torch.cuda.device_count():
        joining = Trial(place.name, JOIN, "not tried", "this machine has no GPU")
    else:  # NCCL really joins only in the first call; without a GPU, it is tried for its error message
        joining = try_one(place, JOIN, CALLS["all_reduce"] if place.backend == "nccl" else None)
    yield joining
    for name, call in CALLS.items():
        if joining.outcome != "works" or (name in NEED_TWO and place.ranks < 2):
            yield Trial(place.name, name, "not tried")
        else:
            yield try_one(place, name, call)


def try_one(place: Place, name: str, call: Callable[[Given], bool] | None) -> Trial:
    """Join in this place on new ranks, and make the call there, if there is one."""
    patience = PATIENCE_SECONDS * (4 if place.device == "cuda" else 1)  # a GPU and NCCL take seconds to start
    try:
        answers = launch(
            _try_on_this_rank, place.ranks, place, call, join=False, quiet=True, record=False, timeout_seconds=patience
        )
    except WorkersStuck:
        return Trial(place.name, name, "no answer", f"no answer in {patience:g} seconds")
    except WorkerFailed as failure:
        return Trial(place.name, name, "died", _first_line(failure))
    return Trial(place.name, name, *max(answers, key=lambda answer: OUTCOMES.index(answer[0])))


def _try_on_this_rank(
    rank: int, world_size: int, place: Place, call: Callable[[Given], bool] | None
) -> tuple[str, str]:
    device = torch.device("cpu")
    try:
        if place.device == "cuda" and torch.cuda.device_count():  # without a GPU, joining fails and says so
            device = torch.device("cuda", 0 if place.shares_a_gpu else rank)
            torch.cuda.set_device(device)
        # NCCL has to know the GPU: torch 2.15 would take that of the local rank, even if two ranks share one
        binds = place.backend == "nccl" and device.type == "cuda"
        dist.init_process_group(place.backend, device_id=device if binds else None)
        is_right = call is None or call(Given(device))
    except Exception as error:
        return "refused", _first_line(error)
    return ("works", "") if is_right else ("wrong", "the result is incorrect")


def _first_line(error: BaseException) -> str:
    """The part of an error message before addresses, versions and advice."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
