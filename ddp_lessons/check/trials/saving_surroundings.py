"""The environment of a function that saves: torchrun's variables, a folder, and a disk that may be full."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator

import torch.distributed as dist


@contextlib.contextmanager
def variables_of_torchrun(rank: int, on_two_machines: bool) -> Iterator[None]:
    """Set torchrun's variables. With two nodes, two ranks have LOCAL_RANK 0."""
    before = dict(os.environ)
    world_size = dist.get_world_size()
    on_each = -(-world_size // 2) if on_two_machines else world_size
    os.environ |= {
        "LOCAL_RANK": str(rank % on_each),
        "LOCAL_WORLD_SIZE": str(on_each),
        "GROUP_RANK": str(rank // on_each),
    }
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def in_folder(folder: str) -> Iterator[None]:
    """Files with relative paths go to this folder, and not next to the notebook."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def files_no_longer_than(most_bytes: int | None) -> Iterator[None]:
    """Let no file grow beyond a limit, as on a full disk."""
    if most_bytes is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
