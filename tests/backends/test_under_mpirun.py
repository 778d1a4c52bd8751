"""Programs under mpirun: run where there is one, recorded where there is none, never an answer to something else."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import nbformat
import psutil
import pytest
from mpi_here import need_mpi
from nights import nightly

from ddp_lessons.backends import NoMPI, mpirun
from ddp_lessons.backends.under_mpirun import RECORDINGS, why_no_mpi
from ddp_lessons.record.recordings import digest, recall

pytestmark = nightly

LESSON = pathlib.Path(__file__).parents[2] / "notebooks" / "17_reference.ipynb"
RECORDED = sorted(RECORDINGS.glob("*.json"))
NAME, RANKS = "mean_over_mpi.py", 4  # of one of them


@pytest.fixture
def no_mpi(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PATH", "")
    why_no_mpi.cache_clear()
    yield
    monkeypatch.undo()
    why_no_mpi.cache_clear()


def cells_of_the_lesson() -> list[Any]:
    read: Any = nbformat.read
    return [cell for cell in read(LESSON, as_version=4).cells if cell.cell_type == "code"]


def programs_of_the_lesson() -> dict[str, str]:
    written = (re.match(r"%%writefile (\S+)\n(.*)", cell.source, re.S) for cell in cells_of_the_lesson())
    return {match[1]: match[2] for match in written if match}


def test_every_program_that_the_lesson_runs_under_mpirun_was_recorded_as_it_is_now() -> None:
    """If it fails: record them again where there is an MPI."""
    programs, outputs = programs_of_the_lesson(), [output for cell in cells_of_the_lesson() for output in cell.outputs]
    shown = [output.data["text/plain"] for output in outputs if "data" in output]
    runs = [run for text in shown if (run := re.match(r"\$ mpirun -n (\d+) python (\w+)\.py\n(.*)\n", text, re.S))]
    expected = {f"{run[2]}_{run[1]}": (digest(programs[f"{run[2]}.py"].strip()), run[3].splitlines()) for run in runs}
    assert expected == {file.stem: (told["of"], told["lines"]) for file in RECORDED if (told := recall(file))}


def test_with_mpirun_a_program_is_run(tmp_path: pathlib.Path) -> None:
    need_mpi()
    program = programs_of_the_lesson()["mean_over_mpi.py"]
    (tmp_path / "other.py").write_text(program, encoding="utf-8")
    ended = mpirun(tmp_path / "other.py", 3)
    assert ended.lines == tuple(f"rank {rank} of 3: mean gradient [1.0, 1.0]" for rank in range(3))
    assert (ended.command, ended.origin) == ("mpirun -n 3 python other.py", "run on this machine")


@pytest.mark.usefixtures("no_mpi")
def test_without_mpirun_the_lessons_programs_give_what_was_recorded(tmp_path: pathlib.Path) -> None:
    (tmp_path / NAME).write_text(programs_of_the_lesson()[NAME], encoding="utf-8")
    ended = mpirun(tmp_path / NAME, RANKS)
    assert ended.lines == tuple(f"rank {rank} of 4: mean gradient [1.0, 1.5]" for rank in range(4))
    assert (ended.is_live, ended.origin) == (False, "recorded: this machine has no MPI")


@pytest.mark.usefixtures("no_mpi")
@pytest.mark.parametrize(
    ("name", "added", "ranks"), [(NAME, "", RANKS + 1), (NAME, "\nprint(1)", RANKS), ("mine.py", "", RANKS)]
)
def test_without_mpirun_no_other_program_is_answered(name: str, added: str, ranks: int, tmp_path: pathlib.Path) -> None:
    (tmp_path / name).write_text(programs_of_the_lesson()[NAME] + added, encoding="utf-8")
    why = r"this machine has no mpirun; to have one, install Open MPI .* there is no recording of this program"
    with pytest.raises(NoMPI, match=why):
        mpirun(tmp_path / name, ranks)


def test_a_program_that_fails_is_told_with_what_it_raised(tmp_path: pathlib.Path) -> None:
    need_mpi()
    (tmp_path / "fails.py").write_text("raise ValueError('no such thing')", encoding="utf-8")
    with pytest.raises(RuntimeError, match="ValueError: no such thing"):
        mpirun(tmp_path / "fails.py", 2)


def test_a_rank_that_has_not_joined_is_told_with_the_line(tmp_path: pathlib.Path) -> None:
    need_mpi()
    (tmp_path / "early.py").write_text("import torch\n\nimport no_such_module\n", encoding="utf-8")
    with pytest.raises(RuntimeError) as failure:
        mpirun(tmp_path / "early.py", 1)
    assert str(failure.value).splitlines() == [
        "a rank raised ModuleNotFoundError: No module named 'no_such_module'",
        "    early.py line 3:   import no_such_module",
    ]


def test_a_program_that_hangs_is_stopped_with_all_its_ranks(tmp_path: pathlib.Path) -> None:
    need_mpi()
    path = tmp_path / "hangs_in_a_test.py"
    path.write_text("import time; time.sleep(100)", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"mpirun had not ended after 1 seconds, and was stopped"):
        mpirun(path, 2, timeout_seconds=1)
    assert not [process for process in psutil.process_iter(["cmdline"]) if str(path) in (process.info["cmdline"] or ())]


def test_mpi4py_without_mpirun_and_mpirun_without_mpi4py_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/mpirun")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    why_no_mpi.cache_clear()
    try:
        assert why_no_mpi().startswith("this Python has no mpi4py; to have one, install Open MPI")
    finally:
        why_no_mpi.cache_clear()
