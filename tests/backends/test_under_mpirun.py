"""Programs under mpirun: run where there is one, recorded where there is none, never an answer to something else."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import nbformat
import psutil
import pytest
from mpi_here import need_mpi
from nights import nightly

from ddp_lessons.backends import mpirun, under_mpirun
from ddp_lessons.backends.under_mpirun import why_no_mpi
from ddp_lessons.record.recordings import VARIABLE, NotHere

pytestmark = nightly

LESSON = pathlib.Path(__file__).parents[2] / "notebooks" / "17_reference.ipynb"
NAME, RANKS = "mean_over_mpi.py", 4


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the program of the lesson, as the lesson writes it."""
    monkeypatch.chdir(tmp_path)
    read: Any = nbformat.read
    sources = [cell.source for cell in read(LESSON, as_version=4).cells if cell.cell_type == "code"]
    (program,) = (source.partition("\n")[2] for source in sources if source.startswith(f"%%writefile {NAME}"))
    pathlib.Path(NAME).write_text(program, encoding="utf-8")
    assert f'mpirun("{NAME}", ranks={RANKS})' in "".join(sources)


@pytest.fixture
def no_mpi(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PATH", "")
    why_no_mpi.cache_clear()
    yield
    monkeypatch.undo()
    why_no_mpi.cache_clear()


def test_with_mpirun_a_program_is_run() -> None:
    need_mpi()
    ended = mpirun(pathlib.Path(NAME).rename("other.py"), 3)
    assert ended.lines == tuple(f"rank {rank} of 3: mean gradient [1.0, 1.0]" for rank in range(3))
    assert (ended.command, ended.origin) == ("mpirun -n 3 python other.py", "run on this machine")


@pytest.mark.usefixtures("no_mpi")
def test_without_mpirun_the_lesson_s_program_gives_what_was_recorded() -> None:
    """If it fails: run lesson 17 with DDP_LESSONS_RECORDINGS=record, where there is an MPI."""
    ended = mpirun(NAME, RANKS)
    assert ended.lines == tuple(f"rank {rank} of 4: mean gradient [1.0, 1.5]" for rank in range(4))
    assert (ended.is_live, ended.origin) == (False, "recorded: this machine has no MPI")


@pytest.mark.parametrize(
    ("name", "added", "ranks", "said"),
    [
        (NAME, "", RANKS + 1, "there is no recording of mean_over_mpi_5"),
        (NAME, "\nprint(1)", RANKS, "you changed it"),
        ("mine.py", "", RANKS, "there is no recording of mine_4"),
    ],
)
@pytest.mark.usefixtures("no_mpi")
def test_without_mpirun_no_other_program_is_answered(name: str, added: str, ranks: int, said: str) -> None:
    program = pathlib.Path(name)
    program.write_text(pathlib.Path(NAME).read_text(encoding="utf-8") + added, encoding="utf-8")
    with pytest.raises(NotHere, match=rf"\(this machine has no mpirun; to get it, install Open MPI .*{said}"):
        mpirun(program, ranks)


def test_a_live_run_becomes_the_recording(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_mpi()
    monkeypatch.setenv(VARIABLE, "record")
    stored = under_mpirun.RECORDINGS / f"mean_over_mpi_{RANKS}.json"
    monkeypatch.setattr(under_mpirun, "RECORDINGS", tmp_path)
    mpirun(NAME, RANKS)
    old, new = (json.loads(file.read_text(encoding="utf-8")) for file in (stored, tmp_path / stored.name))
    assert new == {**old, "recorded": new["recorded"]}


def test_a_program_that_fails_is_told_with_what_it_raised_and_the_line() -> None:
    need_mpi()
    pathlib.Path("early.py").write_text("import torch\n\nimport no_such_module\n", encoding="utf-8")
    with pytest.raises(RuntimeError) as failure:
        mpirun("early.py", 2)
    assert str(failure.value).splitlines() == [
        "a rank raised ModuleNotFoundError: No module named 'no_such_module'",
        "    early.py line 3:   import no_such_module",
    ]


def test_a_program_that_only_exits_is_told_in_mpiruns_words() -> None:
    need_mpi()
    pathlib.Path("exits.py").write_text("raise SystemExit(3)", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"(?s)^mpirun exited with code 3\n.*Exit code: +3$"):
        mpirun("exits.py", 1)


def test_of_a_rank_that_has_joined_the_number_is_told() -> None:
    said = '[rank2]: Traceback:\n[rank2]:   File "/a/b.py", line 7, in f\n[rank2]:     g()\n[rank2]: ValueError: no\n'
    assert under_mpirun._why_it_failed(said, 1, "b.py") == "rank 2 raised ValueError: no\n    b.py line 7:   g()"


def test_a_program_that_hangs_is_stopped_with_all_its_ranks(tmp_path: pathlib.Path) -> None:
    need_mpi()
    path = tmp_path / "hangs_in_a_test.py"
    path.write_text("import time; time.sleep(100)", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"mpirun took longer than 1 seconds and was stopped"):
        mpirun(path, 2, timeout_seconds=1)
    assert not [process for process in psutil.process_iter(["cmdline"]) if str(path) in (process.info["cmdline"] or ())]


def test_mpi4py_without_mpirun_and_mpirun_without_mpi4py_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/mpirun")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    why_no_mpi.cache_clear()
    try:
        assert why_no_mpi().startswith("this Python has no mpi4py; to get it, install Open MPI")
    finally:
        why_no_mpi.cache_clear()
