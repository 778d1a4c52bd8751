"""A new lesson, begun in a copy of the project."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from authoring import beginning
from ddp_lessons.own_files import read_toml

PROJECT = Path(__file__).parent.parent.parent
PARTS = ("authoring", "benchmarks", "ddp_lessons", "docs", "notebooks", "scripts", "tests")
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
    return tmp_path


def assert_tidy(project: Path) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "ddp_lessons", "tests/check"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_what_is_begun_is_tidy_and_its_questions_can_be_read(project: Path) -> None:
    said = beginning.lesson(project, "Begun only")
    assert_tidy(project)
    assert len(read_toml(project / "ddp_lessons" / "quiz" / f"{NEXT:02}.toml")["questions"]) == 5
    notebook = files.read(project / "notebooks" / f"{NEXT}_begun_only.ipynb", as_version=4)
    assert notebook.metadata["ddp_lessons"]["minutes"]["exercise"] == {"Do you know it?": 5}
    assert f"quiz.questions({NEXT})" in [cell.source.splitlines()[-1] for cell in notebook.cells]
    assert "WRITE" in said[-1]
    with pytest.raises(ValueError, match="there is already"):
        beginning.lesson(project, "Begun... only?")


@pytest.mark.parametrize("title", ["4 ranks", "", "...", "import"])
def test_a_title_that_names_no_file_is_refused(project: Path, title: str) -> None:
    with pytest.raises(ValueError, match="files get their names from the title"):
        beginning.lesson(project, title)


def test_in_the_project_nothing_is_left_to_write() -> None:
    lessons = [PROJECT / "README.md", *(PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb")]
    code = [*(PROJECT / "ddp_lessons").rglob("*.py"), *(PROJECT / "docs").rglob("*.md")]
    code = [path for path in code if path.is_file()]
    assert not [path.name for path in lessons + code if re.search(r"\bWRITE\b", path.read_text(encoding="utf-8"))]
