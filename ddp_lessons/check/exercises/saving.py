"""Saving a checkpoint from several ranks, lesson 8: which rank writes, and what is at the path when.

Python's audit events report files that are opened and renamed, so it does not matter how a learner writes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.check.exercise import Budget, Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.check.ranks import common_folder
from ddp_lessons.run.launcher.patience import slowness
from ddp_lessons.train.checkpoints import save_checkpoint as the_courses_own

_WIDTH, _MOST_BYTES = 100, 20_000  # the weights alone take 40 kB; of a file, where the write is cut off
_HELD_SECONDS = 0.1  # long enough for a rank that waits for nothing to return
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_sleep, _FileWriter = time.sleep, torch._C.PyTorchFileWriter


class SecondWriter(Exception):
    """A rank other than 0 writes. It is stopped, because two writers of the same file give a random result."""


@dataclass(frozen=True)
class _Save:
    epoch: int
    has_old: bool = True
    is_held: bool = False  # rank 0, before it opens or renames a file
    on_two_nodes: bool = False
    is_cut_off: bool = False

    @property
    def in_words(self) -> str:
        return "a checkpoint that replaces another" if self.has_old else "a first checkpoint"


def _one_save(rank: int, world_size: int, chance: torch.Generator, **how: Any) -> tuple[_Save]:
    return (_Save(**how),)


@functools.cache
def _wrapped() -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    """Once per rank, because wrapping communicates."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.BatchNorm1d(_WIDTH), nn.Linear(_WIDTH, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model(torch.ones(4, _WIDTH)).square().sum().backward()
    optimizer.step()
    return DistributedDataParallel(model), optimizer


def _saved(program: Program, save: _Save) -> Fields:
    """Call the learner's function, and say what came of it."""
    (model, optimizer), rank, path = _wrapped(), dist.get_rank(), Path("checkpoints/checkpoint.pt")
    torch.manual_seed(save.epoch)
    with torch.no_grad():
        for tensor in (*model.parameters(), *(state["momentum_buffer"] for state in optimizer.state.values())):
            tensor.normal_()
    local_rank = rank % 2 if save.on_two_nodes else rank
    with common_folder() as store:
        if rank == 0:
            path.parent.mkdir()
            if save.has_old:
                torch.save({"model": {}, "optimizer": {}, "epoch": 0}, path)
            store.set("all is prepared", "")
        store.wait(["all is prepared"])
        is_held = save.is_held and program is not the_courses_own
        watch = _Watch(path.absolute(), save, is_held)
        with (
            watch.watching(),
            mock.patch.dict(os.environ, LOCAL_RANK=str(local_rank), LOCAL_WORLD_SIZE=str(local_rank + 1)),
            mock.patch("time.sleep", _sleep_little if is_held else _sleep),
            files_no_longer_than(_MOST_BYTES) if save.is_cut_off else contextlib.nullcontext(),
            contextlib.suppress(*[Exception] if save.is_cut_off else []),  # it may raise or not
        ):
            program(str(path.absolute()), model, optimizer, save.epoch)
        content = _content(path)
        if rank > 0:
            there = "the old one" if content.get("epoch") == 0 else "the new one" if path.exists() else "none"
            return {"writes": "yes" if watch.wrote else "no", "file when it returns": there}
        if save.is_cut_off:
            is_whole = _bytes(path) == watch.old or content["torch.load"] == "a dictionary"
            return {"after an interrupted write": "the old checkpoint" if is_whole else "half a file"}
        others = len(os.listdir(path.parent)) - path.exists()
        return content | {"old file": watch.old_is, "written in": watch.written_in, "other files": str(others)}


def _sleep_little(seconds: float) -> None:
    """No sleep is long enough, so a learner's is none."""


class _Watch:
    """What one rank does with files in the checkpoint's folder."""

    def __init__(self, path: Path, save: _Save, is_held: bool) -> None:
        self._path, self._save, self._is_held, self._is_on = path, save, is_held, False
        self.wrote, self.written_in, self.old = False, "the checkpoint's folder", _bytes(path)
        self.old_is = "overwritten" if save.has_old else "replaced at once"

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        sys.addaudithook(self._see)  # it cannot be removed
        self._is_on = True
        try:
            with mock.patch.object(torch._C, "PyTorchFileWriter", _reported):
                yield
        finally:
            self._is_on = False

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_on or event not in ("open", "os.rename"):
            return
        file, target, flags = arguments[:3]
        if event == "open" and flags & _WRITES and self._is_inside(file):
            self._begin_to_write()
        elif event == "os.rename" and self._is_inside(target):
            self._begin_to_write()
            if not self._is_inside(file):
                self.written_in = "another folder"
            if os.path.abspath(os.fsdecode(target)) == str(self._path):
                self.old_is = {b"": "deleted first", self.old: "replaced at once"}.get(_bytes(self._path), self.old_is)

    def _begin_to_write(self) -> None:
        is_second, self.wrote = dist.get_rank() > 0 and not self.wrote, True
        if is_second and self._save.on_two_nodes:
            raise SecondWriter("with two nodes, two ranks have LOCAL_RANK 0; check the global rank, dist.get_rank()")
        if is_second:
            raise SecondWriter("all ranks hold the same model, so write only if dist.get_rank() == 0")
        if self._is_held and dist.get_world_size() > 1:
            _sleep(_HELD_SECONDS * slowness(dist.get_world_size()))

    def _is_inside(self, file: object) -> bool:
        if not isinstance(file, str | bytes | os.PathLike):
            return False
        return os.path.dirname(os.path.abspath(os.fsdecode(file))).startswith(str(self._path.parent))


def _reported(file: Any, *more: Any) -> Any:
    """torch.save opens a file in C++, which Python reports to no audit hook."""
    if isinstance(file, str):
        sys.audit("open", file, "w", os.O_WRONLY)
    return _FileWriter(file, *more)


def _content(path: Path) -> dict[str, Any]:
    """Load the checkpoint as a resumed training run would."""
    try:
        content = torch.load(path, weights_only=True)
    except Exception as error:
        return {"torch.load": f"an error, {type(error).__name__}"}
    if not isinstance(content, Mapping):
        return {"torch.load": f"a {type(content).__name__}"}
    return {"torch.load": "a dictionary"} | {name: content.get(name) for name in ("model", "optimizer", "epoch")}


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


@contextlib.contextmanager
def files_no_longer_than(most_bytes: int) -> Iterator[None]:
    """As on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
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
    """Check `function(path, model, optimizer, epoch)`, called on every rank, which saves a checkpoint.

    The model is wrapped in DistributedDataParallel. The model and the path (a str) are the same on all ranks. Only rank
    0 writes, even if the ranks are on two nodes. The file holds a dictionary with "model" and "optimizer", both as
    their state_dict() (the model's without the wrapper), and "epoch" as given; it may contain more. torch.load(path,
    weights_only=True) loads it.

    An older file at the path stays until the new one is complete. Write the new one in the same folder, because a file
    can't be renamed from one disk to another. Every rank returns only when the checkpoint is complete. No other file is
    left.
    """,
    solution=the_courses_own,
    call=_saved,
    parameters=("path", "model", "optimizer", "epoch"),
    wraps_models=True,
    world_sizes=(3, 1),
    budget=Budget(least=0),
    trials=[
        Trial(partial(_one_save, epoch=17, has_old=False, is_held=True)),
        Trial(partial(_one_save, epoch=23, is_held=True), "one that replaces another"),
        Trial(partial(_one_save, epoch=41, on_two_nodes=True), "two nodes, each with a LOCAL_RANK 0", 3),
        Trial(partial(_one_save, epoch=43, is_cut_off=True), "an interrupted write", largest_world=1),
    ],
    hints={
        "writes": "Rank {rank} writes a file. Write only if dist.get_rank() == 0.",
        "file when it returns": "Rank {rank} returns before the checkpoint is written. After the write, call "
        "dist.barrier() on every rank, not only on rank 0.",
        "torch.load": "torch.load(path, weights_only=True) does not return a dictionary. Save one to `path` with "
        'torch.save: "model" and "optimizer", the state_dict() of each instead of the object, and "epoch".',
        "model": 'The file does not hold all of model.module.state_dict() under the key "model". Save it unchanged.',
        "optimizer": 'The file does not hold optimizer.state_dict() (the momentum) under the key "optimizer". Save '
        "it, too.",
        "epoch": 'The file does not hold `epoch`, as given, under the key "epoch". Save it unchanged.',
        "old file": "During the write, there is no complete checkpoint to restart from. Write to another file in the "
        "same folder, then call os.replace(other, path).",
        "written in": "The new file is in another folder, so it cannot be renamed if that folder is on another disk. "
        'Write it next to the checkpoint, as path + ".new".',
        "other files": "Your function leaves another file next to the checkpoint. Remove it before you return.",
        "after an interrupted write": "An interrupted write destroys the last good checkpoint. Write to another file "
        "in the same folder, then call os.replace(other, path).",
    },
    mistakes=[
        Mistake(
            partial(_one_thing_wrong, wrong="wrapper"),
            'The names in the file start with "module.", a prefix that comes from the DDP wrapper. Save '
            "model.module.state_dict(), so that a model without the wrapper can load it.",
        ),
        Mistake(
            partial(_one_thing_wrong, wrong="optimizer"),
            "The optimizer state (the momentum) is missing from the file. Save optimizer.state_dict(), too.",
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
