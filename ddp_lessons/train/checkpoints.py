"""Save a training so that it can go on as if it had never stopped.

One rank writes, since all hold the same model; what differs between them are the random states, which it collects. On
machines without a disk in common one rank of each may write, and the newest file counts.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from ddp_lessons.train.networks import unwrapped
from ddp_lessons.train.sampling import rank_and_world_size

T = TypeVar("T")
PARTS = {"model", "optimizer", "epoch", "random_states"}


def save_checkpoint(
    path: str | os.PathLike[str], model: nn.Module, optimizer: Optimizer, epoch: int, on_each_machine: bool = False
) -> None:
    """Write model, optimizer, epoch and every rank's random states. All ranks call it, and come back when it is there.

    Rank 0 writes; `on_each_machine` lets the first rank of each machine write, so that any machine may be lost.

    Raises:
        OSError: it could not be written, on every rank; the file that was there before is still there.
    """
    states = of_all_ranks(_random_states(_device_of(model)))
    trouble = ""
    rank = rank_and_world_size()[0]
    # The rank in the world, not the one on this machine: on two machines that would be two writers. Where just this is
    # asked for, it does no harm, even to one file on a shared disk: each has a name of its own until it is whole.
    if (int(os.environ.get("LOCAL_RANK", rank)) if on_each_machine else rank) == 0:
        # without the wrapper's "module." before each name, so that one process alone can load it as well
        content = {"model": unwrapped(model).state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        try:
            _write(Path(path), content | {"random_states": states}, f".{rank}.unfinished" if rank else ".unfinished")
        except Exception as error:  # whatever it was, the others wait to hear of it
            trouble = f"{type(error).__name__}: {error}"
    for told in of_all_ranks(trouble):  # nobody goes on before it is written
        if told:
            raise OSError(f"checkpoint {os.fspath(path)} could not be written ({told})")


def load_checkpoint(path: str | os.PathLike[str], model: nn.Module, optimizer: Optimizer) -> int:
    """Put the model, the optimizer and this rank's random states back, and return the epoch. All ranks call it.

    With another number of ranks than it was saved with, the random states stay what they are. From three ranks on,
    DistributedDataParallel may go on with other last bits: its first step has other buckets than those that follow, so
    that numbers are added up in another order (find_unused_parameters=True keeps the buckets).

    Raises:
        FileNotFoundError: there is no such file, on some rank; raised on every rank.
        ValueError: it is broken, or no checkpoint of ours; likewise.
    """
    content, trouble = _read(Path(path))
    for other, error in enumerate(of_all_ranks(trouble)):
        if error:  # on two machines one may have the file and the other not: nobody goes on alone
            raise trouble or type(error)(f"rank {other}: {error}")
    return _put_back(content, model, optimizer)


def load_newest(path: str | os.PathLike[str], model: nn.Module, optimizer: Optimizer) -> int:
    """Load the checkpoint of the latest epoch, whichever machine has it, and return the epoch; 0 where none has one.

    All ranks call it. A machine that was away holds an older one, a new machine none: they are given the newest.

    Raises:
        ValueError: some machine's file is broken, or no checkpoint of ours; on every rank.
    """
    content, trouble = _read(Path(path)) if Path(path).is_file() else ({}, None)
    found = of_all_ranks((content.get("epoch", 0), "" if trouble is None else str(trouble)))
    for other, (_, error) in enumerate(found):
        if error:
            raise ValueError(f"rank {other}: {error}")
    epochs = [epoch for epoch, _ in found]
    if max(epochs) == 0:
        return 0
    if min(epochs) < max(epochs):  # not all have it
        whole = [content]
        dist.broadcast_object_list(whole, src=epochs.index(max(epochs)))
        content = whole[0]
    return _put_back(content, model, optimizer)


def of_all_ranks(value: T) -> list[T]:
    """Return what each rank brought, by rank: nobody has it before all have come."""
    values = [value] * rank_and_world_size()[1]
    if len(values) > 1:
        dist.all_gather_object(values, value)
    return values


def _put_back(content: dict[str, Any], model: nn.Module, optimizer: Optimizer) -> int:
    unwrapped(model).load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    rank, world_size = rank_and_world_size()
    if len(content["random_states"]) == world_size:
        _set_random_states(content["random_states"][rank], _device_of(model))
    return int(content["epoch"])


def _write(path: Path, content: dict[str, Any], ending: str) -> None:
    """In full beside it, then by another name: a write that is cut off leaves the last good file alone."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}")
    unfinished = path.with_name(path.name + ending)
    try:
        with unfinished.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())  # on the disk, not only on its way there
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)  # a disk that is full needs the room
        raise


def _read(path: Path) -> tuple[dict[str, Any], Exception | None]:
    """The checkpoint, or what is wrong with it."""
    if not path.is_file():
        return {}, FileNotFoundError(f"there is no checkpoint {path}")
    try:
        # weights_only: a file from elsewhere may hold code, and would run it when it is opened
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of many kinds: what is no file of torch's, or the half of one
        reason = str(error).strip().partition("\n")[0]
        return {}, ValueError(f"{path} cannot be read as a checkpoint ({type(error).__name__}: {reason})")
    if not isinstance(content, dict) or not content.keys() >= PARTS:
        return {}, ValueError(f"{path} is no checkpoint of save_checkpoint: that has {', '.join(sorted(PARTS))}")
    return content, None


def _random_states(device: torch.device) -> dict[str, Any]:
    states: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    return states | {"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else states


def _set_random_states(states: dict[str, Any], device: torch.device) -> None:
    random.setstate(states["python"])
    torch.set_rng_state(states["torch"])
    if "cuda" in states and device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)


def _device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
