"""Save a training so that it can go on as if it had never stopped.

One rank writes, since all hold the same model; what differs between them are the random states, which it collects.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from ddp_lessons.train.networks import unwrapped
from ddp_lessons.train.sampling import rank_and_world_size


def save_checkpoint(path: str | os.PathLike[str], model: nn.Module, optimizer: Optimizer, epoch: int) -> None:
    """Write model, optimizer, epoch and every rank's random states. All ranks call it, and come back when it is there.

    Raises:
        OSError: it could not be written, on every rank; the file that was there before is still there.
    """
    rank, world_size = rank_and_world_size()
    states = [_random_states()] * world_size
    if world_size > 1:
        dist.all_gather_object(states, _random_states())
    trouble = [""]
    # the rank in the world, not the one on this machine: on two machines that would be two writers
    if rank == 0:
        # without the wrapper's "module." before each name, so that one process alone can load it as well
        content = {"model": unwrapped(model).state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        try:
            _write(Path(path), content | {"random_states": states})
        except (OSError, RuntimeError) as error:  # torch's writer says RuntimeError when the disk is full
            trouble = [f"{type(error).__name__}: {error}"]
    if world_size > 1:
        dist.broadcast_object_list(trouble, src=0)  # nobody goes on before it is written
    if trouble[0]:
        raise OSError(f"checkpoint {os.fspath(path)} could not be written ({trouble[0]})")


def load_checkpoint(path: str | os.PathLike[str], model: nn.Module, optimizer: Optimizer) -> int:
    """Put the model, the optimizer and this rank's random states back, and return the epoch. All ranks call it.

    With another number of ranks than it was saved with, the random states stay what they are.
    """
    rank, world_size = rank_and_world_size()
    content = torch.load(path, map_location="cpu", weights_only=True)
    unwrapped(model).load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    if len(content["random_states"]) == world_size:
        _set_random_states(content["random_states"][rank])
    return int(content["epoch"])


def _write(path: Path, content: dict[str, Any]) -> None:
    """In full beside it, then by another name: a write that is cut off leaves the last good file alone."""
    unfinished = path.with_name(path.name + ".unfinished")
    with unfinished.open("wb") as file:
        torch.save(content, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _random_states() -> dict[str, Any]:
    states: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    return states | {"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_initialized() else states


def _set_random_states(states: dict[str, Any]) -> None:
    random.setstate(states["python"])
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
