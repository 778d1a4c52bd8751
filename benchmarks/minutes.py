"""How long the cells of each lesson run, compared with the minutes that an instructor plans.

`make lessons AT_ONCE=1` runs the lessons with nbval, one after the other, and writes the seconds into
build/minutes.json. An instructor waits while cells run: more than a tenth of the minutes for teaching is too much.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .tables import markdown_table, plain_table

PROJECT = Path(__file__).parent.parent
NOTEBOOKS = PROJECT / "notebooks"
GUIDE = PROJECT / "docs" / "instructor" / "index.md"
HEADER = ("lesson", "cells run for, s", "teaching, min", "exercises, min", "share of teaching")
BEGIN, END = "<!-- cells: written by python -m benchmarks.minutes FILE --write -->", "<!-- end of cells -->"


@dataclass(frozen=True)
class Planned:
    """The plan from a lesson's metadata, and what was measured."""

    name: str
    teach_minutes: int
    exercise_minutes: int
    seconds: float | None

    @property
    def share(self) -> float | None:
        return None if self.seconds is None else self.seconds / 60 / self.teach_minutes

    def row(self, step: int) -> tuple[str, ...]:
        """Seconds are rounded up to steps, so that a stored table does not change with each run."""
        planned = (str(self.teach_minutes), str(self.exercise_minutes))
        if self.seconds is None or self.share is None:
            return self.name, "-", *planned, "-"
        return self.name, str(math.ceil(self.seconds / step) * step), *planned, f"{math.ceil(100 * self.share)} %"


def planned(seconds: Mapping[str, float], notebooks: Path = NOTEBOOKS) -> list[Planned]:
    found = []
    for file in sorted(notebooks.glob("[0-9][0-9]_*.ipynb")):
        minutes = json.loads(file.read_text(encoding="utf-8"))["metadata"]["ddp_lessons"]["minutes"]
        teach, exercise = (sum(minutes[kind].values()) for kind in ("teach", "exercise"))
        found.append(Planned(file.stem, teach, exercise, seconds.get(file.stem)))
    return found


def named_run() -> str:
    """A description of this run, because seconds differ between machines and days."""
    today, torch = datetime.date.today(), importlib.metadata.version("torch")
    return f"Run on {today.day} {today:%B %Y}, {os.cpu_count()} cores, torch {torch}, one lesson at a time."


def put_into_guide(lessons: Sequence[Planned], guide: Path = GUIDE) -> None:
    table = markdown_table(HEADER, [lesson.row(step=10) for lesson in lessons])
    text = guide.read_text(encoding="utf-8")
    begin, end = re.escape(BEGIN), re.escape(END)
    changed, count = re.subn(
        f"{begin}.*?{end}", lambda _: f"{BEGIN}\n\n{named_run()}\n\n{table}\n\n{END}", text, flags=re.S
    )
    if count != 1:
        raise SystemExit(f"{guide.name} needs these two lines once: {BEGIN} and {END}")
    guide.write_text(changed, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.minutes", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", default=PROJECT / "build" / "minutes.json")
    parser.add_argument("--write", action="store_true", help="write the table into the instructor guide")
    asked = parser.parse_args(arguments)
    lessons = planned(json.loads(asked.file.read_text(encoding="utf-8")))
    print(plain_table(HEADER, [lesson.row(step=1) for lesson in lessons]))
    if asked.write:
        put_into_guide(lessons)


if __name__ == "__main__":
    main()
