"""The stored files are of real runs, and say what the diagnosis of each case says."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from catalog.torch_analyzer import ask_torch, with_groups
from evidence import EXPECTED, evidence, holds

from ddp_lessons import clinic
from ddp_lessons.clinic.clinic_cases import CASES, folder_of
from ddp_lessons.dumps.explain_command import explain_log
from ddp_lessons.dumps.left_behind import read_left_behind

NUMBERS = pytest.mark.parametrize("number", range(1, len(CASES) + 1))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@NUMBERS
def test_the_stored_files_say_what_is_expected_of_them(number: int) -> None:
    assert holds(number, folder_of(number)), evidence(number, folder_of(number))


@NUMBERS
def test_a_case_is_small_and_names_no_folder_of_a_machine(number: int) -> None:
    files = [file for file in folder_of(number).rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 20_000
    for file in files:
        words = re.findall(rb"/\w[\w/.-]*/[\w.-]+", file.read_bytes())
        starts = (b"/job/", b"/usr/lib/python3/", b"/usr/bin/python3", b"/__w/pytorch/", b"/docs/", b"/pytorch.org/")
        odd = [word for word in words if word.startswith((b"/tmp", b"/home", b"/root", b"/work", b"/opt"))]
        assert not odd, file
        assert not [word for word in words if word.count(b"/") > 3 and not word.startswith(starts)], file


@NUMBERS
def test_the_files_of_a_case_are_put_into_a_folder_and_listed(number: int, here: Path) -> None:
    opened = clinic.case(number)
    listed = [file.as_posix() for file in opened.files]
    assert f"case_{number}/train.py" in listed
    assert len(listed) > 1
    assert all(name in repr(opened) for name in listed)
    assert CASES[number - 1].command in repr(opened)
    assert repr(clinic.case(number)) == repr(opened)  # again is no harm


def explained(place: str) -> dict[str, object]:
    command = [sys.executable, "-m", "ddp_lessons", "explain", place, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_explain_says_where_the_ranks_of_case_1_wait(here: Path) -> None:
    clinic.case(1)
    found = explained("case_1/dumps")
    ranks = [one["waits_in"] for one in found["ranks"]]  # type: ignore[attr-defined]
    assert [(one["call"], one["line"]) for one in ranks] == [("all_reduce", 24)] * 2 + [("barrier", 28)]
    reason = " ".join(found["reason"])  # type: ignore[arg-type]
    assert "ranks 0 and 1 all_reduce (train.py line 24); rank 2 barrier (train.py line 28)" in reason


def test_explain_says_which_rank_of_case_3_made_another_call(here: Path) -> None:
    clinic.case(3)
    reason = " ".join(explained("case_3/dumps")["reason"])  # type: ignore[arg-type]
    assert "ranks 0 and 1 all_gather" in reason
    assert "rank 2 all_reduce" in reason


def test_the_dumps_of_case_3_are_as_old_as_the_timeout_of_the_job(here: Path) -> None:
    """`explain` shows how long the ranks waited, and this must be the same wherever the files are copied."""
    clinic.case(3)
    waits = read_left_behind("case_3/dumps").waits
    assert all(19.9 < seconds < 20.1 for seconds in waits.values())


@pytest.mark.parametrize("number", [1, 3])
def test_torchs_analyzer_finds_the_same_call(number: int, tmp_path: Path) -> None:
    folder = folder_of(number) / "dumps"
    said = ask_torch(with_groups(folder, tmp_path / "with groups") if number == 3 else folder)
    assert f"Collective sequence number: {3 if number == 1 else 5} has errors" in said
    assert "COLLECTIVE_TYPE_MISMATCH" in said


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (4, ("Detected mismatch between collectives", "shapes: 2vs 1", "train.py line 17")),
        (5, ("rank 1 raised RuntimeError", "can't allocate memory", "train.py line 14")),
    ],
)
def test_explain_reads_the_logs(number: int, words: tuple[str, ...]) -> None:
    shown = io.StringIO()
    with redirect_stdout(shown):
        assert explain_log(str(folder_of(number) / "job.log")) == 1
    assert not [word for word in words if word not in shown.getvalue()]
    assert "because of rank" not in shown.getvalue()  # in case 4 all ranks raised it by themselves


def test_there_are_as_many_expectations_as_cases() -> None:
    assert list(EXPECTED) == list(range(1, len(CASES) + 1))
    assert len({case.rule for case in CASES}) == len(CASES)
