"""The files of a case, put into the current folder, where plain tools read them."""

from __future__ import annotations

import os
import pickle
import shutil
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons.clinic.clinic_cases import case_of, folder_of, how_to_answer


@dataclass(frozen=True, repr=False)
class CaseFiles:
    """What a job left behind, in `folder`. It displays itself as the last line of a cell."""

    number: int
    folder: Path

    @property
    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def __repr__(self) -> str:
        one = case_of(self.number)
        listed = [f"    {path.as_posix()}" for path in self.files]
        told = [f"Case {self.number}: {one.title}", f"  {one.symptom}", f"  $ {one.command}"]
        return "\n".join([*told, *listed, how_to_answer(self.number)])


def case(number: int) -> CaseFiles:
    """Copy the files of a case into the folder `case_1`, `case_2` and so on, and say what the job was.

    Raises:
        ValueError: there is no case with this number.
    """
    case_of(number)
    source, folder = folder_of(number), Path(f"case_{number}")
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        name = "train.py" if file.name == "train.py.txt" else file.name
        copy = folder / file.relative_to(source).with_name(name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        if file.parent.name == "dumps":
            _give_its_time(copy)
    return CaseFiles(number, folder)


def _give_its_time(dump: Path) -> None:
    """`explain` takes the time of torch's file for the time of the dump, which was written at the timeout."""
    entries = pickle.loads(dump.read_bytes())["entries"]  # noqa: S301  of this package
    moment = max(entry["time_created_ns"] / 1e9 + entry["timeout_ms"] / 1e3 for entry in entries)
    os.utime(dump, (moment, moment))
