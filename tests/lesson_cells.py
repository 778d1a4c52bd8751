"""The code cells of stored lessons, the exercises in them, and what a page of the instructor guide shows."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import nbformat

NOTEBOOKS = sorted(
    (pathlib.Path(__file__).parent.parent / "notebooks").glob("[0-9][0-9]_*.ipynb")
)  # not a learner's own
NO_EXERCISES = {
    "capstone",
    "diagnosis",
    "reading",
    "training_script",
}  # these judge no learner's function


def cells_of(notebook: pathlib.Path, kind: str) -> list[Any]:
    read: Any = nbformat.read
    return [cell for cell in read(notebook, as_version=4).cells if cell.cell_type == kind]


def exercises_of(notebook: pathlib.Path) -> list[tuple[str, str]]:
    """The name of each exercise's function, and the text of the cell that checks it."""
    found = []
    for cell in cells_of(notebook, "code"):
        checks = re.finditer(r"^check\.(\w+)\((\w+)\)", cell.source, re.M)
        found += [(match[2], cell.source) for match in checks if match[1] not in NO_EXERCISES]
    return found


EXERCISES = [(notebook, *exercise) for notebook in NOTEBOOKS for exercise in exercises_of(notebook)]
