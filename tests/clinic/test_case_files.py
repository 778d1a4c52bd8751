"""The files of the cases are of real runs, and say what the diagnosis of each case says. The repaired jobs end well."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from catalog.torch_analyzer import ask_torch, with_groups
from evidence import EXPECTED, READERS
from nights import nightly

from ddp_lessons import clinic
from ddp_lessons.clinic.clinic_cases import CASES, PROGRAM, Case
from ddp_lessons.dumps.explain_command import explain_log
from ddp_lessons.dumps.left_behind import read_left_behind
from tools.authoring.clinic import make

EACH = pytest.mark.parametrize("one", CASES.values(), ids=lambda one: f"case {one.number}")


def files_in(folder: Path) -> dict[str, Path]:
    return {file.relative_to(folder).as_posix(): file for file in folder.rglob("*") if file.is_file()}


@EACH
def test_the_stored_files_say_what_is_expected_of_them(one: Case) -> None:
    assert READERS[one.number](one.folder) == EXPECTED[one.number]


@nightly
@EACH
def test_a_fresh_run_leaves_what_the_stored_one_left(one: Case, tmp_path: Path) -> None:
    left = {file.as_posix() for file in make(one, tmp_path)}
    assert left | {PROGRAM} == set(files_in(one.folder))
    assert READERS[one.number](tmp_path) == EXPECTED[one.number]


@EACH
def test_a_case_is_small_and_names_no_folder_of_a_machine(one: Case) -> None:
    files = files_in(one.folder).values()
    assert sum(file.stat().st_size for file in files) < 20_000
    for file in files:
        words = re.findall(rb"/\w[\w/.-]*/[\w.-]+", file.read_bytes())
        starts = (b"/job/", b"/usr/lib/python3/", b"/usr/bin/python3", b"/__w/pytorch/", b"/docs/", b"/pytorch.org/")
        odd = [word for word in words if word.startswith((b"/tmp", b"/home", b"/root", b"/work", b"/opt"))]
        assert not odd, file
        assert not [word for word in words if word.count(b"/") > 3 and not word.startswith(starts)], file


@EACH
def test_the_files_of_a_case_are_put_into_a_folder_and_listed(
    one: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened = clinic.case(one.number)
    listed = [file.as_posix() for file in opened.files]
    assert f"case_{one.number}/train.py" in listed
    assert len(listed) == len(files_in(one.folder)) > 1
    assert all(words in repr(opened) for words in (*listed, one.command))
    assert repr(clinic.case(one.number)) == repr(opened)  # again is no harm


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (1, r"ranks 0 and 1 called all_reduce \(train.py line 24\); rank 2 called barrier \(train.py line 28\)"),
        (3, "ranks 0 and 1 called all_gather.* rank 2 called all_reduce"),
    ],
)
def test_explain_says_where_the_ranks_wait_and_torchs_analyzer_finds_the_same_call(
    number: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dumps = clinic.case(number).folder / "dumps"
    command = [sys.executable, "-m", "ddp_lessons", "explain", str(dumps), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert re.search(reason, " ".join(json.loads(done.stdout)["reason"]))
    said = ask_torch(with_groups(dumps, tmp_path / "with groups") if number == 3 else dumps)
    assert f"Collective sequence number: {3 if number == 1 else 5} has errors" in said
    assert "COLLECTIVE_TYPE_MISMATCH" in said


def test_the_dumps_of_case_3_are_as_old_as_the_timeout_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`explain` shows how long the ranks waited, and this must be the same wherever the files are copied."""
    monkeypatch.chdir(tmp_path)
    clinic.case(3)
    waits = read_left_behind("case_3/dumps").waits
    assert len(waits) == 3
    assert all(19.9 < seconds < 20.1 for seconds in waits.values())


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
        assert explain_log(str(CASES[number].folder / "job.log")) == 1
    assert not [word for word in words if word not in shown.getvalue()]
    assert "because of rank" not in shown.getvalue()  # in case 4 all ranks raised it by themselves


@nightly
@EACH
def test_the_repaired_job_ends_well(one: Case, tmp_path: Path) -> None:
    is_slow = one.number == 6  # a hundredth of its documents is enough
    run = job_of(one, tmp_path, {line: new.replace("100", "1") if is_slow else new for line, new in one.repair.items()})
    assert run.returncode == 0, run.stdout + run.stderr


@nightly
def test_the_late_rank_of_case_6_was_only_late(tmp_path: Path) -> None:
    """With fewer documents the unchanged job ends by itself."""
    run = job_of(CASES[6], tmp_path, {15: "FILES = [20, 300, 30]"})
    assert run.returncode == 0, run.stdout + run.stderr
    assert "rank 1: [" in run.stdout


def job_of(one: Case, folder: Path, changes: Mapping[int, str]) -> subprocess.CompletedProcess[str]:
    text = "\n".join(changes.get(line, old) for line, old in enumerate(one.program, 1))
    (folder / "train.py").write_text(text + "\n")
    nproc = f"--nproc-per-node={one.world_size}"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", nproc, "train.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
