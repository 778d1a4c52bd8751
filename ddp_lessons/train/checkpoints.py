"""Save a training run so that it can resume as if it had never stopped.

One rank writes, because all ranks have the same model. Only the random states differ between ranks, so this rank
collects them. On nodes without a shared disk, one rank on each node can write, and the newest file is used.
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
    """Save the model, optimizer, epoch and all random states. All ranks call this, and return when the file is written.

    Rank 0 writes. With `on_each_machine`, the first rank on each node writes, so that any node may be lost.

    Raises:
        OSError: on every rank, if the file can't be written; an earlier file is kept.
    """
    states = of_all_ranks(_random_states(_device_of(model)))
    trouble = ""
    rank = rank_and_world_size()[0]
    # The global rank, because the local rank is 0 on each node. With `on_each_machine`, several ranks write, which is
    # safe even on a shared disk, because each one writes to its own file until it is complete.
    if (int(os.environ.get("LOCAL_RANK", rank)) if on_each_machine else rank) == 0:
        # without the wrapper's "module." before each name, so that one process can load it too
        content = {"model": unwrapped(model).state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        try:
            _write(Path(path), content | {"random_states": states}, f".{rank}.unfinished" if rank else ".unfinished")
        except Exception as error:  # any error: the others wait for the result
            trouble = f"{type(error).__name__}: {error}"
    for told in of_all_ranks(trouble):  # no rank continues before it is written
        if told:
            raise OSError(f"checkpoint {os.fspath(path)} could not be written ({told})")


def load_checkpoint(path: str | os.PathLike[str], model: nn.Module, optimizer: Optimizer) -> int:
    """Restore the model, the optimizer and this rank's random states, and return the epoch. All ranks call it.

    If the world size has changed since the checkpoint was saved, the random states are not restored. With three or more
    ranks, the last bits may differ after a resume, because the first step of DistributedDataParallel uses different
    buckets from the later ones, so it adds up in a different order (find_unused_parameters=True keeps the buckets).

    Raises:
        FileNotFoundError: on every rank, if a rank doesn't find the file.
        ValueError: on every rank, if the file is damaged or is not a checkpoint of this module.
    """
    content, trouble = _read(Path(path))
    for other, error in enumerate(of_all_ranks(trouble)):
        if error:  # one of two nodes may lack the file; then no rank continues
            raise trouble or type(error)(f"rank {other}: {error}")
    return _put_back(content, model, optimizer)


def load_newest(path: str | os.PathLike[str], model: nn.Module, optimizer: Optimizer) -> int:
    """Load the checkpoint of the latest epoch from the node that has it, and return the epoch, or 0 if there is none.

    All ranks call it. A node that was lost for a while has an older checkpoint and a new one none; both get the newest.

    Raises:
        ValueError: on every rank, if a node's file is damaged or is not a checkpoint of this module.
    """
    content, trouble = _read(Path(path)) if Path(path).is_file() else ({}, None)
    found = of_all_ranks((content.get("epoch", 0), "" if trouble is None else str(trouble)))
    for other, (_, error) in enumerate(found):
        if error:
            raise ValueError(f"rank {other}: {error}")
    epochs = [epoch for epoch, _ in found]
    if max(epochs) == 0:
        return 0
    if min(epochs) < max(epochs):  # some ranks lack it
        whole = [content]
        dist.broadcast_object_list(whole, src=epochs.index(max(epochs)))
        content = whole[0]
    return _put_back(content, model, optimizer)


def of_all_ranks(value: T) -> list[T]:
    """Return each rank's object, by rank, once all ranks have called this."""
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
    """Write a new file, then rename it, so that an interrupted write leaves the last good file unchanged."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}")
    unfinished = path.with_name(path.name + ending)
    try:
        with unfinished.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())  # now it is on the disk, not in a buffer
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)  # free the space on a full disk
        raise


def _read(path: Path) -> tuple[dict[str, Any], Exception | None]:
    """The checkpoint, or the error."""
    if not path.is_file():
        return {}, FileNotFoundError(f"there is no checkpoint {path}")
    try:
        # weights_only, because a file from elsewhere may contain code that runs when it is loaded
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # many kinds of errors, for files that torch did not write or that are incomplete
        reason = str(error).strip().partition("\n")[0]
        return {}, ValueError(f"{path} cannot be read as a checkpoint ({type(error).__name__}: {reason})")
    if not isinstance(content, dict) or not content.keys() >= PARTS:
        return {}, ValueError(f"{path} was not written by save_checkpoint: it must hold {', '.join(sorted(PARTS))}")
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
