"""The lessons as last committed. Readers don't see what was run in this clone since then."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # authoring/ and docs/ are not installed


def lessons() -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))]


def read_lesson(lesson: str, folder: Path = ROOT) -> Any:
    return nbformat.reads(source_of(lesson, folder), as_version=4)  # type: ignore[no-untyped-call]


@cache
def source_of(lesson: str, folder: Path = ROOT) -> str:
    """The committed version. A lesson that git does not know is read from the folder."""
    here = (folder / lesson).read_text(encoding="utf-8")
    try:
        asked = ["git", "show", f"HEAD:./{lesson}"]
        committed = subprocess.run(asked, cwd=folder, capture_output=True, encoding="utf-8", check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        print(f"{lesson}: git has no committed version, so this is the one in the folder", file=sys.stderr)
        return here
    if committed != here:
        print(f"{lesson} was changed since the last commit; shown is what was committed", file=sys.stderr)
    return committed


def number_of(lesson: str) -> int:
    return int(Path(lesson).name[:2])


def title_of(lesson: str) -> str:
    heading = re.search(r"^# (.+)$", read_lesson(lesson).cells[0].source, re.M)
    return heading[1].replace("`", "") if heading else lesson


def minutes_of(lesson: str) -> int:
    """The minutes in its opening, which a test compares with the lesson's plan."""
    said = re.search(r"\*\*Time:\*\* (\d+) minutes", read_lesson(lesson).cells[0].source)
    return int(said[1]) if said else 0
