"""`python -m ddp_lessons script`: from stored notebooks, the course's own among them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nights import nightly

from ddp_lessons.__main__ import main
from ddp_lessons.script.script_text import NoSuchFunction, Script, compose
from ddp_lessons.script.statements import cells_of_file

PROJECT = Path(__file__).parents[2]
# not defined by a `def` in a cell, but imported, or the variable of a loop
NO_FUNCTION = {"10_train_x", "13_seconds_of_message", "13_seconds_of_step"}
# launched by a loop or a function, with another value each time, or with a folder that is then deleted
WITH_TODO = {"01_join_by", "02_ping_pong", "04_time_it", "07_train_heads", "11_train", "15_save_or_load"}
WITH_TODO |= {"08_throughput", "14_add_up"}


@nightly
def test_the_lessons_scripts_are_complete_and_in_the_style_of_this_project(tmp_path: Path) -> None:
    made: dict[str, Script | None] = {}
    for lesson in sorted((PROJECT / "notebooks").glob("*.ipynb")):
        cells = cells_of_file(lesson)
        for name in set(re.findall(r"\blaunch\((\w+)", "\n".join(cell for cell in cells if cell[:2] != "%%"))):
            try:
                made[f"{lesson.name[:2]}_{name}"] = compose(cells, name, f"{name}.py", lesson.parent, lesson.name)
            except NoSuchFunction:
                made[f"{lesson.name[:2]}_{name}"] = None
    assert len(made) > 85
    assert {name for name, script in made.items() if script is None} == NO_FUNCTION
    assert {name for name, script in made.items() if script and script.todo} == WITH_TODO
    for name, script in made.items():
        if script and name not in WITH_TODO:
            compile(script.text, name, "exec")
            (tmp_path / f"{name}.py").write_text(script.text)
    settings = ["--config", str(PROJECT / "pyproject.toml"), "--no-cache", str(tmp_path)]
    for command in (["check", "--select=F,E9"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, *settings]
        ended = subprocess.run(ruff, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert ended.returncode == 0, ended.stdout


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    cells = [
        {"cell_type": "markdown", "source": "# A notebook"},
        {"cell_type": "code", "source": ["import torch\n", "import helpers"]},
        {"cell_type": "code", "source": "def train(rank, world_size, epochs=2):\n    return helpers, torch, epochs"},
        {"cell_type": "code", "source": "x = torch.rand(2)\ndef gaps(rank, world_size):\n    return unknown, x"},
    ]
    (tmp_path / "helpers.py").touch()
    file = tmp_path / "mine.ipynb"
    file.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return file


def test_the_command_writes_the_file_and_says_what_must_go_along(
    notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = notebook.parent / "train.py"
    assert main(["script", str(notebook), "train", "-o", str(file)]) == 0
    assert file.read_text().startswith('"""Run train from mine.ipynb on every rank.\n\ntorchrun --standalone ')
    assert [path.name for path in notebook.parent.iterdir() if "train" in path.name] == ["train.py"]
    assert capsys.readouterr().out == (
        f"wrote {file}. Start it with: torchrun --standalone --nproc-per-node=2 train.py --epochs=2\n"
        f"{file} imports helpers from the notebook's folder: keep that module in the script's folder.\n"
    )


def test_the_command_says_what_is_left_to_do(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = notebook.parent / "gaps.py"
    assert main(["script", str(notebook), "gaps", "-o", str(file)]) == 0
    said = capsys.readouterr().out
    assert f"{file} has a TODO for `unknown`: fill in what only the notebook has.\n" in said
    assert "Every rank computes `x` itself, so set a seed before any random values.\n" in said


def test_without_a_file_the_command_prints_the_script(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["script", str(notebook), "train"]) == 0
    assert capsys.readouterr().out.endswith('if __name__ == "__main__":\n    main()\n')


def test_the_command_overwrites_only_when_told(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = notebook.parent / "train.py"
    file.write_text("# mine\n")
    asked = ["script", str(notebook), "train", "-o", str(file)]
    assert main(asked) == 1
    assert "overwrite it with --force" in capsys.readouterr().err
    assert file.read_text() == "# mine\n"
    assert main([*asked, "--force"]) == 0
    assert main(asked) == 0  # the same once more: nothing is lost


@pytest.mark.parametrize(
    ("file", "function", "words"),
    [
        ("mine.ipynb", "none", "no cell defines a function none(rank, world_size, ...), so nothing was written"),
        ("none.ipynb", "train", "No such file or directory"),
        ("helpers.py", "train", "helpers.py cannot be read as a notebook"),
    ],
)
def test_the_command_says_why_nothing_was_written(
    notebook: Path, capsys: pytest.CaptureFixture[str], file: str, function: str, words: str
) -> None:
    output = notebook.parent / "out.py"
    assert main(["script", str(notebook.parent / file), function, "-o", str(output)]) == 1
    assert words in capsys.readouterr().err
    assert not output.exists()


def test_the_front_door_does_not_load_it() -> None:
    code = "import sys; from ddp_lessons import launch; sys.exit(any('ddp_lessons.script' in n for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
