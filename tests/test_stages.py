"""`make test` is green only if each test has passed, at most three of them at the second try."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from nights import by_day, nightly

TESTS = Path(__file__).parent
PLUGIN = """
import os, pathlib
from once_more import Failures
def pytest_configure(config):
    config.addinivalue_line("markers", "no_second_try")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Failures(pathlib.Path(os.environ["DDP_LESSONS_FAILURES"])))
"""
STAGES = "fails:\n\t@false\ntests:\n\t@{python} -m pytest -q -p no:cacheprovider .\n"
FLAKE = """
import os
def test_a_flake():
    if not os.path.exists("tried"):
        os.mkdir("tried")
        raise ValueError("at first")
"""
NEVER = FLAKE.replace("def", "import pytest\n@pytest.mark.no_second_try\ndef").replace("tried", "never")
WRONG = "def test_wrong():\n    assert 1 == 2\n"
BROKEN = "import not_there\n"


@nightly
@pytest.mark.parametrize(
    ("programs", "stages", "status", "named"),
    by_day(
        [
            ([FLAKE], ["tests"], 0, ["FLAKE test_0.py::test_a_flake"]),
            ([FLAKE], ["fails", "tests"], 1, ["FLAKE test_0.py::test_a_flake"]),
            ([FLAKE, WRONG], ["tests"], 1, ["FLAKE test_0.py::test_a_flake", "FAILED test_1.py::test_wrong"]),
            ([FLAKE, NEVER], ["tests"], 1, [f"FAILED test_{number}.py::test_a_flake" for number in range(2)]),
            ([WRONG, FLAKE, WRONG, WRONG], ["tests"], 1, ["FAILED test_1.py::test_a_flake"]),
            ([BROKEN], ["tests"], 1, ["FAILED test_0.py"]),
        ],
        1,
    ),
)
def test_what_failed_is_named_last_and_forgiven_only_if_it_passes_alone(
    programs: list[str], stages: list[str], status: int, named: list[str], tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text(PLUGIN)
    (tmp_path / "Makefile").write_text(STAGES.format(python=sys.executable))
    for number, program in enumerate(programs):
        (tmp_path / f"test_{number}.py").write_text(program)
    command = [sys.executable, str(TESTS / "stages.py"), *stages]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == status, run.stdout
    assert {" ".join(line.split()) for line in run.stdout.splitlines()} >= set(named)
    flakes = [flake["test"] for flake in json.loads((tmp_path / "build" / "flakes.json").read_text())]
    assert flakes == [name.split()[1] for name in named if name.startswith("FLAKE")]
