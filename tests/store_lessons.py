"""Take the views of widgets out of stored lessons: `python tests/store_lessons.py notebooks/*.ipynb`.

The picture beside each view stays. Without its kernel the view would show an error in the place of it.
"""

from __future__ import annotations

import sys
from typing import Any

import nbformat

VIEW = "application/vnd.jupyter.widget-view+json"


def store(notebook: str) -> None:
    files: Any = nbformat
    lesson = files.read(notebook, as_version=4)
    lesson.metadata.pop("widgets", None)
    for cell in lesson.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(VIEW, None)
    files.write(lesson, notebook)


if __name__ == "__main__":
    for notebook in sys.argv[1:]:
        store(notebook)
