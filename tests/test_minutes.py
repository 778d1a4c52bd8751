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

from benchmarks import minutes

PROJECT = Path(__file__).parent.parent


def write_lesson(folder: Path, name: str, *cells: str, teach: int = 1) -> None:
    files: Any = nbformat
    lesson = files.v4.new_notebook(cells=[files.v4.new_code_cell(cell, execution_count=1) for cell in cells])
    lesson.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    lesson.metadata["ddp_lessons"] = {"minutes": {"teach": {"One": teach, "Two": 1}, "exercise": {"Two": 5}}}
    files.write(lesson, folder / f"{name}.ipynb")


@pytest.mark.parametrize("workers", [["-p", "no:xdist"], ["-n", "2", "--dist", "loadfile"]], ids=["alone", "by xdist"])
def test_the_seconds_of_all_cells_of_a_lesson_are_added_up(tmp_path: Path, workers: list[str]) -> None:
    shutil.copy(PROJECT / "conftest.py", tmp_path)
    write_lesson(tmp_path, "00_quick", "number = 1")
    write_lesson(tmp_path, "01_slow", "import time\ntime.sleep(0.5)", "time.sleep(0.5)")
    (tmp_path / "sampling.py").write_text("def left_out(tests):\n    return set()\n")
    environment = {**os.environ, "DDP_LESSONS_MINUTES": str(tmp_path / "seconds.json")}
    environment["PYTHONPATH"] = f"{tmp_path}:{PROJECT / 'tests'}"
    environment.pop("DDP_LESSONS_TESTS", None)  # this folder has no rooms
    command = [sys.executable, "-m", "pytest", "-q", *workers, "--nbval", str(tmp_path)]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout
    seconds = json.loads((tmp_path / "seconds.json").read_text(encoding="utf-8"))
    assert set(seconds) == {"00_quick", "01_slow"}
    assert seconds["00_quick"] < 1 <= seconds["01_slow"]


def test_a_lesson_may_run_for_a_tenth_of_its_minutes_for_teaching_and_no_longer(tmp_path: Path) -> None:
    write_lesson(tmp_path, "00_one", teach=9)  # ten minutes in all
    for seconds, trouble in ((60, ""), (61, "00_one: its cells take 10% of the minutes")):
        (lesson,) = minutes.planned({"00_one": seconds}, tmp_path)
        assert lesson.trouble().startswith(trouble)
        assert bool(lesson.trouble()) == bool(trouble)


@pytest.mark.parametrize(
    ("seconds", "ending"),
    [((10, 20, 30, 250), 1), ((15, 30, 45, 250), 0), ((90, 180, 270, 250), 0), ((90, 180, 270, 490), 1)],
)
def test_on_a_slower_machine_all_lessons_are_slower_and_one_alone_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, ...], ending: int
) -> None:
    names, file, guide = ("00_one", "01_two", "02_three", "03_four"), tmp_path / "seconds.json", tmp_path / "index.md"
    for name in names:
        write_lesson(tmp_path, name, teach=39)  # forty minutes in all: 240 seconds
    file.write_text(json.dumps(dict(zip(names, seconds, strict=True))))
    guide.write_text(f"{minutes.BEGIN}\n\n| 00_one | 10 |\n| 01_two | 20 |\n| 02_three | 30 |\n| 03_four | - |\n")
    monkeypatch.setattr(minutes, "GUIDE", guide)
    monkeypatch.setattr(minutes, "wanting_each_core", lambda: 1.0)
    monkeypatch.setattr(minutes.planned, "__defaults__", (tmp_path,))
    assert minutes.main([str(file)]) == ending


@pytest.mark.skipif(not hasattr(os, "getloadavg"), reason="this system does not tell how busy it is")
def test_the_seconds_of_a_machine_with_too_much_else_to_do_say_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, guide = tmp_path / "seconds.json", tmp_path / "index.md"
    file.write_text(json.dumps({lesson.name: 10_000.0 for lesson in minutes.planned({})}))
    guide.write_text(f"{minutes.BEGIN}{minutes.END}")
    monkeypatch.setattr(minutes, "GUIDE", guide)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for wanting, ending in ((6.0, 1), (9.5, 0)):
        monkeypatch.setattr(os, "getloadavg", lambda: (0.0, wanting, 0.0))  # noqa: B023
        assert minutes.main([str(file), "--write"]) == ending
    assert "4.8 processes wanted each core" in capsys.readouterr().out
    assert guide.read_text() == f"{minutes.BEGIN}{minutes.END}"


def test_a_lesson_that_was_not_run_is_missed_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured = {lesson.name: 1.0 for lesson in minutes.planned({})}
    del measured["03_collectives"]
    file = tmp_path / "seconds.json"
    file.write_text(json.dumps(measured))
    assert minutes.main([str(file)]) == 1
    assert "03_collectives: no cell of it was run" in capsys.readouterr().err
    file.write_text(json.dumps(measured | {"03_collectives": 1.0}))
    assert minutes.main([str(file)]) == 0


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
