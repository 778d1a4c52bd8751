"""Inside a rank: call a program for one trial after the other, and record what came of it."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from ddp_lessons.check.differences import plain
from ddp_lessons.check.exercise import Fields, Program, Trial

_SECONDS_TO_THE_LAST = 0.008
_LONGEST_PAUSE_SECONDS = 0.0015
_PAUSES_IN_A_TRIAL = 10
_PAUSED = {"send", "recv", "isend", "irecv", "all_reduce", "broadcast", "reduce", "all_gather", "gather", "barrier"}


def run_trials(
    rank: int,
    world_size: int,
    written: Program,
    call: Callable[..., Fields],
    trials: Sequence[Trial],
    solution: Program | None = None,
) -> tuple[str, list[dict[str, Any]]]:
    """Run the solution, if there is one, and then what was written, in each trial.

    Return the name of the group for the barriers between the runs, which cut the recorded events into runs, and what
    came of each run. The solution is first because a wrong program may leave messages behind. It is punctual; what a
    learner wrote is tried with late ranks.
    """
    between = dist.new_group()
    assert isinstance(between, dist.ProcessGroup)
    came_of_it = []
    for program in (solution, written) if solution is not None else (written,):
        for trial in trials:
            arguments = trial.arguments(rank, world_size)
            dist.barrier(between)
            with (
                without_output(),
                _lateness(trial.number, rank, world_size, is_punctual=solution is None or program is solution),
            ):
                fields = call(program, *arguments)
                came_of_it.append({name: plain(value) for name, value in fields.items()})
    dist.barrier(between)
    return between.group_name, came_of_it


def run_one(rank: int, world_size: int, written: Program, call: Callable[..., Fields], trial: Trial) -> None:
    arguments = trial.arguments(rank, world_size)
    with without_output(), _lateness(trial.number, rank, world_size, is_punctual=False):
        call(written, *arguments)


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
def _lateness(number: int, rank: int, world_size: int, is_punctual: bool) -> Iterator[None]:
    """No rank is late in the first trial, the last ranks in the second, the first ones in the third, then by chance.

    By chance, a rank also pauses briefly before some of its calls of torch.distributed. An answer that is right only
    if the other rank is quick enough then becomes wrong.
    """
    if number == 0 or is_punctual:
        yield
        return
    chance = random.Random(1000 * number + rank)
    place = {1: rank, 2: world_size - 1 - rank}.get(number, chance.randrange(world_size))
    time.sleep(place * _SECONDS_TO_THE_LAST / max(1, world_size - 1))
    if number < 3:
        yield
        return
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


@contextlib.contextmanager
def common_folder() -> Iterator[Any]:
    """A new current folder, the same for all ranks, and a store in which they share values.

    It is next to the file of the group's store, so the launch removes it, also after a hang.
    """
    store: Any = distributed_c10d._get_default_store()
    number, before = store.add(f"folders of rank {dist.get_rank()}", 1), os.getcwd()
    folder = os.path.join(os.path.dirname(store.underlying_store.path), f"folder-{number}")
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    try:
        yield distributed_c10d.PrefixStore(f"folder {number}", store)
    finally:
        os.chdir(before)
