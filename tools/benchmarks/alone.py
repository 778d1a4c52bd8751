"""One rank of a program, started in the way of torchrun, with no help except torch's own.

python -m tools.benchmarks.alone NAME FOLDER SECONDS: unless SECONDS is empty, a monitored_barrier with this timeout
precedes each relevant call. Times are logged in the folder. A rank that has finished stays alive.
"""

import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from catalog.mistakes import MISTAKES
from torch.nn.parallel import DistributedDataParallel

GUARDED = [(dist, name) for name in ("all_reduce", "broadcast", "send", "new_group")]


def main(name: str, folder: str, barrier_seconds: str) -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    (mistake,) = [mistake for mistake in MISTAKES if mistake.name == name]
    torch.set_num_threads(1)
    if mistake.join:
        dist.init_process_group("gloo")
        dist.barrier()
    with Path(folder, f"{rank}.notes").open("w") as file:

        def note(what: str) -> None:
            print(what, time.perf_counter(), file=file, flush=True)

        def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(call)
            def wrapper(*args: Any, **options: Any) -> Any:
                note("called")
                if barrier_seconds:
                    dist.monitored_barrier(timeout=timedelta(seconds=float(barrier_seconds)), wait_all_ranks=True)
                return call(*args, **options)

            return wrapper

        for owner, call in [*GUARDED, (DistributedDataParallel, "forward")]:
            setattr(owner, call, guarded(getattr(owner, call)))
        note("began")
        try:
            mistake.function(rank, world_size)
        except Exception:
            note("raised")
            raise
        note("ended")
        time.sleep(3600)  # stay alive until it is killed, as a rank that has finished does in a notebook


if __name__ == "__main__":
    main(*sys.argv[1:])
