"""`torchrun ... -m ddp_lessons record`: of the dumps of a hang, `explain` says what it says of the script itself."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from nights import nightly
from processes import eventually

from ddp_lessons.dumps.dump_report import find_fault
from ddp_lessons.dumps.left_behind import read_left_behind

pytestmark = nightly

RANKS = 2
SCRIPT = r"""
import sys
import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank, tensor = dist.get_rank(), torch.ones(2)
for step in range(3):
    dist.all_reduce(tensor)
if sys.argv[1] == "sends":
    dist.send(tensor, 1 - rank)
    dist.recv(tensor, 1 - rank)
if sys.argv[1] == "raises" and rank == 1:
    raise ValueError("nothing to read")
if sys.argv[1] == "ends well" or rank == 0:
    dist.all_reduce(tensor)
sys.stdout.write(f"rank {rank} is done {sys.argv}\n")
dist.barrier()
dist.destroy_process_group()
"""
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]


def start(folder: Path, what: str) -> subprocess.Popen[bytes]:
    (folder / "train.py").write_text(SCRIPT)
    command = [sys.executable, *TORCHRUN, f"--log-dir={folder / 'log'}", "-m", "ddp_lessons", "record"]
    command += ["--to", "dumps/rank_", "--after", "1", "train.py", what]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with open(folder / "output", "wb") as output:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)


def files(folder: Path) -> list[Path]:
    return sorted((folder / "dumps").glob("rank_?")) if (folder / "dumps").is_dir() else []


@pytest.mark.parametrize("what", ["sends", "skips one"])
def test_dumps_of_a_hang_say_what_explain_says_of_the_script(what: str, tmp_path: Path) -> None:
    job = start(tmp_path, what)
    try:
        assert eventually(lambda: len(files(tmp_path)) == RANKS), (tmp_path / "output").read_text()
    finally:
        job.send_signal(signal.SIGINT)
        job.wait(60)
    finding = find_fault(read_left_behind(str(tmp_path / "dumps" / "rank_")))
    command = [sys.executable, "-m", "ddp_lessons", "explain", f"--nproc-per-node={RANKS}", "train.py", what]
    live = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert finding.reason is not None
    assert all(line in live.stderr for line in finding.reason.lines), live.stderr


def test_a_script_that_ends_well_runs_as_always_and_its_dumps_say_so(tmp_path: Path) -> None:
    job = start(tmp_path, "ends well")
    assert job.wait(120) == 0, (tmp_path / "output").read_text()
    assert (tmp_path / "output").read_text().count("is done ['train.py', 'ends well']") == RANKS
    left = read_left_behind(str(tmp_path / "dumps" / "rank_"))
    assert left.endings == {0: "returned", 1: "returned"}
    assert find_fault(left).verdict.value == "nothing hangs"
    entries = pickle.loads(files(tmp_path)[0].read_bytes())["entries"]  # in torch's format
    assert [entry["profiling_name"] for entry in entries] == ["gloo:all_reduce"] * 4 + ["gloo:barrier"]
    assert {entry["state"] for entry in entries} == {"completed"}


def test_an_exception_ends_the_job_and_is_in_the_dump(tmp_path: Path) -> None:
    job = start(tmp_path, "raises")
    assert job.wait(120) != 0
    assert read_left_behind(str(tmp_path / "dumps" / "rank_")).endings[1] == "raised ValueError: nothing to read"
    assert "ValueError: nothing to read" in (tmp_path / "output").read_text()


def test_without_torchrun_it_says_how_to_start_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ddp_lessons", "record", "--to", "x_", "train.py"]
    without = {name: value for name, value in os.environ.items() if name != "RANK"}
    done = subprocess.run(command, cwd=tmp_path, env=without, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "torchrun ... -m ddp_lessons record" in done.stderr
