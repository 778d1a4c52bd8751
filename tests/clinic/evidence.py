"""What the files of each case say, read without the package: of the stored files and of new ones."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

INNERMOST = re.compile(r'/job/train\.py", line (\d+),? in (\S+)')
COLLECTIVE = re.compile(r'distributed_c10d\.py", line \d+ in (\w+)')


def evidence(number: int, folder: Path) -> dict[int, object]:
    """By rank, in a form of its own for each case."""
    return READERS[number](folder)


def calls_in_dumps(folder: Path) -> dict[int, object]:
    """The number of calls, and the last one."""
    found: dict[int, object] = {}
    for file in sorted((folder / "dumps").iterdir()):
        entries = pickle.loads(file.read_bytes())["entries"]
        found[int(file.name[-1])] = (len(entries), entries[-1]["profiling_name"], entries[-1]["input_sizes"])
    return found


def places(folder: Path) -> dict[int, object]:
    """The collective ("": none) and the innermost function of the job, in each listing; the line in a collective."""
    found: dict[int, object] = {}
    for file in sorted(folder.glob("stacks*.txt")):
        for part in file.read_text().split("rank ")[1:]:
            rank, (line, function), calls = int(part[0]), INNERMOST.findall(part)[0], COLLECTIVE.findall(part)
            seen = (calls[0], int(line)) if calls else ("", function)
            found[rank] = (*found.get(rank, ()), seen)  # type: ignore[misc]
    return found


def shapes(folder: Path) -> dict[int, object]:
    """Of the collective that TORCH_DISTRIBUTED_DEBUG=DETAIL refused."""
    text = (folder / "job.log").read_text()
    told = re.findall(r"Rank (\d) is running collective: \S+SequenceNumber=1, OpType=(\w+), TensorShape=\[(\d)\]", text)
    return {int(rank): (operation, int(size)) for rank, operation, size in sorted(told)}


def failures(folder: Path) -> dict[int, object]:
    """The innermost line of each rank that raised, and whether it only lost a connection."""
    found: dict[int, object] = {}
    lines = re.findall(r"^\[default(\d)\]:\[rank\d\]: (.*)$", (folder / "job.log").read_text(), re.MULTILINE)
    for rank in sorted({int(rank) for rank, _ in lines}):
        text = "\n".join(said for one, said in lines if int(one) == rank)
        place = re.findall(r'/job/train\.py", line (\d+)', text)[-1]
        found[rank] = (int(place), "Connection" in text, "can't allocate memory" in text)
    return found


READERS = {1: calls_in_dumps, 2: places, 3: calls_in_dumps, 4: shapes, 5: failures, 6: places}
EXPECTED: dict[int, dict[int, object]] = {
    1: {0: (3, "gloo:all_reduce", [[1, 1]]), 1: (3, "gloo:all_reduce", [[1, 1]]), 2: (3, "gloo:barrier", [])},
    2: {0: (("barrier", 23),), 1: (("all_reduce", 17),), 2: (("all_reduce", 17),)},
    3: {0: (5, "gloo:all_gather", [[6]]), 1: (5, "gloo:all_gather", [[6]]), 2: (5, "gloo:all_reduce", [[2]])},
    4: {0: ("ALLGATHER", 2), 1: ("ALLGATHER", 2), 2: ("ALLGATHER", 1)},
    5: {1: (14, False, True)},  # of the others only some have time to say that they lost the connection
    6: {
        0: (("all_reduce", 39), ("all_reduce", 39)),
        1: (("", "count_letters"), ("", "count_pairs")),
        2: (("all_reduce", 39), ("all_reduce", 39)),
    },
}


def holds(number: int, folder: Path) -> bool:
    found = evidence(number, folder)
    if number == 5:
        others = [seen for rank, seen in found.items() if rank != 1]
        return found[1] == EXPECTED[5][1] and bool(others) and all(seen == (20, True, False) for seen in others)
    return found == EXPECTED[number]
