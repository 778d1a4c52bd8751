"""The notebooks that `export` writes for graders. test_graders.py gives them to the real tools."""

from __future__ import annotations

import functools
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from torch import Tensor

from ddp_lessons import check, clinic
from ddp_lessons.__main__ import main
from ddp_lessons.check.dashboard import LESSONS, Lesson
from ddp_lessons.own_files import NOTEBOOKS
from ddp_lessons.train import pipeline
from ddp_lessons.workshop.assignments import lesson_file
from ddp_lessons.workshop.grading import Task, must_pass, task_in

GRADERS = ("nbgrader", "otter")
every_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: str(lesson.number))
every_grader = pytest.mark.parametrize("grader", GRADERS)


@functools.cache
def tasks_of(number: int) -> list[Task]:
    return [task for cell in cells_of(lesson_file(NOTEBOOKS, str(number))) if (task := task_in(cell))]


def cells_of(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def exported(grader: str, lesson: Lesson, folder: Path) -> Any:
    assert main(["export", "--for", grader, str(lesson.number), str(folder)]) == 0
    (place,) = folder.rglob("*.ipynb")
    return nbformat.read(place, as_version=4)  # type: ignore[no-untyped-call]


def given_to_students(source: str) -> str:
    """What both tools leave of a cell: all but the lines from one mark to the other."""
    return re.sub(r"^ *#+ BEGIN SOLUTION.*?^#+ END SOLUTION$", "", source, flags=re.MULTILINE | re.DOTALL)


@every_grader
@every_lesson
def test_the_tasks_are_the_exercises_of_the_lesson(grader: str, lesson: Lesson, tmp_path: Path) -> None:
    notebook = exported(grader, lesson, tmp_path)
    nbformat.validate(notebook)
    tests = [cell.source for cell in notebook.cells if "must_pass" in cell.source]
    checks = [re.findall(r'^must_pass\("(\w+)", (\d+|"\w+")?', test, re.MULTILINE) for test in tests]
    assert [f"{name}({number})" if number else name for [(name, number)] in checks] == list(lesson.exercises)


@every_grader
@every_lesson
def test_the_students_form_has_no_line_of_a_solution(grader: str, lesson: Lesson, tmp_path: Path) -> None:
    notebook = exported(grader, lesson, tmp_path)
    in_the_lesson = lesson_file(NOTEBOOKS, str(lesson.number)).read_text(encoding="utf-8")
    solutions = [line for task in tasks_of(lesson.number) for line in task.solution.splitlines()]
    telling = {line for line in solutions if json.dumps(line.strip(), ensure_ascii=False)[1:-1] not in in_the_lesson}
    for_students = {line for cell in notebook.cells for line in given_to_students(cell.source).splitlines()}
    assert telling <= {line for cell in notebook.cells for line in cell.source.splitlines()}
    assert telling or lesson.number == 12  # the program of lesson 12 is in no cell
    assert not telling & for_students


@every_lesson
def test_students_get_the_lesson_as_it_is_and_a_locked_test_after_each_exercise(lesson: Lesson, tmp_path: Path) -> None:
    notebook = exported("nbgrader", lesson, tmp_path)
    tasks = tasks_of(lesson.number)
    graded = [cell.metadata.nbgrader for cell in notebook.cells if "nbgrader" in cell.metadata]
    answers, tests = [mark for mark in graded if mark.solution], [mark for mark in graded if mark.grade]
    assert [mark.grade_id for mark in answers] == [task.name for task in tasks if task.solution]
    assert [mark.grade_id for mark in tests] == [f"test_{task.name}" for task in tasks]
    assert not any(mark.grade or mark.locked for mark in answers)
    assert all(mark.locked and mark.points == 1 and not mark.solution for mark in tests)
    assert {mark.schema_version for mark in graded} == {3}
    released = [nbgrader_releases(cell) for cell in notebook.cells if cell.cell_type == "code"]
    sources = cells_of(lesson_file(NOTEBOOKS, str(lesson.number)))
    expected = [(task.given, task.test) if (task := task_in(source)) else (source,) for source in sources]
    assert released == [source for both in expected for source in both]


def nbgrader_releases(cell: Any) -> str:
    """nbgrader removes the text of a solution cell, or, if it has marks, only what is between them."""
    source: str = cell.source
    if not cell.metadata.get("nbgrader", {}).get("solution"):
        return source
    return given_to_students(source).rstrip() if "BEGIN SOLUTION" in source else ""


@pytest.mark.parametrize("lesson", [one for one in LESSONS if one.number in (9, 12, 14)], ids=lambda one: one.title)
def test_otter_finds_its_tests_where_a_lesson_works_in_another_folder(lesson: Lesson, tmp_path: Path) -> None:
    cells = exported("otter", lesson, tmp_path).cells
    ends = [place for place, cell in enumerate(cells) if cell.source == "# END QUESTION"]
    assert len(ends) == len(lesson.exercises)
    assert all("os.chdir(notebook_folder)" in cells[end - 1].source for end in ends)
    assert all(cells[end + 1].source == "os.chdir(lesson_folder)" for end in ends)
    assert cells[-1].source == "os.chdir(notebook_folder)"  # where the student's work is packed


SOLVED = [task for lesson in LESSONS if lesson.number != 15 for task in tasks_of(lesson.number)]


FILES = ("capstone", "training_script")  # these judge the file that the lesson's cells write


@nightly
@pytest.mark.parametrize("task", [one for one in SOLVED if not one.name.startswith(FILES)], ids=lambda task: task.name)
def test_the_text_of_a_solution_passes_its_test_without_the_rest_of_the_lesson(task: Task) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(f"{task.solution}\n{task.test}", names)


@pytest.mark.parametrize("task", by_day(SOLVED, 10), ids=lambda task: task.name)
def test_an_exercise_as_it_is_given_fails_its_test(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    names: dict[str, Any] = {"__name__": "__main__", "torch": torch, "dist": dist, "nn": torch.nn}
    names |= {"Sampler": torch.utils.data.Sampler, "DataLoader": torch.utils.data.DataLoader}
    names |= {"IterableDataset": torch.utils.data.IterableDataset, "check": check, "clinic": clinic}
    names |= {"OneByOne": torch.nn.Module, "Path": Path}  # of earlier cells
    exec(task.given, names)
    with pytest.raises(
        AssertionError, match=r"not started yet|not right yet|which line is wrong|which rank, line and rule"
    ):
        exec(task.test, names)


def test_a_failed_test_says_what_the_check_says() -> None:
    with pytest.raises(AssertionError, match=r"check\.stage_of: not right yet\n(.*\n)*.*expected"):
        must_pass("stage_of", lambda layer, layers, stages: 0)


@nightly
def test_the_courses_own_solution_earns_nothing() -> None:
    with pytest.raises(AssertionError, match="the course's own solution"):
        must_pass("stage_of", pipeline.stage_of)


def test_a_test_prints_nothing_and_is_not_counted_as_progress(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DDP_LESSONS_PROGRESS", str(tmp_path / "progress.json"))

    def exchange(tensor: Tensor) -> Tensor:
        print("a word on stdout")
        print("a word on stderr", file=sys.stderr)
        warnings.warn("a warning", stacklevel=1)
        received, other = torch.empty_like(tensor), 1 - dist.get_rank()
        works = [dist.isend(tensor, other), dist.irecv(received, other)]
        for work in works:
            work.wait()  # type: ignore[union-attr]
        return received

    must_pass("exchange", exchange)
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "progress.json").exists()


@every_grader
def test_an_assignment_that_exists_is_not_overwritten(
    grader: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "--for", grader, "02_send_and_receive", str(tmp_path)]) == 0
    (place,) = tmp_path.rglob("*.ipynb")
    place.write_text("mine", encoding="utf-8")
    assert main(["export", "--for", grader, "2", str(tmp_path)]) == 1
    assert f"{place} already exists, and you may have edited it." in capsys.readouterr().err
    assert place.read_text(encoding="utf-8") == "mine"


def test_the_settings_of_a_course_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--for", "nbgrader", "2", str(tmp_path)]) == 0
    config = tmp_path / "nbgrader_config.py"
    assert "Execute.timeout" in config.read_text(encoding="utf-8")
    assert main(["export", "--for", "nbgrader", "3", str(tmp_path)]) == 0
    assert "unchanged" not in capsys.readouterr().out
    config.write_text("c = get_config()", encoding="utf-8")
    assert main(["export", "--for", "nbgrader", "4", str(tmp_path)]) == 0
    assert "nbgrader_config.py is unchanged" in capsys.readouterr().out
    assert config.read_text(encoding="utf-8") == "c = get_config()"


@pytest.mark.parametrize(("lesson", "said"), [("99", "There is no lesson 99"), ("0", "has no exercise with a check")])
def test_a_lesson_that_cannot_be_graded_is_refused(
    lesson: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "--for", "otter", lesson, str(tmp_path)]) == 1
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
