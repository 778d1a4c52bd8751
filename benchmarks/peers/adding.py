"""Helpers for tools that return nothing or choose no port: ranks that write their sum to a file, and a free port."""

import os
import socket
import time
from pathlib import Path

import torch
import torch.distributed as dist


def join_and_add(rank: int, world_size: int, folder: str) -> None:
    """Join the group that the environment describes, and write this rank's result."""
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    total = torch.ones(1) * rank
    dist.all_reduce(total)
    Path(folder, str(rank)).write_text(str(total.item()))


def add_up(rank: int, world_size: int, folder: str) -> None:
    """Everything that a rank does."""
    join_and_add(rank, world_size, folder)
    dist.destroy_process_group()


def add_up_at(rank: int, world_size: int, folder: str, port: int) -> None:
    """The same for tools that set no environment."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    add_up(rank, world_size, folder)


def add_up_and_sleep(rank: int, world_size: int, folder: str, port: int) -> None:
    """Join, add, write, and stay idle."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    join_and_add(rank, world_size, folder)
    time.sleep(3600)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def written_answers(folder: str, world_size: int) -> list[float]:
    return [float(Path(folder, str(rank)).read_text()) for rank in range(world_size)]
