"""`python -m ddp_lessons export`: write a lesson as an assignment into the folder of a course."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ddp_lessons.own_files import NOTEBOOKS, write_whole

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]


def add_export(commands: Commands) -> None:
    export = commands.add_parser(
        "export",
        help="write a lesson as an assignment for nbgrader or Otter, for courses that grade",
        description="Write a lesson as an assignment in the instructor's form, with solutions. Each exercise is worth "
        "one point, and its check is the test. The grader makes the students' form without solutions.",
    )
    export.add_argument("--for", dest="grader", choices=("nbgrader", "otter"), required=True, help="which grader")
    export.add_argument("--notebooks", type=Path, default=NOTEBOOKS, help="where the lessons are")
    export.add_argument("lesson", help="number or name of the lesson")
    export.add_argument("folder", type=Path, nargs="?", default=Path("graded"), help="your course's folder (graded)")
    export.set_defaults(run=_export)


def _export(chosen: argparse.Namespace) -> int:
    from ddp_lessons.workshop.grading import assignments

    try:
        lesson = assignments.lesson_file(chosen.notebooks, chosen.lesson)
        if chosen.grader == "nbgrader":
            notebook, tasks = assignments.assignment(lesson, assignments.nbgrader_cells)
            place = chosen.folder / "source" / lesson.stem / lesson.name
            after = f"nbgrader generate_assignment {lesson.stem}"
        else:
            notebook, tasks = assignments.otter_assignment(lesson)
            place = chosen.folder / lesson.stem / lesson.name
            after = f"otter assign {lesson.stem}/{lesson.name} dist/{lesson.stem}"
        _write(place, notebook, chosen.notebooks)
        if chosen.grader == "nbgrader":
            _configure(chosen.folder, assignments.NBGRADER_CONFIG)
    except (LookupError, OSError) as error:
        print(error.args[0] if isinstance(error, LookupError) else error, file=sys.stderr)
        return 1
    print(f"{place}: {_points(len(tasks))}. Next, in the folder {chosen.folder}:\n  {after}")
    return 0


def _write(place: Path, notebook: dict[str, Any], notebooks: Path) -> None:
    if place.exists():
        raise FileExistsError(f"{place} exists, and you may have edited it. Delete it, or name another folder.")
    place.parent.mkdir(parents=True, exist_ok=True)
    write_whole(place, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", mode=0o666)
    glossary = (notebooks / "glossary.md").read_text(encoding="utf-8")  # the lesson links to it
    write_whole(place.parent / "glossary.md", glossary, mode=0o666)


def _configure(folder: Path, lines: str) -> None:
    """The course may have settings of its own, which stay."""
    config = folder / "nbgrader_config.py"
    if not config.exists():
        write_whole(config, lines, mode=0o666)
    elif config.read_text(encoding="utf-8") != lines:
        print(f"{config} is unchanged. Make sure that it contains what these lines set:\n\n{lines}")


def _points(number: int) -> str:
    return "1 exercise, 1 point" if number == 1 else f"{number} exercises, {number} points"
