"""Ranks that a job script starts without torchrun: then the script must set the variables of each rank."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from ddp_lessons.check.trials import slurm_stand_ins
from ddp_lessons.check.trials.rehearsal import Rehearsal, Start

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def program_of(start: Start) -> tuple[str, list[str]]:
    """The name of the file that this Python runs, and its arguments."""
    words = list(start.words)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "-m" and words:
            return f"{words[0].rpartition('.')[2]}.py", words[1:]
        if option in ("-W", "-X") and words:
            words.pop(0)
    return (os.path.basename(words[0]), words[1:]) if words else ("", [])


def mistakes_of(rehearsal: Rehearsal, ranks: Sequence[Start], gpus: int) -> list[str]:
    """What is wrong with the started ranks, as sentences."""
    found = [_wrong_count(rehearsal, ranks, gpus), _not_told(ranks)]
    if not any(found):
        found = [_wrong_numbers(rehearsal, ranks), _wrong_place(ranks)]
    return [sentence for sentence in found if sentence]


def _wrong_count(rehearsal: Rehearsal, ranks: Sequence[Start], gpus: int) -> str:
    counts = Counter(rank.machine for rank in ranks)
    for machine in range(rehearsal.machines):
        if counts[machine] == gpus:
            continue
        if not any(rank.step for rank in ranks):
            return (
                "Without srun all ranks start on the first node, because Slurm runs a job script there only. "
                "Launch the ranks with srun."
            )
        name = slurm_stand_ins.NAME.format(machine + 1)
        ranks_there = f"{counts[machine]} {'rank' if counts[machine] == 1 else 'ranks'}"
        return f"The job starts {ranks_there} on {name}, which has {gpus} GPUs. Start one rank per GPU."
    return ""


def _not_told(ranks: Sequence[Start]) -> str:
    missing = [name for name in _NEEDED if any(not _told(rank, name) for rank in ranks)]
    if not missing:
        return ""
    return (
        f"Not every rank has {', '.join(missing)}, which torchrun would have set. Set each variable for every rank, "
        f"for example RANK from SLURM_PROCID."
    )


def _wrong_numbers(rehearsal: Rehearsal, ranks: Sequence[Start]) -> str:
    numbers = sorted(_told(rank, "RANK") for rank in ranks)
    if numbers != sorted(map(str, range(len(ranks)))):
        return (
            f"Each rank needs its own RANK from 0 to {len(ranks) - 1}, but these have {', '.join(numbers)}. Set "
            f"RANK from SLURM_PROCID."
        )
    sizes = {_told(rank, "WORLD_SIZE") for rank in ranks}
    if sizes != {str(len(ranks))}:
        return (
            f"WORLD_SIZE is {' or '.join(sorted(sizes))}, but there are {len(ranks)} ranks. Set WORLD_SIZE to "
            f"{len(ranks)}."
        )
    for machine in range(rehearsal.machines):
        local = sorted(_told(rank, "LOCAL_RANK") for rank in ranks if rank.machine == machine)
        if any(local) and local != sorted(map(str, range(len(local)))):
            name = slurm_stand_ins.NAME.format(machine + 1)
            return (
                f"LOCAL_RANK starts at 0 on each node, but the ranks on {name} have {', '.join(local)}. Set "
                f"LOCAL_RANK from SLURM_LOCALID."
            )
    return ""


def _wrong_place(ranks: Sequence[Start]) -> str:
    places = sorted({f"{_told(rank, 'MASTER_ADDR')}:{_told(rank, 'MASTER_PORT')}" for rank in ranks})
    if len(places) > 1:
        return (
            f"The ranks have different rendezvous addresses ({', '.join(places[:2])}). On every rank, set "
            "MASTER_ADDR to the name of rank 0's node and MASTER_PORT to the same number."
        )
    first = next(rank.machine for rank in ranks if _told(rank, "RANK") == "0") + 1
    host = places[0].rpartition(":")[0]
    if host not in (slurm_stand_ins.NAME.format(first), slurm_stand_ins.ADDRESS.format(first)):
        return (
            f"MASTER_ADDR is {host!r}, but rank 0 runs on {slurm_stand_ins.NAME.format(first)}. Set MASTER_ADDR to "
            f"that node."
        )
    return ""


def _told(rank: Start, name: str) -> str:
    return dict(rank.variables).get(name, "")
