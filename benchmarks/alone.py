"""One rank of a program, started by hand as torchrun does it, with no help but torch's own.

python -m benchmarks.alone NAME FOLDER [SECONDS]: with SECONDS, a monitored_barrier of that patience is put
before each of the calls that matter. Moments are noted in the folder. A rank that is through lives on.
"""

import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, TextIO

import torch
import torch.distributed as dist
from catalog.mistakes import MISTAKES
from torch.nn.parallel import DistributedDataParallel

GUARDED = ("all_reduce", "broadcast", "send", "new_group")


def note(file: TextIO, what: str) -> None:
    print(what, time.perf_counter(), file=file, flush=True)


def guarded(call: Callable[..., Any], file: TextIO, barrier_seconds: float | None) -> Callable[..., Any]:
    @wraps(call)
    def wrapper(*args: Any, **options: Any) -> Any:
        note(file, "called")
        if barrier_seconds is not None:
            dist.monitored_barrier(timeout=timedelta(seconds=barrier_seconds), wait_all_ranks=True)
        return call(*args, **options)

    return wrapper


def guard(file: TextIO, barrier_seconds: float | None) -> None:
    for name in GUARDED:
        setattr(dist, name, guarded(getattr(dist, name), file, barrier_seconds))
    setattr(DistributedDataParallel, "forward", guarded(DistributedDataParallel.forward, file, barrier_seconds))  # noqa: B010


def main(name: str, folder: str, barrier_seconds: float | None = None) -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    (mistake,) = [mistake for mistake in MISTAKES if mistake.name == name]
    torch.set_num_threads(1)
    if mistake.join:
        dist.init_process_group("gloo")
        dist.barrier()
    with open(Path(folder, str(rank)), "w") as file:
        guard(file, barrier_seconds)
        note(file, "began")
        try:
            mistake.function(rank, world_size)
        except Exception:
            note(file, "raised")
            raise
        note(file, "ended")
        time.sleep(3600)  # lives on, as a rank that is through does in a notebook, until it is ended


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:]))
