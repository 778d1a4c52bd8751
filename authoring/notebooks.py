"""Run the chosen lessons, and write the files that have to change."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat

from authoring.running import CellFailed, run
from authoring.storing import agree, looked_at, stored, tidy

files: Any = nbformat


def store_all(project: Path, wanted: Sequence[str], twice: bool = False, new_pictures: bool = False) -> int:
    """Print the result for each lesson; return 1 if one failed, or differs between two runs."""
    troubles = 0
    for path in chosen(project / "notebooks", wanted):
        began = time.monotonic()
        try:
            said = store(path, project, twice, new_pictures)
        except CellFailed as failure:
            troubles += 1
            said = f"stopped; its file is unchanged: {failure}"
        except NotTheSame as difference:
            troubles += 1
            said = f"two runs differ; its file is unchanged: {difference}"
        print(f"{path.stem} ({time.monotonic() - began:.0f} s): {said}", flush=True)
    return min(troubles, 1)


class NotTheSame(Exception):
    """Two consecutive runs differ; the message names the cells."""


def chosen(folder: Path, wanted: Sequence[str]) -> list[Path]:
    """Lessons by number ("3", "03") or by a part of the name.

    Raises:
        ValueError: no lesson has this name.
    """
    lessons = sorted(folder.glob("[0-9][0-9]_*.ipynb"))
    if not wanted:
        return lessons
    others = sorted(set(folder.glob("*.ipynb")) - set(lessons))
    found: list[Path] = []
    for word in wanted:
        name = Path(word).name.removesuffix(".ipynb")
        fitting = [
            one
            for one in lessons + others
            if one.stem[:2] == name.zfill(2) or (not name.isdigit() and name in one.stem)
        ]
        if not fitting:
            raise ValueError(f"no lesson is called {word!r}: there are {', '.join(one.stem for one in lessons)}")
        found += [one for one in fitting if one not in found]
    return found


def store(path: Path, project: Path, twice: bool = False, new_pictures: bool = False) -> str:
    """Run one lesson, write its file if it has to change, and return a description of the changes."""
    lesson = files.read(path, as_version=4)
    fresh = run(lesson, project)
    if twice:
        compare(fresh, run(lesson, project))
    new, changes = stored(fresh, committed(path) or lesson, new_pictures)
    text = files.writes(new)
    text += "" if text.endswith("\n") else "\n"
    said = [f"new outputs stored: {', '.join(changes.outputs)}"] if changes.outputs else []
    if changes.pictures and not new_pictures:
        said.append(f"pictures look different with the same text, and are not stored: {', '.join(changes.pictures)}")
    if text == path.read_text(encoding="utf-8"):
        return "; ".join(["nothing to change", *said])
    write(path, text)
    return "; ".join(said or ["tidied"])


def compare(first: Any, second: Any) -> None:
    pairs = [(one, other) for one, other in zip(first.cells, second.cells, strict=True) if one.cell_type == "code"]
    if differing := [a.id for a, b in pairs if not agree(tidy(a.outputs), tidy(b.outputs), looked_at(a))]:
        raise NotTheSame(f"cells {', '.join(differing)}. Keep times, process ids and paths out of text")


def committed(path: Path) -> Any | None:
    """The lesson as committed, so that unchanged outputs are restored after a run by hand."""
    command = ["git", "show", f"HEAD:./{path.name}"]
    try:
        shown = subprocess.run(command, cwd=path.parent, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no git, no repository, or a new lesson
        return None
    return files.reads(shown.stdout.decode("utf-8"), as_version=4)


def write(path: Path, text: str) -> None:
    """Write the whole file, or nothing."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(text, encoding="utf-8", newline="\n")
    os.replace(unfinished, path)
