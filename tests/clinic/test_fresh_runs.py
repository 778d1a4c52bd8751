"""The jobs of the clinic, run again: they leave the same evidence, and the repaired ones end well."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from evidence import evidence, holds
from nights import nightly

from authoring.clinic import make
from ddp_lessons.clinic.clinic_cases import CASES, folder_of

pytestmark = nightly

NUMBERS = pytest.mark.parametrize("number", range(1, len(CASES) + 1))


@NUMBERS
def test_a_fresh_run_leaves_what_the_stored_one_left(number: int, tmp_path: Path) -> None:
    left = {file.as_posix() for file in make(number, tmp_path)}
    stored = folder_of(number)
    assert left | {"train.py.txt"} == {
        file.relative_to(stored).as_posix() for file in stored.rglob("*") if file.is_file()
    }
    assert holds(number, tmp_path), evidence(number, tmp_path)


@NUMBERS
def test_the_repaired_job_ends_well(number: int, tmp_path: Path) -> None:
    run = job_of(number, tmp_path, CASES[number - 1].repair)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_late_rank_of_case_6_was_only_late(tmp_path: Path) -> None:
    """With fewer documents the unchanged job ends by itself."""
    run = job_of(6, tmp_path, {15: "FILES = [20, 300, 30]"})
    assert run.returncode == 0, run.stdout + run.stderr
    assert "rank 1: [" in run.stdout


def job_of(number: int, folder: Path, changes: Mapping[int, str]) -> subprocess.CompletedProcess[str]:
    lines = (folder_of(number) / "train.py.txt").read_text(encoding="utf-8").splitlines()
    for place, new in changes.items():
        lines[place - 1] = new.replace("100", "1") if number == 6 else new  # a hundredth of the documents is enough
    (folder / "train.py").write_text("\n".join(lines) + "\n")
    size = CASES[number - 1].world_size
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}", "train.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
