"""Run the lessons that use a GPU on a machine that has one, and compare their outputs with the stored ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ddp_lessons.gpu.gpu_recordings import Measured

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
# what a cell says that takes a GPU if there is one
_USES_A_GPU = re.compile(
    r"\bdevice_of_this_rank\(\)|\bbackend_for\(|\btry_backends\(\)|\bcuda\.(is_available|device_count)\(\)"
)
_NOT_A_CALL = re.compile(r'#.*|"torch\.cuda[^"]*"')
_FAILED = re.compile(r"^FAILED \S+::Cell (\d+)", re.MULTILINE)
SECONDS_FOR_A_LESSON = 600


def measure(device: str, notebooks: Path = NOTEBOOKS) -> Measured:
    """`device` is where the lessons run, whatever it is: they choose it themselves."""
    cells = cells_that_use_a_gpu(notebooks)
    failed = {lesson: failing_cells(notebooks / f"{lesson}.ipynb") for lesson in cells}
    lines = [f"{lesson}: {', '.join(cells[lesson])}" for lesson in cells]
    checks = {_said(lesson, of_lesson): not of_lesson for lesson, of_lesson in failed.items()}
    return Measured("each cell as in a reader's kernel", lines, {"cells": cells}, checks)


def _said(lesson: str, failed: list[str]) -> str:
    return f"{lesson}: other outputs in {', '.join(failed)}" if failed else lesson


def cells_that_use_a_gpu(notebooks: Path) -> dict[str, list[str]]:
    """By lesson, the ids of the cells that run on a GPU if there is one."""
    found = {}
    for file in sorted(notebooks.glob("[0-9][0-9]_*.ipynb")):
        cells = _code_cells(file)
        using = [id_ for id_, source in cells if _USES_A_GPU.search(_NOT_A_CALL.sub("", source))]
        found.update({file.stem: using} if using else {})
    return found


def failing_cells(lesson: Path) -> list[str]:
    """Run a copy of the lesson in an empty folder, as `make lessons` does."""
    # within the project, whose conftest.py says how outputs are compared
    with tempfile.TemporaryDirectory(prefix=".elsewhere-", dir=NOTEBOOKS.parent) as folder:
        copy = shutil.copy(lesson, folder)
        command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", "--nbval", str(copy)]
        try:
            ended = subprocess.run(
                command,
                cwd=NOTEBOOKS.parent,
                env={**os.environ, "COLUMNS": "200"},
                capture_output=True,
                text=True,
                timeout=SECONDS_FOR_A_LESSON,
            )
        except subprocess.TimeoutExpired:
            return [f"a cell that did not end within {SECONDS_FOR_A_LESSON} seconds"]
    ids = [id_ for id_, _ in _code_cells(lesson)]
    failed = [ids[int(number)] for number in _FAILED.findall(ended.stdout)]
    return failed or ([f"the run, which ended with status {ended.returncode}"] if ended.returncode else [])


def _code_cells(file: Path) -> list[tuple[str, str]]:
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return [(cell["id"], "".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]
