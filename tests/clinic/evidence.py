"""What the files of each case say, read without the package: of the stored files and of new ones."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path

INNERMOST = re.compile(r'/job/train\.py", line (\d+),? in (\S+)')
COLLECTIVE = re.compile(r'distributed_c10d\.py", line \d+ in (\w+)')
Evidence = dict[int | str, object]


def calls_in_dumps(folder: Path) -> Evidence:
    """By rank, the number of calls, and the last one."""
    found: Evidence = {}
    for file in sorted((folder / "dumps").iterdir()):
        entries = pickle.loads(file.read_bytes())["entries"]
        found[int(file.name[-1])] = (len(entries), entries[-1]["profiling_name"], entries[-1]["input_sizes"])
    return found


def places(folder: Path) -> Evidence:
    """By rank, in each listing: the collective and its line, or "" and the innermost function of the job."""
    found: dict[int | str, tuple[object, ...]] = {}
    for file in sorted(folder.glob("stacks*.txt")):
        for part in file.read_text().split("rank ")[1:]:
            rank, (line, function), calls = int(part[0]), INNERMOST.findall(part)[0], COLLECTIVE.findall(part)
            found[rank] = (*found.get(rank, ()), (calls[0], int(line)) if calls else ("", function))
    return {**found}


def shapes(folder: Path) -> Evidence:
    """By rank, the collective that TORCH_DISTRIBUTED_DEBUG=DETAIL refused."""
    text = (folder / "job.log").read_text()
    told = re.findall(r"Rank (\d) is running collective: \S+SequenceNumber=1, OpType=(\w+), TensorShape=\[(\d)\]", text)
    return {int(rank): (operation, int(size)) for rank, operation, size in sorted(told)}


def failures(folder: Path) -> Evidence:
    """The innermost line of the rank that had no memory, and of the others, of which only some have time to fail."""
    found: Evidence = {}
    lines = re.findall(r"^\[default(\d)\]:\[rank\d\]: (.*)$", (folder / "job.log").read_text(), re.MULTILINE)
    for rank in sorted({int(rank) for rank, _ in lines}):
        text = "\n".join(said for one, said in lines if int(one) == rank)
        line = int(re.findall(r'/job/train\.py", line (\d+)', text)[-1])
        no_memory = "can't allocate memory" in text
        found[rank if no_memory else "others"] = (line, no_memory, "Connection" in text)
    return found


READERS: dict[int, Callable[[Path], Evidence]] = {
    1: calls_in_dumps,
    2: places,
    3: calls_in_dumps,
    4: shapes,
    5: failures,
    6: places,
}
EXPECTED: dict[int, Evidence] = {
    1: {0: (3, "gloo:all_reduce", [[1, 1]]), 1: (3, "gloo:all_reduce", [[1, 1]]), 2: (3, "gloo:barrier", [])},
    2: {0: (("barrier", 23),), 1: (("all_reduce", 17),), 2: (("all_reduce", 17),)},
    3: {0: (5, "gloo:all_gather", [[6]]), 1: (5, "gloo:all_gather", [[6]]), 2: (5, "gloo:all_reduce", [[2]])},
    4: {0: ("ALLGATHER", 2), 1: ("ALLGATHER", 2), 2: ("ALLGATHER", 1)},
    5: {1: (14, True, False), "others": (20, False, True)},
    6: {
        0: (("all_reduce", 39), ("all_reduce", 39)),
        1: (("", "count_letters"), ("", "count_pairs")),
        2: (("all_reduce", 39), ("all_reduce", 39)),
    },
}
