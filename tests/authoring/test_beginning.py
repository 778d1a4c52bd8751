"""What CONTRIBUTING.md says of a first lesson is done here, block by block, in a copy of the project."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nights import nightly

from authoring import beginning
from authoring.guide import with_minutes
from benchmarks import minutes

PROJECT = Path(__file__).parent.parent.parent
EXAMPLE = PROJECT / "authoring" / "example"
PARTS = ("authoring", "benchmarks", "ddp_lessons", "docs", "notebooks", "scripts", "tests")
SECTION = "## Add a lesson, an exercise and its check in 30 minutes"
LESSONS = sorted((PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
NEXT = len(LESSONS)  # the number of the next lesson, which the example calls 18
files: Any = nbformat


@pytest.fixture
def project(tmp_path: Path) -> Path:
    leave = shutil.ignore_patterns("__pycache__")
    for part in PARTS:
        shutil.copytree(PROJECT / part, tmp_path / part, ignore=leave)
    for file in PROJECT.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    for file in (tmp_path / "authoring" / "example").iterdir():
        if file.is_file():
            file.write_text(numbered(file.read_text(encoding="utf-8")), encoding="utf-8")
    return tmp_path


def numbered(text: str) -> str:
    return re.sub(r"\b18(?=_|\b)", str(NEXT), text)


def blocks() -> list[tuple[str, str]]:
    """Each block of the section: its kind, and what is in it."""
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text[text.index(SECTION) :].partition("\n## Tests")[0]
    return [(kind, inside) for _, kind, inside in re.findall(r"^(```+)(\w+)\n(.*?)^\1$", section, re.M | re.S)]


def run(project: Path, line: str) -> str:
    assert line.startswith((".venv/bin/python -m ", "cp authoring/example/", "sed ")), line
    command = line.replace(".venv/bin/python", sys.executable, 1)
    environment = {**os.environ, "PYTHONPATH": str(project), "DDP_LESSONS_PROGRESS": "off"}
    began = time.monotonic()
    done = subprocess.run(command, shell=True, cwd=project, env=environment, capture_output=True, text=True)
    print(f"{time.monotonic() - began:.0f} s: {line}", flush=True)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@nightly
@pytest.mark.time_limit(1200)
def test_the_way_that_contributing_shows_leads_to_a_green_lesson(project: Path) -> None:
    seen = ""
    for kind, text in blocks():
        if kind == "sh":
            seen = "".join(run(project, line) for line in numbered(text).splitlines())
        elif kind == "text":
            assert all(line in seen for line in numbered(text).splitlines()), seen
    assert_tidy(project)
    changed = [project / "README.md", *project.glob(f"*/**/{NEXT}_*"), *project.glob("*/**/*spread*.py")]
    assert len(changed) > 6
    assert not [path.name for path in changed if "WRITE" in path.read_text(encoding="utf-8")]


def assert_tidy(project: Path) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "ddp_lessons", "tests/check"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["apart", "zipped"])
def test_what_is_begun_is_tidy_and_its_questions_can_be_read(project: Path, name: str) -> None:
    beginning.exercise(project, name)
    beginning.lesson(project, "Begun only", name)
    assert_tidy(project)
    bank = project / "ddp_lessons" / "quiz" / "bank" / "begun_only_questions.py"
    assert len(runpy.run_path(str(bank))["QUESTIONS"]) == 5


def test_what_contributing_shows_of_the_example_is_in_it() -> None:
    notebook = files.read(EXAMPLE / "lesson.ipynb", as_version=4)
    texts = [path.read_text(encoding="utf-8") for path in EXAMPLE.iterdir() if path.suffix in (".py", ".md")]
    texts += [f"{cell.source}\n" for cell in notebook.cells]
    shown = [(kind, text) for kind, text in blocks() if kind not in ("sh", "text")]
    assert {kind for kind, _ in shown} == {"python", "markdown", "json"}
    for kind, text in shown:
        if kind == "json":
            assert json.loads(text) == notebook.metadata["ddp_lessons"]
        else:
            assert [one for one in texts if text in one], text


def test_a_lesson_without_an_exercise_plans_for_none(project: Path) -> None:
    said = beginning.lesson(project, "Nothing to do")
    notebook = files.read(project / "notebooks" / f"{NEXT}_nothing_to_do.ipynb", as_version=4)
    assert "check." not in "".join(cell.source for cell in notebook.cells if cell.id != "imports")
    assert notebook.metadata["ddp_lessons"]["minutes"]["exercise"] == {"Do you know it?": 5}
    assert "dashboard" not in "".join(said)
    with pytest.raises(ValueError, match="there is already"):
        beginning.lesson(project, "Nothing... to do?")


def test_minutes_that_did_not_change_leave_the_guide_as_it_is() -> None:
    text = minutes.GUIDE.read_text(encoding="utf-8")
    planned = minutes.planned({})
    assert with_minutes(text, planned) == text
    longer = [replace(planned[0], teach_minutes=planned[0].teach_minutes + 1), *planned[1:]]
    changed = with_minutes(text, longer)
    lines = zip(text.splitlines(), changed.splitlines(), strict=True)
    assert [new.split("|")[1].strip() for old, new in lines if old != new] == [planned[0].name]


@pytest.mark.parametrize("name", ["Spread", "a name", "swap-two", "1st", "ring"])
def test_a_name_that_cannot_be_or_is_taken_is_refused(project: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"as a function is|there is already"):
        beginning.exercise(project, name)


@pytest.mark.parametrize("title", ["4 ranks", "", "...", "import"])
def test_a_title_that_names_no_file_is_refused(project: Path, title: str) -> None:
    with pytest.raises(ValueError, match="files get their names from the title"):
        beginning.lesson(project, title)


def test_in_the_project_nothing_is_left_to_write() -> None:
    lessons = [PROJECT / "README.md", *(PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb")]
    code = [*(PROJECT / "ddp_lessons").rglob("*.py"), *(PROJECT / "docs").rglob("*.md"), *EXAMPLE.iterdir()]
    code = [path for path in code if path.is_file()]
    assert not [path.name for path in lessons + code if re.search(r"\bWRITE\b", path.read_text(encoding="utf-8"))]
