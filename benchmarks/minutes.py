"""How long the cells of each lesson run, compared with the minutes that an instructor plans.

`make test` runs all lessons with nbval, and the variable DDP_LESSONS_MINUTES names a file for the seconds. An
instructor waits while cells run, so they may take a tenth of the teaching minutes on the machine whose run the guide
shows. If most lessons take longer than there, the machine is slower, and the limit allows for that, up to a fifth.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from .tables import markdown_table, plain_table

PROJECT = Path(__file__).parent.parent
NOTEBOOKS = PROJECT / "notebooks"
GUIDE = PROJECT / "docs" / "instructor" / "index.md"
LIMIT = 0.1  # of the teaching minutes
MOST_SLOWER = 2.0
OVERLOADED = 4.5  # mean number of processes per core; three lessons at a time need about three
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

    def trouble(self, most: float = LIMIT) -> str:
        if self.share is None:
            return f"{self.name}: no cell of it was run"
        if self.share > most:
            return f"{self.name}: its cells take {self.share:.0%} of the minutes for teaching; at most {most:.0%}"
        return ""

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


def wanting_each_core() -> float:
    """The number of processes per core, over the last five minutes."""
    return os.getloadavg()[1] / (os.cpu_count() or 1)


def slower_than_kept(lessons: Sequence[Planned], guide: Path) -> float:
    """How many times as long most lessons took as in the guide's table; from 1 to 2."""
    rows = re.findall(r"^\| *(\w+) *\| *(\d+) *\|", guide.read_text(encoding="utf-8").partition(BEGIN)[2], re.M)
    kept = {name: int(seconds) for name, seconds in rows}
    ratios = [lesson.seconds / kept[lesson.name] for lesson in lessons if lesson.seconds and kept.get(lesson.name)]
    return min(MOST_SLOWER, max(1.0, median(ratios or [1.0])))


def named_run() -> str:
    """A description of this run, because seconds differ between machines and days."""
    today, torch = datetime.date.today(), importlib.metadata.version("torch")
    return f"Run on {today.day} {today:%B %Y}, {os.cpu_count()} cores, torch {torch}, three lessons at a time."


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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.minutes", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, help="the file that DDP_LESSONS_MINUTES named for nbval")
    parser.add_argument("--write", action="store_true", help="write the table into the instructor guide")
    asked = parser.parse_args(arguments)
    lessons = planned(json.loads(asked.file.read_text(encoding="utf-8")))
    print(plain_table(HEADER, [lesson.row(step=1) for lesson in lessons]))
    busy, slower = wanting_each_core(), 1.0 if asked.write else slower_than_kept(lessons, GUIDE)
    most = LIMIT * slower if busy <= OVERLOADED else math.inf
    troubles = [trouble for lesson in lessons if (trouble := lesson.trouble(most))]
    print(*troubles, sep="\n", file=sys.stderr)
    if busy > OVERLOADED:
        print(f"{busy:.1f} processes wanted each core: such seconds say nothing, and none were compared")
    elif asked.write and not troubles:
        put_into_guide(lessons)
    elif slower > 1:
        print(f"most lessons took {slower:.1f} times as long as in the guide (or more), and the limit allows for that")
    return int(bool(troubles))


if __name__ == "__main__":
    sys.exit(main())
