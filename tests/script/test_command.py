"""`python -m ddp_lessons script`: from stored notebooks, the course's own among them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from nights import nightly

from ddp_lessons.__main__ import main
from ddp_lessons.script.cells import cells_of_file
from ddp_lessons.script.command import script_of_file
from ddp_lessons.script.notebook import Notebook
from ddp_lessons.script.refusals import CannotCarry
from ddp_lessons.script.statements import run_here

PROJECT = Path(__file__).parents[2]
LESSONS = sorted((PROJECT / "notebooks").glob("*.ipynb"))
# what is in a file already, or what no file can have: a folder or store of the notebook's own process,
# another argument in each turn of a loop, ...
REFUSED = {
    "01": {"join_at_port", "join_by"},
    "02": {"ping_pong"},
    "03": {"receive_a_part"},
    "04": {"time_it"},
    "07": {"wrap", "train_heads", "running_mean"},
    "10": {"train_x"},
    "11": {"train"},
    "13": {"seconds_of_message", "seconds_of_step"},
    "15": {"sharded"},
    "17": {"join_by", "join_by_store", "read_early"},
}


def launched_in(lesson: Path) -> set[str]:
    calls = (node for one in Notebook(cells_of_file(lesson)).statements for node in run_here(one.node))
    found = (node for node in calls if isinstance(node, ast.Call) and ast.unparse(node.func) == "launch")
    return {ast.unparse(node.args[0]) for node in found if node.args}


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    """The text for each function that a lesson launches, and nothing for one that is refused."""
    made = {}
    for lesson in LESSONS:
        for name in sorted(launched_in(lesson)):
            try:
                made[f"{lesson.name[:2]}_{name}"] = script_of_file(lesson, name).text
            except CannotCarry:
                made[f"{lesson.name[:2]}_{name}"] = ""
    return made


@nightly
def test_of_the_lessons_functions_those_are_refused_that_no_file_can_have(scripts: dict[str, str]) -> None:
    refused = {name for name, text in scripts.items() if not text}
    assert refused == {f"{lesson}_{name}" for lesson, names in REFUSED.items() for name in names}
    assert len(scripts) > 85


@nightly
def test_the_lessons_scripts_are_in_the_style_of_this_project(scripts: dict[str, str], tmp_path: Path) -> None:
    for name, text in scripts.items():
        if text:
            (tmp_path / f"{name}.py").write_text(text)
    settings = ["--config", str(PROJECT / "pyproject.toml"), "--config", f'src=["{PROJECT}"]', "--no-cache"]
    allowed_in_cells = ["--config", 'lint.extend-ignore=["B905"]']
    for command in (["check", *allowed_in_cells], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, *settings, str(tmp_path)]
        ended = subprocess.run(ruff, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert ended.returncode == 0, ended.stdout


def test_every_name_in_the_lessons_scripts_is_there(scripts: dict[str, str]) -> None:
    for name, text in scripts.items():
        compile(text, name, "exec")  # ruff has looked whether each name is defined; Python, whether it is one program


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    cells = [
        {"cell_type": "markdown", "source": "# A notebook"},
        {"cell_type": "code", "source": ["import torch\n", "import helpers"]},
        {"cell_type": "code", "source": "def train(rank, world_size, epochs=2):\n    return helpers, torch, epochs"},
        {"cell_type": "code", "source": "def broken(rank, world_size):\n    return unknown"},
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
    assert file.read_text().startswith('"""Run train of mine.ipynb on every rank.\n\ntorchrun --standalone ')
    said = capsys.readouterr().out
    assert f"wrote {file}. Start it with: torchrun --standalone --nproc-per-node=2 train.py --epochs=2\n" in said
    assert "It imports helpers from the notebook's folder: keep it in the folder of the script." in said


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
        ("mine.ipynb", "broken", "is not defined (`broken` needs it)"),
        ("mine.ipynb", "none", "none needs one thing that a script cannot contain"),
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
