"""Update the instructor guide from the plans in the lessons' metadata."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from benchmarks import minutes


def bring_up_to_date(project: Path) -> list[str]:
    """Return which files were written; none if the project has no guide.

    Raises:
        ValueError: a plan or a page of the guide is missing or incomplete.
    """
    program = project / "docs" / "instructor" / "write.py"
    if not program.is_file():
        return []
    done = subprocess.run([sys.executable, str(program)], cwd=project, capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1]
        raise ValueError(f"the instructor guide was not written: {reason}. Look at the lesson's metadata, ddp_lessons")
    guide = program.with_name("index.md")
    before = guide.read_text(encoding="utf-8")
    after = with_minutes(before, minutes.planned({}, project / "notebooks"))
    said = done.stdout.splitlines()
    if after != before:
        guide.write_text(after, encoding="utf-8")
        said.append(f"{guide.relative_to(project)} written")
    return list(dict.fromkeys(said))


def with_minutes(text: str, lessons: list[minutes.Planned]) -> str:
    """The table of seconds with the current planned minutes. Lessons that were not measured have a dash."""
    before, begin, rest = text.partition(minutes.BEGIN)
    table, end, after = rest.partition(minutes.END)
    rows = {row.split("|")[1].strip(): row for row in re.findall(r"^\| \d\d_.*$", table, re.M)}
    if not rows:
        raise ValueError("docs/instructor/index.md has no table of seconds between its marks")
    widths = [len(cell) for cell in next(iter(rows.values())).strip("|").split("|")]
    new = []
    for lesson in lessons:
        old = rows.get(lesson.name, "")
        _, seconds, teach, exercise, _ = [cell.strip() for cell in old.strip("|").split("|")] if old else [""] * 5
        planned = (str(lesson.teach_minutes), str(lesson.exercise_minutes))
        measured = float(seconds) if seconds.isdigit() else None
        now = minutes.Planned(lesson.name, lesson.teach_minutes, lesson.exercise_minutes, measured).row(step=10)
        new.append(old if (teach, exercise) == planned else in_columns(now, widths))
    head = table[: table.index(next(iter(rows.values())))]
    return before + begin + head + "\n".join(new) + "\n\n" + end + after


def in_columns(cells: tuple[str, ...], widths: list[int]) -> str:
    name, *numbers = cells
    aligned = [f" {name:<{widths[0] - 2}} "]
    aligned += [f" {cell:>{width - 2}} " for cell, width in zip(numbers, widths[1:], strict=True)]
    return "|" + "|".join(aligned) + "|"
