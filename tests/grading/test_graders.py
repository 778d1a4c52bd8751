"""nbgrader and Otter themselves, from the export to the points: only in the environment of `make test-grading`.

Each lesson is handed in three times: all right, all right but the last exercise, and untouched. Lesson 2 is complete.
Of the others, only the imports, the definitions and the exercises run, because grading runs a lesson four times.
"""

from __future__ import annotations

import ast
import csv
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from nights import nightly

from ddp_lessons.own_files import NOTEBOOKS
from ddp_lessons.workshop.assignments import lesson_file
from ddp_lessons.workshop.grading import Task, task_in

PROJECT = Path(__file__).parent.parent.parent
IS_WANTED = all(importlib.util.find_spec(name) for name in ("nbgrader", "otter"))
pytestmark = [
    pytest.mark.skipif(not IS_WANTED, reason="it needs nbgrader and Otter: make test-grading"),
    pytest.mark.time_limit(3600),
    nightly,
]

# functions; a class; programs to repair and messages to read; a text, in a lesson that works in a folder of its own
WRONG_LAST = {
    "2": "def pass_the_token(token):\n    return token + 1",
    "6": "class RankSampler(DistributedSampler):\n    def set_epoch(self, epoch):\n        self.epoch = 0",
    "11": "line_5 = 2",
    "14": "job_script = 'srun torchrun digits.py'",
}
every_kind = pytest.mark.parametrize("lesson", WRONG_LAST)


def tasks_of(lesson: str) -> list[Task]:
    cells = json.loads(lesson_file(NOTEBOOKS, lesson).read_text(encoding="utf-8"))["cells"]
    return [task for cell in cells if (task := task_in("".join(cell["source"])))]


def shortened(lesson: str, folder: Path) -> Path:
    """A folder with this lesson. Only lesson 2 is complete."""
    file = lesson_file(NOTEBOOKS, lesson)
    notebook = json.loads(file.read_text(encoding="utf-8"))
    if lesson != "2":
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        notebook["cells"] = [cell for cell in cells if is_needed("".join(cell["source"]))]
    folder.mkdir()
    (folder / file.name).write_text(json.dumps(notebook), encoding="utf-8")
    shutil.copy(NOTEBOOKS / "glossary.md", folder)
    return folder


def is_needed(cell: str) -> bool:
    if task_in(cell) or "os.chdir" in cell:
        return True
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    return not re.search(r"^[%!]", cell, re.MULTILINE) and all(
        isinstance(statement, kinds) for statement in ast.parse(cell).body
    )


def submissions(released: Path, tasks: list[Task], wrong_last: str) -> dict[str, tuple[str, float]]:
    """By student: the text of their notebook, and the points that it is worth."""
    right = [task.solution for task in tasks]
    cells = ["".join(cell["source"]) for cell in json.loads(released.read_text(encoding="utf-8"))["cells"]]
    assert not any(solution in cell for cell in cells for solution in right)
    return {
        "right": (answered(released, tasks, right), len(tasks)),
        "wrong": (answered(released, tasks, [*right[:-1], wrong_last]), len(tasks) - 1),
        "untouched": (released.read_text(encoding="utf-8"), 0),
    }


def answered(released: Path, tasks: list[Task], answers: list[str]) -> str:
    """The students' form with an answer in each exercise; it had no solution in it."""
    notebook: dict[str, Any] = json.loads(released.read_text(encoding="utf-8"))
    for task, answer in zip(tasks, answers, strict=True):
        (cell,) = (cell for cell in notebook["cells"] if "".join(cell["source"]).rstrip() == task.given)
        cell["source"] = f"{task.given}\n\n\n{answer}"
    return json.dumps(notebook)


def run(folder: Path, *command: str) -> str:
    tool = Path(sys.executable).with_name(command[0])
    surroundings = os.environ | {"PYTHONPATH": str(PROJECT), "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}"}
    run = subprocess.run(
        [tool, *command[1:]], cwd=folder, env=surroundings, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert run.returncode == 0, run.stdout
    return run.stdout


def export(folder: Path, grader: str, lesson: str) -> str:
    source = shortened(lesson, folder / "notebooks")
    chosen = ["--for", grader, "--notebooks", str(source)]
    run(folder, "python", "-m", "ddp_lessons", "export", *chosen, lesson, str(folder))
    return lesson_file(NOTEBOOKS, lesson).stem


@every_kind
def test_nbgrader_gives_the_points_that_each_submission_earns(tmp_path: Path, lesson: str) -> None:
    name, tasks = export(tmp_path, "nbgrader", lesson), tasks_of(lesson)
    run(tmp_path, "nbgrader", "generate_assignment", name)
    handed_in = submissions(tmp_path / "release" / name / f"{name}.ipynb", tasks, WRONG_LAST[lesson])
    for student, (text, _) in handed_in.items():
        place = tmp_path / "submitted" / student / name
        place.mkdir(parents=True)
        (place / f"{name}.ipynb").write_text(text, encoding="utf-8")
    run(tmp_path, "nbgrader", "autograde", name, "--create")
    run(tmp_path, "nbgrader", "export", "--to", "grades.csv")
    rows = list(csv.DictReader((tmp_path / "grades.csv").open(encoding="utf-8")))
    assert {row["student_id"]: float(row["score"]) for row in rows} == {
        student: points for student, (_, points) in handed_in.items()
    }
    assert {float(row["max_score"]) for row in rows} == {float(len(tasks))}


@every_kind
def test_otter_gives_the_points_that_each_submission_earns(tmp_path: Path, lesson: str) -> None:
    name, tasks = export(tmp_path, "otter", lesson), tasks_of(lesson)
    run(tmp_path, "otter", "assign", f"{name}/{name}.ipynb", "dist")  # also grades the solutions: all must pass
    (autograder,) = (tmp_path / "dist" / "autograder").glob("*.zip")
    assert {f"tests/{task.name}.py" for task in tasks} <= set(zipfile.ZipFile(autograder).namelist())
    handed_in = submissions(tmp_path / "dist" / "student" / f"{name}.ipynb", tasks, WRONG_LAST[lesson])
    for student, (text, points) in handed_in.items():
        (place := tmp_path / student).mkdir()
        (place / f"{name}.ipynb").write_text(text, encoding="utf-8")
        run(place, "otter", "run", f"{name}.ipynb", "-a", str(autograder), "-o", str(place))
        results = json.loads((place / "results.json").read_text(encoding="utf-8"))["tests"]
        assert sum(test.get("score", 0) for test in results) == points, student
        assert sum(test.get("max_score", 0) for test in results) == len(tasks)
