"""Trials in which the ranks save a checkpoint and are watched: which rank writes, and what is at the path when.

Python's audit events report files that are opened and renamed, and a profile function checks the path whenever a
function returns. So it does not matter how a learner writes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import distributed_c10d
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.check.judging.exercise_trials import Trial
from ddp_lessons.check.judging.latecomers import Whereabouts
from ddp_lessons.check.trials.checkpoint_contents import Fault, fault_in_file
from ddp_lessons.check.trials.saving_surroundings import files_no_longer_than, in_folder, variables_of_torchrun

_WIDTH = 200  # so the weights alone take 160 kB
_MOST_BYTES = 100_000  # of a file, where the write is cut off
_OLD_EPOCH = 16
_MAY_WAIT = {"barrier", "monitored_barrier", "broadcast", "all_reduce", "reduce", "send", "recv", "all_to_all"}
_MAY_WAIT |= {"all_gather", "gather", "scatter", "reduce_scatter", "all_gather_into_tensor", "reduce_scatter_tensor"}
_MAY_WAIT |= {"all_gather_single", "reduce_scatter_single"}
_MAY_WAIT |= {f"{call}_object" for call in ("all_gather", "gather")} | {"all_to_all_single"}
_MAY_WAIT |= {f"{call}_object_list" for call in ("broadcast", "scatter", "send", "recv")}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


class ReturnedEarly(Exception):
    """A rank has returned before rank 0 started to write."""


class SecondWriter(Exception):
    """A rank other than rank 0 writes. It is stopped: two writers of the same file give a random result."""


@dataclass
class Saving:
    """What was observed on one rank."""

    at_return: str = ""  # the file when the function returned, as a digest; "" if there is none
    before: str = ""
    versions: list[str] = field(default_factory=list)  # everything seen at the path in the meantime
    fault: Fault | None = None  # in the content of the file; found by rank 0
    left_behind: bool = False  # there are other files in its folder
    from_elsewhere: bool = False  # the file renamed to the path came from another folder
    wrote: bool = False  # this rank


class _Network(nn.Module):
    """With weights and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(_WIDTH, _WIDTH)
        self.norm = nn.BatchNorm1d(_WIDTH)
        self.last = nn.Linear(_WIDTH, 2)

    def forward(self, inputs: Tensor) -> Any:
        return self.last(self.norm(self.first(inputs)).relu())


@dataclass(frozen=True)
class SaveTrial(Trial):
    """`folder` is empty before the first trial."""

    folder: str = ""
    epoch: int = 17
    has_old: bool = False
    on_two_machines: bool = False
    is_cut_off: bool = False

    @property
    def path(self) -> Path:
        return Path(self.folder) / f"run{self.seed}" / "checkpoint.pt"

    def tensor(self, rank: int) -> Tensor:
        return torch.empty(0)

    def arguments(self, rank: int) -> tuple[Any, ...]:
        if rank == 0:
            self._prepare()
        model, optimizer = _wrapped()
        with torch.no_grad():  # different values in every trial, the same on all ranks
            for parameter in model.parameters():
                parameter.mul_(0.9).add_(0.001 * self.seed)
        return (Session(self, rank, model, optimizer, Saving()),)

    def afterwards(self, arguments: tuple[Any, ...]) -> Saving:
        (session,) = arguments
        assert isinstance(session, Session)
        return session.saving

    def is_unchanged(self, rank: int, afterwards: Any) -> bool:
        return isinstance(afterwards, Saving) and not afterwards.wrote and afterwards.at_return == afterwards.before

    def named(self, rank: int) -> str:
        return "a checkpoint that replaces another" if self.has_old else "a first checkpoint"

    def _prepare(self) -> None:
        shutil.rmtree(self.path.parent, ignore_errors=True)
        self.path.parent.mkdir(parents=True)
        if self.has_old:
            model, optimizer = _model_and_optimizer()
            old = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": _OLD_EPOCH}
            torch.save(old, self.path)


@dataclass
class Session:
    """One call on one rank: the arguments of the learner's function, and what was observed."""

    trial: SaveTrial
    rank: int
    model: DistributedDataParallel
    optimizer: torch.optim.Optimizer
    saving: Saving


def save(function: Callable[..., object], session: Session) -> None:
    """Inside a rank: call the learner's function, watch it, and record what was observed."""
    trial, rank, saving = session.trial, session.rank, session.saving
    whereabouts = Whereabouts(f"saving {trial.seed}")
    saving.before = _digest(trial.path)
    with (
        variables_of_torchrun(rank, trial.on_two_machines),
        files_no_longer_than(_MOST_BYTES if trial.is_cut_off else None),
        in_folder(trial.folder),
        # if the write fails, the function may raise or not
        contextlib.suppress(*[Exception] if trial.is_cut_off else []),
        _Watcher(trial, rank, saving, whereabouts).watching(),
    ):
        function(str(trial.path), session.model, session.optimizer, trial.epoch)
    saving.at_return = _digest(trial.path)
    whereabouts.has_returned()
    if rank == 0:
        saving.fault = fault_in_file(trial.path, session.model.module, session.optimizer, trial.epoch)
        saving.left_behind = len(os.listdir(trial.path.parent)) > trial.path.exists()


class _Watcher:
    """Watches what one rank does with files, and holds rank 0 before it writes."""

    def __init__(self, trial: SaveTrial, rank: int, saving: Saving, whereabouts: Whereabouts) -> None:
        self.trial, self.rank, self.saving, self.whereabouts = trial, rank, saving, whereabouts
        self.folder, self.file = str(trial.path.parent), str(trial.path)
        self.is_on = False
        self.seen: object = None
        self.held_up: set[str] = set()
        self.was_told = False
        self.calls_that_wait = 0  # how many of them this rank is in, nested

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        sys.addaudithook(self._audit)  # it cannot be removed, but does nothing later
        before = sys.getprofile()
        self.is_on, self.seen = True, _stat(self.file)
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(None)
            self.is_on = False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event == "open":
            file, mode, flags = arguments
            if set(mode or "") & set("wax+") or (isinstance(flags, int) and flags & _WRITES):
                self._writes("open", file)
        elif event in ("os.rename", "os.link", "os.symlink"):
            self.saving.from_elsewhere |= self._is_inside(arguments[1]) and not self._is_inside(arguments[0])
            self._writes("rename", arguments[1])

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code is torch.save.__code__:  # it opens the file in C++, invisible to Python
            self._writes("open", frame.f_locals.get("f"))
        elif event not in ("call", "c_call") and self.rank == 0 and self.is_on:
            self._look()
        if _waits(frame, event, argument):
            self._enters_or_leaves(1 if event in ("call", "c_call") else -1)

    def _enters_or_leaves(self, step: int) -> None:
        self.calls_that_wait += step
        if self.calls_that_wait == 0:
            self.whereabouts.runs()
        elif (self.calls_that_wait, step) == (1, 1):
            self.whereabouts.waits()

    def _writes(self, how: str, file: object) -> None:
        if not self._is_inside(file):
            return
        self.saving.wrote = True
        if self.rank > 0 and not self.was_told:
            self.was_told = True
            raise SecondWriter(f"{'by its LOCAL_RANK ' if self.trial.on_two_machines else ''}rank {self.rank} writes")
        if how not in self.held_up:
            self.held_up.add(how)
            if returned := self.whereabouts.hold():
                raise ReturnedEarly(f"rank {returned[0]} has returned, and rank 0 has yet to {how}")

    def _is_inside(self, file: object) -> bool:
        """In the checkpoint's folder."""
        if not isinstance(file, str | bytes | os.PathLike):
            return False
        return os.path.abspath(os.fsdecode(file)).startswith(self.folder)

    def _look(self) -> None:
        now = _stat(self.file)
        if now != self.seen:
            self.seen = now
            self.saving.versions.append(_digest(self.file))


def _waits(frame: FrameType, event: str, argument: object) -> bool:
    """Is this the start or the end of a call that may wait for other ranks?"""
    if event.startswith("c_"):
        return getattr(argument, "__name__", "") == "wait" and isinstance(
            getattr(argument, "__self__", None), dist.Work
        )
    return frame.f_code.co_name in _MAY_WAIT and frame.f_code.co_filename == distributed_c10d.__file__


def _stat(file: str) -> object:
    try:
        stat = os.stat(file)
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _digest(file: str | Path) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


def _model_and_optimizer() -> tuple[nn.Module, torch.optim.Optimizer]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = _Network()
        inputs = torch.randn(4, _WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model(inputs).square().sum().backward()
    optimizer.step()
    return model, optimizer


@functools.cache
def _wrapped() -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    """Once per rank, before its first trial, because wrapping communicates."""
    model, optimizer = _model_and_optimizer()
    return DistributedDataParallel(model), optimizer
