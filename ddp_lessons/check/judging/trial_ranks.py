"""Inside a rank: call the learner's function for one trial after the other, and record what came of it."""

from __future__ import annotations

import contextlib
import numbers
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d

from ddp_lessons.check.judging.exercise_trials import Trial

_LONGEST_PAUSE_SECONDS = 0.0015
_PAUSES_IN_A_TRIAL = 10
_PAUSED = {"send", "recv", "isend", "irecv", "all_reduce", "broadcast", "reduce", "all_gather", "gather", "barrier"}


@dataclass(frozen=True)
class Outcome:
    """The state of one rank after one trial."""

    answer: object  # a tensor, a number, None, a list of tensors and numbers, or a `Thing`
    given: object  # its input after the call: a tensor, or what else the trial keeps of it


@dataclass(frozen=True)
class Thing:
    """Replaces an answer of a type that is always wrong."""

    kind: str


def run_trials(
    rank: int, world_size: int, function: Callable[..., object], trials: Sequence[Trial]
) -> tuple[str, list[Outcome]]:
    """Call `function` once per trial; return the name of the group for the barriers between trials, and the outcomes.

    The barriers of that group cut the recorded events into trials.
    """
    between = dist.new_group()
    assert isinstance(between, dist.ProcessGroup)
    outcomes = []
    for trial in trials:
        arguments = trial.arguments(rank)
        dist.barrier(between)
        time.sleep(trial.delay_seconds(rank, world_size))
        with without_output(), _pauses(trial, rank) if trial.lateness == "at random" else contextlib.nullcontext():
            answer = function(*arguments)
        outcomes.append(Outcome(_plain(answer), trial.afterwards(arguments)))
    dist.barrier(between)
    return between.group_name, outcomes


@contextlib.contextmanager
def without_output() -> Iterator[None]:
    """Discard printed output, which a check never shows: megabytes of it would take the time of the trials."""
    with (
        open(os.devnull, "w", encoding="utf-8", errors="replace") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield


@contextlib.contextmanager
def _pauses(trial: Trial, rank: int) -> Iterator[None]:
    """Pause this rank briefly before some of its calls of torch.distributed.

    An answer that is right only if the other rank is quick enough then becomes wrong.
    """
    chance = trial.random(rank)
    left = _PAUSES_IN_A_TRIAL

    def pause(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        code = frame.f_code
        if event == "call" and code.co_name in _PAUSED and code.co_filename == distributed_c10d.__file__ and left:
            left -= 1
            time.sleep(chance.random() * _LONGEST_PAUSE_SECONDS)

    sys.setprofile(pause)
    try:
        yield
    finally:
        sys.setprofile(None)


def _plain(answer: object) -> object:
    """A copy of the answer that can be sent and no longer changes."""
    if isinstance(answer, Tensor):
        return answer.detach().clone()
    if answer is None or isinstance(answer, bool):
        return answer
    if isinstance(answer, numbers.Real):  # also NumPy numbers
        return int(answer) if isinstance(answer, numbers.Integral) else float(answer)
    if isinstance(answer, list | tuple):
        copies = {id(one): _plain(one) for one in answer}  # the same object twice stays one object: a check may ask
        return [copies[id(one)] for one in answer]
    return Thing(type(answer).__name__)
