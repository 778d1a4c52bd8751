"""A program with notes of its process and its moments, in files that outlive a process that is stopped or aborts."""

import os
import time
from collections.abc import Callable
from pathlib import Path


def noted(rank: int, world_size: int, function: Callable[[int, int], object], folder: str) -> object:
    """Call the function. A rank that is stopped notes neither an end nor what it raised."""
    with open(Path(folder, str(rank)), "w", buffering=1) as file:
        print("process", os.getpid(), file=file)
        print("began", time.perf_counter(), file=file)
        try:
            answer = function(rank, world_size)
        except Exception:
            print("raised", time.perf_counter(), file=file)
            raise
        print("ended", time.perf_counter(), file=file)
        return answer


def notes(folder: str) -> dict[str, list[float]]:
    """What all ranks noted. The clock is one for all processes of a machine."""
    found: dict[str, list[float]] = {"process": [], "began": [], "ended": [], "raised": []}
    for file in Path(folder).iterdir():
        for line in file.read_text().splitlines():
            name, number = line.split()
            found[name].append(float(number))
    return found
