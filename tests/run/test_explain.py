"""`python -m ddp_lessons explain`: a plain script, started as people start it, is explained as a cell is."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from nights import by_day, nightly
from processes import alive, eventually, family

SCRIPT = r"""
import os, sys, time
import torch, torch.distributed as dist

def main():
    dist.init_process_group("gloo")
    rank, what = dist.get_rank(), sys.argv[1]
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    script = os.path.basename(sys.argv[0])
    sys.stdout.write(f"rank {rank} has {tensor.tolist()} {sys.argv[1:]} {script} {__name__}\n")
    if what == "raise" and rank == 1:
        raise ValueError("nothing to read")
    if what == "uneven" and rank == 1:
        return
    if what == "shapes":  # gloo aborts one of the ranks
        dist.all_gather([torch.ones(900 + 100 * rank) for _ in range(2)], torch.ones(900 + 100 * rank))
    if what == "sleeps" and rank == 1:
        time.sleep(1000)
    dist.all_reduce(tensor)  # the second
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
"""

BY_ITSELF = r"""
import os, sys
import torch, torch.distributed as dist, torch.multiprocessing as mp
from torch.distributed import init_process_group  # by its name, as the tutorials do

def run(rank, world_size, file, what):
    init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=world_size)
    tensor = torch.ones(1)
    dist.recv(tensor, 1 - rank) if what == "hangs" else dist.all_reduce(tensor)
    dist.barrier()
    sys.stdout.write(f"rank {rank} of world {os.path.basename(file)}\n")
    sys.stdout.flush()

if __name__ == "__main__":
    folder, how, *worlds = sys.argv[1:]
    for number, what in enumerate(worlds):
        if what == "ends":
            os._exit(3)
        if what == "is interrupted":
            os.kill(os.getpid(), 15)
        if how == "spawn":
            mp.spawn(run, args=(2, f"{folder}/{number}", what), nprocs=2)
        else:
            children = [mp.Process(target=run, args=(rank, 2, f"{folder}/{number}", what)) for rank in range(2)]
            [child.start() for child in children]
            [child.join() for child in children]
"""


def explained(folder: Path, text: str, *arguments: str, options: tuple[str, ...] = ()) -> tuple[int, str, str]:
    (folder / "train.py").write_text(text)
    command = [sys.executable, "-m", "ddp_lessons", "explain", *options, "train.py", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout, done.stderr


def with_torchrun(folder: Path, what: str, *options: str) -> tuple[int, str, str]:
    return explained(folder, SCRIPT, what, options=("--nproc-per-node", "2", *options))


@pytest.mark.no_second_try
def test_a_script_that_goes_well_is_left_alone(tmp_path: Path) -> None:
    status, printed, told = with_torchrun(tmp_path, "well")
    assert status == 0
    assert sorted(printed.splitlines()) == [f"rank {r} has [2.0, 2.0] ['well'] train.py __main__" for r in range(2)]
    assert "rank" not in told


# the catalog has the whole messages; here is what comes of how a script was started
SAID = {
    "shapes": [
        "was killed by SIGABRT",
        "Shape mismatch in this all_gather: rank 0 passed [900] float32, rank 1 passed [1000] float32 (",
    ],
    "uneven": [
        "waits in all_reduce of float32 [2] (train.py line 20:",
        "\n        called from train.py line 24 in <module>\n",
        'torchrun alone would show: "Connection closed by peer"',
    ],
    "raise": ["WorkerFailed: rank 1 of 2 raised ValueError: nothing to read", "train.py line 13"],
}


@pytest.mark.parametrize("what", by_day(SAID, 2))
def test_what_goes_wrong_is_told_as_launch_tells_it(tmp_path: Path, what: str) -> None:
    status, _, told = with_torchrun(tmp_path, what)
    assert status == 1
    for words in SAID[what]:
        assert words in told


@pytest.mark.no_second_try
def test_nothing_is_left_of_ranks_that_did_not_join_within_the_limit(tmp_path: Path) -> None:
    status, _, told = explained(
        tmp_path, "import time; time.sleep(1000)", options=("--nproc-per-node", "2", "--timeout", "0.5")
    )
    assert status == 1  # and it came back: a process that is left would hold what it prints into
    assert "no rank joined a process group within 0.5 seconds" in told


def by_itself(folder: Path, *how_and_worlds: str) -> tuple[int, list[str], str]:
    status, printed, told = explained(folder, BY_ITSELF, str(folder), *how_and_worlds)
    return status, sorted(printed.splitlines()), told


@pytest.mark.parametrize("how", by_day(["spawn", "process"], 1))
def test_of_ranks_that_a_script_starts_by_itself_those_that_hang_are_explained(tmp_path: Path, how: str) -> None:
    status, printed, told = by_itself(tmp_path, how, "is well", "hangs")
    assert (status, printed) == (1, ["rank 0 of world 0", "rank 1 of world 0"])
    assert "Deadlock: ranks 0 and 1 each wait for the other to send." in told


@pytest.mark.parametrize(("how", "expected"), by_day([("ends", 3), ("is interrupted", 128 + signal.SIGTERM)], 1))
def test_a_script_that_ends_itself_gives_its_own_status(tmp_path: Path, how: str, expected: int) -> None:
    status, printed, _ = by_itself(tmp_path, "spawn", "is well", how)
    assert (status, printed) == (expected, ["rank 0 of world 0", "rank 1 of world 0"])


@nightly
@pytest.mark.no_second_try
def test_torchrun_leaves_no_folder_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    assert with_torchrun(tmp_path, "raise")[0] == 1
    assert list(temporary.iterdir()) == []


@nightly
def test_a_script_that_is_not_there_or_has_no_ranks_is_as_in_python(tmp_path: Path) -> None:
    status, printed, _ = explained(tmp_path, "print('alone')")
    assert (status, printed) == (0, "alone\n")
    status, _, told = explained(tmp_path, "", options=("no-such-script.py",))
    assert status == 2
    assert "no such script: no-such-script.py" in told
    status, _, told = explained(tmp_path, "raise KeyError('x')")
    assert status == 1
    assert "KeyError: 'x'" in told
    assert "no rank joined a process group" in told


@nightly
@pytest.mark.no_second_try
def test_nothing_is_left_of_a_script_that_stood_still_or_was_stopped(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "ddp_lessons", "explain", "--nproc-per-node", "2", "train.py", "sleeps"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as explaining:
        assert explaining.stdout is not None
        assert explaining.stdout.readline().startswith("rank")
        began = [process.pid for process in family(explaining.pid)]
        assert len(began) >= 3
        explaining.send_signal(signal.SIGINT)
        _, told = explaining.communicate(timeout=30)
    assert "you stopped the ranks" in told
    assert explaining.returncode == 130
    assert eventually(lambda: not alive(began))
