"""Saving a checkpoint from several ranks, lesson 8: which rank writes, and what is at the path when.

Python's audit events report files that are opened and renamed, and a profile function looks at the path whenever a
function returns. So it does not matter how a learner writes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import resource
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d
from torch.distributed.distributed_c10d import PrefixStore, _get_default_store
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.check.exercise import Budget, Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.train.checkpoints import save_checkpoint as the_courses_own

_WIDTH = 200  # so the weights alone take 160 kB
_MOST_BYTES = 100_000  # of a file, where the write is cut off
_OLD_EPOCH = 16
_BETWEEN_LOOKS_SECONDS = 0.004
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_RETURNED, _RUNS = "returned", "runs"


class SecondWriter(Exception):
    """A rank other than 0 writes. It is stopped, because two writers of the same file give a random result."""


@dataclass(frozen=True)
class _Save:
    epoch: int = 17
    has_old: bool = False
    on_two_nodes: bool = False
    is_cut_off: bool = False

    @property
    def in_words(self) -> str:
        return "a checkpoint that replaces another" if self.has_old else "a first checkpoint"


def _one_save(rank: int, world_size: int, chance: torch.Generator, save: _Save) -> tuple[_Save]:
    return (save,)


@functools.cache
def _wrapped() -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    """Once per rank, because wrapping communicates."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.BatchNorm1d(_WIDTH), nn.Linear(_WIDTH, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model(torch.randn(4, _WIDTH)).square().sum().backward()
    optimizer.step()
    return DistributedDataParallel(model), optimizer


def _saved(program: Program, save: _Save, folder: str) -> Fields:
    """Call the learner's function, and say what came of it."""
    (model, optimizer), epoch, number = _wrapped(), save.epoch, next(_calls)
    with torch.no_grad():  # different values in every trial, the same on all ranks
        for parameter in model.parameters():
            parameter.mul_(0.9).add_(0.001 * epoch)
    ranks, path = _Ranks(f"saving {number}"), Path(folder) / str(number) / "checkpoint.pt"
    if dist.get_rank() == 0:
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        if save.has_old:
            torch.save({"model": {}, "optimizer": {}, "epoch": _OLD_EPOCH}, path)
    ranks.meet()
    old, watcher = _digest(path), _Watcher(path, ranks, save.on_two_nodes)
    with (
        _variables_of_torchrun(save.on_two_nodes),
        _files_no_longer_than(_MOST_BYTES if save.is_cut_off else None),
        _in_folder(folder),
        contextlib.suppress(*[Exception] if save.is_cut_off else []),  # it may raise or not
        watcher.watching(),
    ):
        program(str(path), model, optimizer, epoch)
    at_return = _digest(path)
    ranks.says(_RETURNED)
    content = _content(path, model.module, optimizer)
    if save.is_cut_off:
        is_whole = at_return == old or content["torch.load"] == "a dictionary"
        return {"after an interrupted write": "the old checkpoint" if is_whole else "half a file"}
    fields = {"writes": "yes" if watcher.wrote else "no", "file when it returns": at_return}
    if dist.get_rank() > 0:
        return fields
    torn = [one for one in watcher.versions if one not in (old, at_return)] if save.has_old else []
    during = {"file during the write": ("a part" if torn[0] else "none") if torn else "the old or the new one"}
    places = {"written in": "another folder" if watcher.from_elsewhere else "the checkpoint's folder"}
    return fields | content | during | places | {"other files": str(len(os.listdir(path.parent)) - path.exists())}


def _of_all_ranks(outcomes: Sequence[Fields]) -> list[Fields]:
    """The file is the new one if it is what rank 0 sees when it returns."""
    new = outcomes[0].get("file when it returns")
    named = {new: "the new one", "": "none"}
    return [
        {**one, "file when it returns": named.get(one["file when it returns"], "the old one")}
        if new is not None
        else one
        for one in outcomes
    ]


_calls = iter(range(10**9))  # a store keeps what earlier calls wrote


class _Ranks:
    """Ranks that tell each other what they do, through a part of the group's store that learners do not use."""

    # per process: a loop that polls neither waits nor returns, and may be right, so rank 0 goes on in the end
    seconds_left = 2.0

    def __init__(self, name: str) -> None:
        self._store = PrefixStore(name, _get_default_store())
        self._rank, self._world_size = dist.get_rank(), dist.get_world_size()
        self.waits = 0

    def meet(self) -> None:
        self._store.add("here", 1)
        while self._store.add("here", 0) < self._world_size:
            time.sleep(_BETWEEN_LOOKS_SECONDS)

    def says(self, what: str) -> None:
        self._store.set(str(self._rank), what)

    def hold(self) -> None:
        """Wait until all others wait, more often than this rank did, or have returned. No sleep is long enough."""
        end, before = time.monotonic() + _Ranks.seconds_left, None
        while (left := end - time.monotonic()) > 0:
            now = [self._of(rank) for rank in range(self._world_size) if rank != self._rank]
            # twice the same: one of them may just have been leaving its wait
            if now == before and all(one == _RETURNED or (one != _RUNS and int(one) > self.waits) for one in now):
                break
            before = now
            time.sleep(_BETWEEN_LOOKS_SECONDS)
        _Ranks.seconds_left = left

    def _of(self, rank: int) -> str:
        return self._store.get(str(rank)).decode() if self._store.check([str(rank)]) else _RUNS


class _Watcher:
    """Watches what one rank does with files, and holds rank 0 before it writes."""

    def __init__(self, path: Path, ranks: _Ranks, on_two_nodes: bool) -> None:
        self.file, self.folder, self.ranks, self.on_two_nodes = str(path), str(path.parent), ranks, on_two_nodes
        self._is_writer, self._has_old = dist.get_rank() == 0, path.exists()
        self.versions: list[str] = []  # everything seen at the path
        self.wrote = self.from_elsewhere = self._is_on = False
        self._seen: object = None
        self._held_before: set[str] = set()
        self._depth = 0  # of calls that may wait for other ranks

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        sys.addaudithook(self._audit)  # it cannot be removed, but does nothing later
        before = sys.getprofile()
        self._is_on, self._seen = True, _stat(self.file)
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(None)
            self._is_on = False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_on:
            return
        if event == "open":
            file, mode, flags = arguments
            if set(mode or "") & set("wax+") or (isinstance(flags, int) and flags & _WRITES):
                self._writes("open", file)
        elif event in ("os.rename", "os.link", "os.symlink"):
            self.from_elsewhere |= self._is_inside(arguments[1]) and not self._is_inside(arguments[0])
            self._writes("rename", arguments[1])

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        begins = event in ("call", "c_call")
        if event.startswith("c_"):
            may_wait = argument.__name__ == "wait" and isinstance(argument.__self__, dist.Work)
        else:
            code = frame.f_code
            may_wait = code.co_filename == distributed_c10d.__file__ and _is_public(code.co_name)
            if begins and code is torch.save.__code__:  # it opens the file in C++, invisible to Python
                self._writes("open", frame.f_locals.get("f"))
        if may_wait:
            self._depth += 1 if begins else -1
            self.ranks.waits += self._depth == 1 and begins
            self.ranks.says(str(self.ranks.waits) if self._depth else _RUNS)
        elif self._has_old and not begins and (now := _stat(self.file)) != self._seen:
            self._seen = now
            self.versions.append(_digest(self.file))

    def _writes(self, how: str, file: object) -> None:
        if not self._is_inside(file):
            return
        if not self._is_writer and not self.wrote:
            self.wrote = True
            if self.on_two_nodes:
                raise SecondWriter(
                    "with two nodes, two ranks have LOCAL_RANK 0; check the global rank, dist.get_rank()"
                )
            raise SecondWriter("all ranks hold the same model, so write only if dist.get_rank() == 0")
        self.wrote = True
        if how not in self._held_before:
            self._held_before.add(how)
            self.ranks.hold()

    def _is_inside(self, file: object) -> bool:
        """In the checkpoint's folder."""
        if not isinstance(file, str | bytes | os.PathLike):
            return False
        return os.path.abspath(os.fsdecode(file)).startswith(self.folder)


def _is_public(name: str) -> bool:
    """Of the functions in torch's module: does it communicate, and so may wait for other ranks?"""
    return not name.startswith(("_", "get_", "is_", "new_")) and hasattr(dist, name)


def _content(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Load it like someone who resumes the training run."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        return {"torch.load": "no file at the path"}
    except Exception as error:
        return {"torch.load": f"an error, {type(error).__name__}"}
    if not isinstance(content, Mapping):
        return {"torch.load": f"a {type(content).__name__}"}
    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()["state"]}
    state = content.get("optimizer")
    found = {"model": content.get("model"), "optimizer": state.get("state") if isinstance(state, Mapping) else state}
    parts = {name: _compared(found[name], right) for name, right in states.items()}
    return {"torch.load": "a dictionary", **parts, "epoch": content.get("epoch", "missing")}


def _compared(found: Any, right: Mapping[Any, Any]) -> str:
    if not isinstance(found, Mapping):
        return "missing"
    if any(str(name).startswith("module.") for name in found):
        return 'names with "module."'
    if missing := [name for name in right if name not in found]:
        return f"{missing[0]} is missing"
    return "its state_dict()" if all(_same(found[name], right[name]) for name in right) else "other values"


def _same(one: Any, other: Any) -> bool:
    if isinstance(other, torch.Tensor):
        return isinstance(one, torch.Tensor) and one.shape == other.shape and torch.equal(one, other.to(one.dtype))
    if isinstance(other, Mapping):
        return isinstance(one, Mapping) and one.keys() == other.keys() and all(_same(one[k], other[k]) for k in other)
    return bool(one == other)


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


@contextlib.contextmanager
def _variables_of_torchrun(on_two_nodes: bool) -> Iterator[None]:
    before, rank = dict(os.environ), dist.get_rank()
    on_each = -(-dist.get_world_size() // 2) if on_two_nodes else dist.get_world_size()
    numbers = {"LOCAL_RANK": rank % on_each, "LOCAL_WORLD_SIZE": on_each, "GROUP_RANK": rank // on_each}
    os.environ |= {name: str(number) for name, number in numbers.items()}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    """Files with relative paths go to this folder, and not next to the notebook."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _files_no_longer_than(most_bytes: int | None) -> Iterator[None]:
    """Let no file grow beyond a limit, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft if most_bytes is None else most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _one_thing_wrong(path: str, model: Any, optimizer: Any, epoch: int, wrong: str) -> None:
    if dist.get_rank() == 0:
        plain = model if wrong == "wrapper" else model.module
        content = {"model": plain.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        if wrong == "epoch":
            content["epoch"] += 1
        if wrong == "optimizer":
            del content["optimizer"]
        if wrong == "deleted" and os.path.exists(path):
            os.remove(path)
        torch.save(content, path if wrong == "in place" else f"{path}.new")
        if wrong != "in place":
            os.replace(f"{path}.new", path)
    if wrong != "no barrier":
        dist.barrier()


save_checkpoint = Exercise(
    """Check `function(path, model, optimizer, epoch)`, called on every rank: afterwards the checkpoint is there.

    The model is wrapped in DistributedDataParallel. Model and path (a str) are the same on all ranks. Only rank 0
    writes, also when the ranks are on two nodes. The file holds a dictionary with "model" and "optimizer", both as
    their state_dict() (the model's without the wrapper), and "epoch" as given; it may contain more. torch.load(path,
    weights_only=True) loads it.

    An older file at the path stays until the new one is complete. The new one is written in the same folder, because no
    file can be renamed from one disk to another. Every rank returns only after the checkpoint is there, and no other
    file is left.
    """,
    solution=the_courses_own,
    call=_saved,
    uses_files=True,
    together=_of_all_ranks,
    parameters=("path", "model", "optimizer", "epoch"),
    wraps_models=True,
    world_sizes=(2, 1),
    budget=Budget(least=0),
    trials=[
        Trial(partial(_one_save, save=_Save())),
        Trial(partial(_one_save, save=_Save(23)), "the next checkpoint", largest_world=2),
        Trial(partial(_one_save, save=_Save(29, has_old=True)), "one that replaces another"),
        Trial(partial(_one_save, save=_Save(41, on_two_nodes=True)), "two nodes, each with a rank of LOCAL_RANK 0"),
        Trial(
            partial(_one_save, save=_Save(43, has_old=True, is_cut_off=True)),
            "a write that is cut off",
            largest_world=1,
        ),
    ],
    hints={
        "writes": "Rank {rank} does not do its part: rank 0 alone writes the checkpoint, to `path` or to a file "
        "next to it.",
        "file when it returns": "Rank {rank} returns before the checkpoint is written. After the write, call "
        "dist.barrier() on every rank, not only on the one that writes.",
        "torch.load": "torch.load(path, weights_only=True) does not find a dictionary. Save one to `path` with "
        'torch.save: "model", "optimizer" and "epoch", with the state_dict() of both instead of the objects.',
        "model": 'The file does not hold all of model.module.state_dict() under the key "model". Save it unchanged.',
        "optimizer": 'The file does not hold optimizer.state_dict() (the momentum) under the key "optimizer". Save it '
        "too.",
        "epoch": 'The file does not hold `epoch`, as given, under the key "epoch". Save it unchanged.',
        "file during the write": "During the write there is no complete checkpoint to restart from. Write to another "
        "file in the same folder, then call os.replace(other, path).",
        "written in": "The new file is in another folder, so it cannot be renamed if that folder is on another disk. "
        'Write it next to the checkpoint, as path + ".new".',
        "other files": "It leaves another file next to the checkpoint. Remove that file before you return.",
        "after an interrupted write": "An interrupted write destroys the last good checkpoint. Write to another file "
        "in the same folder, then call os.replace(other, path).",
    },
    mistakes=[
        Mistake(
            partial(_one_thing_wrong, wrong="wrapper"),
            'The names in the file start with "module.", which is the DDP wrapper. Save model.module.state_dict(), so '
            "that a model without the wrapper can load it.",
        ),
        Mistake(
            partial(_one_thing_wrong, wrong="optimizer"),
            "The optimizer state (the momentum) is missing from the file. Save optimizer.state_dict() too.",
        ),
        Mistake(
            partial(_one_thing_wrong, wrong="epoch"),
            "The file holds the next epoch instead of the one that your function was called with. Save `epoch` "
            "unchanged.",
        ),
        Mistake(
            partial(_one_thing_wrong, wrong="deleted"),
            "The old checkpoint is deleted before the new one is in place. Keep it until os.replace(other, path) "
            "replaces it.",
        ),
    ],
)
