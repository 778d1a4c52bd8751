"""`python -m ddp_lessons export`: a lesson as an assignment in the instructor's form, for nbgrader or Otter Assign.

Both tools make the students' form from it: they remove the solutions, and keep the rest of the lesson as it is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ddp_lessons.own_files import write_whole
from ddp_lessons.workshop.grading import Task, task_in
from ddp_lessons.workshop.working_copy import LESSONS, without_outputs

Cell = dict[str, Any]

NBGRADER_CONFIG = """\
# Written by `python -m ddp_lessons export`. Without these lines, nbgrader stops a cell after 30 seconds, and adds
# `raise NotImplementedError()` to each exercise, which then has to be deleted.
import os

c = get_config()
c.Execute.timeout = 900
c.ClearSolutions.code_stub = {"python": ""}
os.environ["DDP_LESSONS_PROGRESS"] = "off"  # grading leaves your own progress file alone
"""


def export(grader: str, lesson: str, notebooks: Path, folder: Path) -> int:
    """Write the lesson as an assignment into the folder of a course, and say what to run next."""
    try:
        file = lesson_file(notebooks, lesson)
        if grader == "nbgrader":
            notebook, tasks = assignment(file, nbgrader_cells)
            place, after = folder / "source" / file.stem / file.name, f"nbgrader generate_assignment {file.stem}"
        else:
            notebook, tasks = otter_assignment(file)
            place, after = folder / file.stem / file.name, f"otter assign {file.stem}/{file.name} dist/{file.stem}"
        if place.exists():
            raise FileExistsError(
                f"{place} already exists, and you may have edited it. Delete it, or choose another folder."
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", mode=0o666)
        glossary = (notebooks / "glossary.md").read_text(encoding="utf-8")  # the lesson links to it
        write_whole(place.parent / "glossary.md", glossary, mode=0o666)
        if grader == "nbgrader":
            _configure_nbgrader(folder / "nbgrader_config.py")
    except (LookupError, OSError) as error:
        print(error.args[0] if isinstance(error, LookupError) else error, file=sys.stderr)
        return 1
    points = "1 exercise, 1 point" if len(tasks) == 1 else f"{len(tasks)} exercises, {len(tasks)} points"
    print(f"{place}: {points}. Next, in the folder {folder}:\n  {after}")
    return 0


def _configure_nbgrader(config: Path) -> None:
    """The course may have settings of its own, which stay."""
    if not config.exists():
        write_whole(config, NBGRADER_CONFIG, mode=0o666)
    elif config.read_text(encoding="utf-8") != NBGRADER_CONFIG:
        print(f"{config} is unchanged. Make sure that it has the same settings as these lines:\n\n{NBGRADER_CONFIG}")


def lesson_file(source: Path, lesson: str) -> Path:
    """The notebook of the lesson with this number or name.

    Raises:
        LookupError: there is none.
    """
    for file in sorted(source.glob(LESSONS)):
        if lesson.removesuffix(".ipynb") == file.stem or (lesson.isdecimal() and int(lesson) == int(file.stem[:2])):
            return file
    raise LookupError(f"There is no lesson {lesson} in {source}. Choose one by its number, such as 3.")


def assignment(lesson: Path, cells_of: Callable[[Cell, Task], Iterator[Cell]]) -> tuple[Cell, list[Task]]:
    """The lesson without outputs, with the cells that a grader expects for each task.

    Raises:
        LookupError: the lesson has no exercise with a check.
    """
    notebook, cells, tasks = json.loads(without_outputs(lesson)), list[Cell](), list[Task]()
    for cell in notebook["cells"]:
        task = task_in("".join(cell["source"])) if cell["cell_type"] == "code" else None
        tasks += [task] if task else []
        cells += cells_of(cell, task) if task else [cell]
    if not tasks:
        raise LookupError(f"{lesson.stem} has no exercise with a check, so there is nothing to grade.")
    return {**notebook, "cells": cells}, tasks


def nbgrader_cells(cell: Cell, task: Task) -> Iterator[Cell]:
    """The student's cell, and the locked test, which is worth one point.

    A cell without a solution gets no mark, because nbgrader would remove its whole text.
    """
    source = _with_solution(task, "### BEGIN SOLUTION", "### END SOLUTION")
    marks = {"schema_version": 3, "task": False}
    answer = {**marks, "grade": False, "grade_id": task.name, "locked": False, "solution": True}
    metadata = {**cell["metadata"], "nbgrader": answer} if task.solution else cell["metadata"]
    yield {**cell, "source": source, "metadata": metadata}
    test = {**marks, "grade": True, "grade_id": f"test_{task.name}", "locked": True, "points": 1, "solution": False}
    yield _new("code", f"test-{task.name}", task.test, {"nbgrader": test})


def otter_cells(cell: Cell, task: Task) -> Iterator[Cell]:
    """A question block with the student's cell and the test, which is worth one point."""
    source = _with_solution(task, "# BEGIN SOLUTION NO PROMPT", "# END SOLUTION")
    yield _new("raw", f"begin-{task.name}", f"# BEGIN QUESTION\nname: {task.name}\npoints: 1")
    yield _new("raw", f"begin-solution-{task.name}", "# BEGIN SOLUTION")
    yield {**cell, "source": source}
    yield _new("raw", f"end-solution-{task.name}", "# END SOLUTION")
    yield _new("raw", f"begin-tests-{task.name}", "# BEGIN TESTS")
    yield _new("code", f"test-{task.name}", task.test)
    yield _new("raw", f"end-tests-{task.name}", "# END TESTS")
    yield _new("raw", f"end-{task.name}", "# END QUESTION")


def _with_solution(task: Task, begin: str, end: str) -> str:
    """The solution follows what is given and replaces it. nbgrader indents its stub as the first mark is indented."""
    if not task.solution:
        return task.given
    last = task.given.rpartition("\n")[2]
    between = last[: -len("...")] if re.fullmatch(r" +\.\.\.", last) else "\n\n"
    return f"{task.given}\n{between}{begin}\n{task.solution}\n{end}"


def otter_assignment(lesson: Path) -> tuple[Cell, list[Task]]:
    """The lesson with a configuration; it returns to the notebook's folder where Otter looks for files there.

    Raises:
        LookupError: the lesson has no exercise with a check.
    """
    leaves = "os.chdir(" in lesson.read_text(encoding="utf-8")
    notebook, tasks = assignment(lesson, _otter_cells_elsewhere if leaves else otter_cells)
    notebook["cells"].insert(0, _otter_config(lesson.stem, tasks))
    if leaves:
        notebook["cells"].insert(1, _new("code", "remember-folder", "import os\n\nnotebook_folder = os.getcwd()"))
        notebook["cells"].append(_new("code", "return", "os.chdir(notebook_folder)"))
    return notebook, tasks


def _otter_cells_elsewhere(cell: Cell, task: Task) -> Iterator[Cell]:
    """Otter reads a test, at the end of the question, from the notebook's folder, and the lesson works in another."""
    *question, end = otter_cells(cell, task)
    yield from question
    go_back = "lesson_folder = os.getcwd()\nos.chdir(notebook_folder)  # Otter looks for its files here"
    yield _new("code", f"return-{task.name}", go_back)
    yield end
    yield _new("code", f"go-on-{task.name}", "os.chdir(lesson_folder)")


def _otter_config(name: str, tasks: list[Task]) -> Cell:
    files = [] if all(task.solution for task in tasks) else ["my_capstone/my_train.py"]
    lines = ["# ASSIGNMENT CONFIG", f"name: {name}", "files: [glossary.md]"]
    lines += ["run_tests: false  # the answer is a file, and no cell has a solution"] if files else []
    lines += ["export_cell:", "    pdf: false", *(f"    files: [{file}]" for file in files)]
    return _new("raw", "assignment-config", "\n".join(lines))


def _new(kind: str, name: str, source: str, metadata: dict[str, Any] | None = None) -> Cell:
    code: Cell = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": name[:64], "metadata": metadata or {}, "source": source, **code}
