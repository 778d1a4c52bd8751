"""The example of a lesson can be opened, and no part of it is left in a lesson."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

from ddp_lessons.own_files import read_toml

PROJECT = Path(__file__).parents[2]
EXAMPLE = PROJECT / "tools" / "authoring" / "example"


def test_the_example_is_a_notebook_with_a_plan_and_questions() -> None:
    notebook = nbformat.read(EXAMPLE / "lesson.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    headings = re.findall(r"^## (.+)$", "\n".join(cell.source for cell in notebook.cells), re.M)
    minutes = notebook.metadata["ddp_lessons"]["minutes"]
    assert {*headings, "opening"} == {*minutes["teach"], *minutes["exercise"]}
    number = len(list((PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb")))
    assert f"quiz.questions({number})" in [cell.source.splitlines()[-1] for cell in notebook.cells]
    first, second = read_toml(EXAMPLE / "quiz.toml")["questions"]
    assert set(first) - set(second) == {"program", "holds", "ranks"}


def test_in_the_project_nothing_is_left_to_write() -> None:
    lessons = [PROJECT / "README.md", *(PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb")]
    package = [*(PROJECT / "ddp_lessons").rglob("*.py"), *(PROJECT / "ddp_lessons").rglob("*.toml")]
    texts = [*lessons, *package, *(PROJECT / "docs").rglob("*.md")]
    assert not [path.name for path in texts if re.search(r"\bWRITE\b", path.read_text(encoding="utf-8"))]
