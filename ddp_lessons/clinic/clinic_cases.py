"""The cases of the clinic: each is a job, its diagnosis, and the files that a real run left behind.

`cases/N.toml` describes a case, and `cases/N/` contains its program and those files.
To run the job again, use `python -m tools.authoring clinic N`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ddp_lessons.dumps.dump_files import read_dump
from ddp_lessons.own_files import read_toml

RULES = {
    "uneven steps": "one rank has fewer steps than the others, so it leaves a loop of collectives early",
    "only some ranks": "a collective is under an `if` that not every rank enters",
    "different order": "the ranks call the same collectives, but not in the same order",
    "different shapes": "the ranks pass tensors of different shapes to a collective",
    "group of members": "only a group's members call `new_group`, which every rank must call",
    "first failure": "one rank raised an exception or was killed, and the others failed because of it",
    "late rank": "the job doesn't hang: the other ranks wait for a rank that is still computing",
}
PROGRAM = "train.py.txt"  # not train.py, which pip would compile and other tools would mistake for one of our modules


@dataclass(frozen=True)
class Case:
    """`lines` and the keys of `repair` and `hints` are line numbers in the job's train.py."""

    number: int
    title: str
    symptom: str
    command: str
    world_size: int
    leaves: Literal["dumps", "log", "stacks"]
    rank: int
    lines: Sequence[int]
    rule: str
    why: str
    repair: Mapping[int, str]  # by line number, its new text
    other_ranks: str  # the hint for a wrong rank
    hints: Mapping[int, str]  # for wrong lines
    other_rules: Mapping[str, str] = field(default_factory=dict)
    looks: int = 1  # how many times the stacks are taken
    waiting: int = 0  # how many ranks are in a collective each time

    @property
    def folder(self) -> Path:
        return _FOLDER / str(self.number)

    @property
    def program(self) -> list[str]:
        """The lines of the job's train.py."""
        return (self.folder / PROGRAM).read_text(encoding="utf-8").splitlines()

    @property
    def how_to_answer(self) -> str:
        return f"Answer with check.diagnosis({self.number}, rank=..., line=..., rule=...)."


@dataclass(frozen=True, repr=False)
class CaseFiles:
    """The files that a job left behind, in `folder`. As the last line of a cell, it displays itself."""

    number: int
    folder: Path

    @property
    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def __repr__(self) -> str:
        one = case_of(self.number)
        listed = [f"    {path.as_posix()}" for path in self.files]
        told = [f"Case {self.number}: {one.title}", f"  {one.symptom}", f"  $ {one.command}"]
        return "\n".join([*told, *listed, one.how_to_answer])


def case(number: int) -> CaseFiles:
    """Copy the files of a case into a folder (`case_1`, `case_2` and so on) and describe the job.

    Raises:
        ValueError: there is no case with this number.
    """
    source, folder = case_of(number).folder, Path(f"case_{number}")
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        copy = folder / file.relative_to(source).with_name("train.py" if file.name == PROGRAM else file.name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)  # without its permissions: the package may be read-only
        if file.parent.name == "dumps":
            _give_its_time(copy)
    return CaseFiles(number, folder)


def case_of(number: int) -> Case:
    """Raises ValueError if there is no such case."""
    if number not in CASES:
        raise ValueError(f"there is no case {number!r}: choose a number from 1 to {len(CASES)}")
    return CASES[number]


def _give_its_time(dump: Path) -> None:
    """Set the file's time to that of the timeout, when the dump was written: `explain` dates torch's dumps by it."""
    moment = max(entry["time_created_ns"] / 1e9 + entry["timeout_ms"] / 1e3 for entry in read_dump(dump)["entries"])
    os.utime(dump, (moment, moment))


def _read(file: Path) -> Case:
    told = read_toml(file)
    for name in ("repair", "hints"):
        told[name] = {int(line): text for line, text in told[name].items()}
    return Case(int(file.stem), **told)


_FOLDER = Path(__file__).with_name("cases")
CASES = {case.number: case for case in map(_read, sorted(_FOLDER.glob("*.toml")))}
