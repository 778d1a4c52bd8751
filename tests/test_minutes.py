"""How long lessons run: what nbval's items are added up to, and what the table makes of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nights import by_day, nightly

from benchmarks import minutes

PROJECT = Path(__file__).parent.parent


def write_lesson(folder: Path, name: str, *cells: str, teach: int = 1) -> None:
    files: Any = nbformat
    lesson = files.v4.new_notebook(cells=[files.v4.new_code_cell(cell, execution_count=1) for cell in cells])
    lesson.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    lesson.metadata["ddp_lessons"] = {"minutes": {"teach": {"One": teach, "Two": 1}, "exercise": {"Two": 5}}}
    files.write(lesson, folder / f"{name}.ipynb")


@nightly
@pytest.mark.parametrize(
    "workers", by_day([["-p", "no:xdist"], ["-n", "2", "--dist", "loadfile"]], 1), ids=["alone", "by xdist"]
)
def test_the_seconds_of_all_cells_of_a_lesson_are_added_up(tmp_path: Path, workers: list[str]) -> None:
    shutil.copy(PROJECT / "conftest.py", tmp_path)
    write_lesson(tmp_path, "00_quick", "number = 1")
    write_lesson(tmp_path, "01_slow", "import time\ntime.sleep(0.5)", "time.sleep(0.5)")
    environment = {**os.environ, "DDP_LESSONS_MINUTES": str(tmp_path / "seconds.json")}
    environment["PYTHONPATH"] = f"{tmp_path}:{PROJECT / 'tests'}"
    command = [sys.executable, "-m", "pytest", "-q", *workers, "--nbval", str(tmp_path)]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout
    seconds = json.loads((tmp_path / "seconds.json").read_text(encoding="utf-8"))
    assert set(seconds) == {"00_quick", "01_slow"}
    assert seconds["00_quick"] < seconds["01_slow"] >= 1


def test_the_guide_keeps_a_table_that_does_not_change_with_every_second(tmp_path: Path) -> None:
    guide = tmp_path / "index.md"
    guide.write_text(f"before\n\n{minutes.BEGIN}\n\n{minutes.END}\n\nafter\n")
    written = []
    for seconds in (31.0, 39.0):
        minutes.put_into_guide(minutes.planned({lesson.name: seconds for lesson in minutes.planned({})}), guide)
        written.append([line for line in guide.read_text(encoding="utf-8").splitlines() if "|" in line])
    assert [line.split("|")[:5] for line in written[0]] == [line.split("|")[:5] for line in written[1]]
    assert "| 03_collectives" in guide.read_text(encoding="utf-8")
    assert guide.read_text(encoding="utf-8").endswith("after\n")


def test_the_table_in_the_guide_has_the_minutes_that_are_planned_now() -> None:
    text = minutes.GUIDE.read_text(encoding="utf-8").partition(minutes.BEGIN)[2].partition(minutes.END)[0]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line[:1] == "|"]
    kept = {name: (int(teach), int(exercise)) for name, _, teach, exercise, _ in rows[2:]}
    assert kept == {lesson.name: (lesson.teach_minutes, lesson.exercise_minutes) for lesson in minutes.planned({})}
    assert "cores, torch" in text
