"""Logs of torchrun, real ones with gloo, and with the lines of NCCL's watchdog: which rank failed first?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from nights import by_day, nightly

from ddp_lessons.dumps.explain_command import explain_log
from ddp_lessons.dumps.job_log import read_log
from ddp_lessons.dumps.log_report import find_in_log

SCRIPT = """
import datetime, os, sys, time
import torch, torch.distributed as dist

if sys.argv[1] == "too early" and os.environ["RANK"] == "1":
    raise KeyError("no such setting")
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
rank, tensor = dist.get_rank(), torch.ones(2)
dist.all_reduce(tensor)
if rank == 1:
    if sys.argv[1] == "raises":
        raise ValueError("nothing to read")
    if sys.argv[1] == "is killed":
        os.kill(os.getpid(), 9)
    if sys.argv[1] == "sleeps":
        time.sleep(60)
dist.all_reduce(tensor)  # the second
dist.destroy_process_group()
"""


def log_of(what: str, folder: Path, *options: str) -> Path:
    """The log of a real job of three ranks."""
    (folder / "train.py").write_text(SCRIPT)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*torchrun, f"--log-dir={folder}", "train.py", what],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    path = folder / "job.log"
    path.write_text(done.stdout + done.stderr)
    return path


@pytest.mark.parametrize(
    ("what", "words"),
    by_day(
        [
            ("raises", ("rank 1 raised ValueError: nothing to read", "train.py line 12:", "Next: fix that line")),
            ("is killed", ("rank 1 was killed by SIGKILL", "memory runs out")),
            ("sleeps", ("ranks 0 and 2   waited at train.py line 17", "Rank 1 logged no error")),
            ("too early", ("raised KeyError: 'no such setting'", "train.py line 6")),
        ],
        1,
    ),
)
def test_the_rank_that_failed_first_is_named(
    what: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log_of(what, tmp_path)
    assert explain_log(str(path)) == 1
    said = capsys.readouterr().out
    assert not [one for one in words if one not in said], f"{said}\n\n{path.read_text()}"
    assert explain_log(str(path), is_json=True) == 1
    assert json.loads(capsys.readouterr().out)["first_rank"] == 1


@nightly
def test_lines_that_torchrun_and_torch_have_both_marked_are_read(tmp_path: Path) -> None:
    text = log_of("raises", tmp_path, "--tee=3").read_text()
    assert "[default1]:[rank1]: Traceback" in text
    message = find_in_log(read_log(text.splitlines()))[1]
    assert "rank 1 raised ValueError: nothing to read\n    train.py line 12:" in message


def test_on_a_second_node_the_rank_counts_and_not_its_number_on_that_node() -> None:
    marked = [f"[default0]:[rank2]: {line}" for line in traceback_of("ZeroDivisionError: division by zero", 3)]
    assert list(read_log(marked).raised) == [2]


@nightly
def test_a_rank_that_only_lost_its_connection_is_not_the_first(tmp_path: Path) -> None:
    """Even if torchrun saw its exit first, and calls it the root cause."""
    text = log_of("raises", tmp_path).read_text()
    first = next(n for n in (0, 2) if f"[rank{n}]: RuntimeError" in text or f"rank      : {n} " in text)
    swapped = text.replace("rank      : 1 ", "rank      : X ").replace(f"rank      : {first} ", "rank      : 1 ")
    log = read_log(swapped.replace("rank      : X ", f"rank      : {first} ").splitlines())
    assert log.root_cause == first
    rank, message = find_in_log(log)
    assert rank == 1
    assert f"torchrun names rank {first}" in message


@pytest.mark.parametrize(
    "last",
    [
        "[default1]:[rank1]: terminate called without an active exception",
        "[default1]:[rank1]: epoch 2",
        "[default1]:[rank1]: ==========",
    ],
)
def test_what_is_printed_after_an_exception_is_no_part_of_it(last: str) -> None:
    lines = traceback_of("ValueError: no data\n\tMissing key", 12)
    log = read_log([*(f"[default1]:[rank1]: {line}" for line in lines), last])
    assert log.raised[1].message == "no data\n\tMissing key"


def traceback_of(exception: str, line: int) -> list[str]:
    return [
        "Traceback (most recent call last):",
        f'  File "/home/ada/train.py", line {line}, in <module>',
        *exception.split("\n"),
    ]


TIMED_OUT = "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete"
LOST = "RuntimeError: [pair.cc:561] Connection closed by peer [127.0.0.1]:61651."
FEBRUARY = "E0225 23:11:25.549000 3202 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1)"
TABLE = [
    "=" * 60,
    "train.py FAILED",
    "Root Cause (first observed failure):",
    "  rank      : 0 (local_rank: 0)",
    "=" * 60,
]
EARLY = """\
Traceback (most recent call last):
  File "/home/ada/train.py", line 6, in <module>
    raise KeyError("no such setting")
KeyError: 'no such setting'
Traceback (most recent call last):
  File "/home/ada/train.py", line 7, in <module>
    dist.init_process_group("gloo")
torch.distributed.DistStoreError: wait timeout after 4000ms, keys: /default_pg/0//cpu//0/1
E1125 23:11:25.549000 3202 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: 1 \
(pid: 4067) of binary: /usr/bin/python
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-25_23:11:25
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 4067)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
# what the ranks logged, what is said of it, and what is not
LOGS: dict[str, tuple[list[str], str, str]] = {
    "gloo timed out, and other ranks lost the connection to those that gave up": (
        [
            *(f"[rank0]: {line}" for line in traceback_of(TIMED_OUT, 20)),
            *(f"[rank1]: {line}" for line in traceback_of(TIMED_OUT, 18)),
            *(f"[rank2]: {line}" for line in traceback_of(LOST, 20)),
        ],
        "rank 0   waited at train.py line 20\n    rank 1   waited at train.py line 18\n"
        "    rank 2   lost the connection at train.py line 20\n"
        "  The ranks waited on these lines, but the mistake is elsewhere: a rank made another call",
        "fix that line",
    ),
    "others waited at the rendezvous for the rank that torchrun names": (
        EARLY.splitlines(),
        "rank 1 raised KeyError: 'no such setting'\n    train.py line 6:",
        "DistStoreError",
    ),
    "of four ranks, three returned and logged nothing": (
        [f"[rank0]: {line}" for line in traceback_of("ValueError: no data", 3)],
        "WorkerFailed: rank 0 raised ValueError: no data",
        " of 1",
    ),
    "torchrun's lines follow, in any month": (
        [*traceback_of("ValueError: no data", 3), FEBRUARY, *TABLE],
        "rank 0 raised ValueError: no data\n    train.py line 3\n",
        "====",
    ),
    "torchrun --tee marks the lines of a rank without a number": (
        [*(f"[default0]:{line}" for line in traceback_of("ValueError: no data", 3)), *TABLE],
        "rank 0 raised ValueError: no data\n    train.py line 3\n",
        "====",
    ),
    "a number has very many digits": (
        [
            f"[rank{'9' * 100_000}]: Traceback (most recent call last):",
            f"  rank      : {'9' * 100_000} (local_rank: 0)",
            f'[rank0]:   File "train.py", line {"9" * 100_000}, in f',
            *(f"[rank0]: {line}" for line in traceback_of("ValueError: no data", 3)),
        ],
        "rank 0 raised ValueError: no data",
        "999",
    ),
    "an exception has codes for a terminal": (
        [f"[rank0]: {line}" for line in traceback_of("ValueError: no \x1b[2Jdata\x9b\u202e", 3)],
        "rank 0 raised ValueError: no data\n",
        "\x1b",
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_what_is_said_of_a_log(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, words, not_said = LOGS[name]
    path = tmp_path / "job.log"
    path.write_text("\n".join(lines))
    assert explain_log(str(path)) == 1
    said = capsys.readouterr().out
    assert words in said
    assert not_said not in said


@nightly
def test_a_job_that_ended_well_shows_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain_log(str(log_of("nothing", tmp_path))) == 0
    assert "shows no failure" in capsys.readouterr().out


@nightly
def test_only_the_last_attempt_counts(tmp_path: Path) -> None:
    log = read_log(log_of("raises", tmp_path, "--max-restarts=1").read_text().splitlines())
    assert log.raised[1].message == "nothing to read"
    assert find_in_log(log)[0] == 1


def watchdog(rank: int, number: int, operation: str = "ALLREDUCE", elements: int = 4) -> list[str]:
    """The two lines of a rank, as torch writes them: the call, then the state of its group."""
    begin = f"[rank{rank}]:[E1124 18:00:00.{rank} ProcessGroupNCCL.cpp:685] "
    about = f"SeqNum={number}, OpType={operation}, NumelIn={elements}, NumelOut={elements}, Timeout(ms)=600000"
    return [
        f"{begin}[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL({about}) ran for 600050 "
        "milliseconds before timing out.",
        f"{begin}[PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: "
        f"{number} PG status: last enqueued work: {number}, last completed work: {number - 1}",
    ]


def dump_signal(rank: int, number: int) -> str:
    return (
        f"[rank{rank}]:[E1124 18:00:01.{rank} ProcessGroupNCCL.cpp:1682] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        "Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug "
        f"info. Last enqueued NCCL work: {number}, last completed NCCL work: {number}."
    )


WATCHDOGS = {
    "the rank that is behind the others": (
        [*watchdog(0, 5), *watchdog(1, 5), *watchdog(3, 5), dump_signal(2, 4)],
        "    ranks 0, 1 and 3   timed out in all_reduce of 4 elements, collective 5, after 600 seconds\n"
        "    rank 2   logged no timeout; its last collective was 4",
        "Rank 2 has not called it.",
    ),
    "other calls": (
        [*watchdog(0, 5), *watchdog(1, 5, "BROADCAST"), *watchdog(2, 5)],
        "Mismatched collectives: ranks 0 and 2 called all_reduce",
        "rank 1 called broadcast",
    ),
    "other sizes": (
        [*watchdog(0, 5), *watchdog(1, 5, elements=3)],
        "Shape mismatch in this all_reduce: rank 0 passed [4]",
        "rank 1 passed [3]",
    ),
    "the same call on all ranks": (
        [*watchdog(0, 7), *watchdog(1, 7)],
        "ranks 0 and 1   timed out in all_reduce of 4 elements, collective 7",
        "All ranks in this log called collective 7",
    ),
}


@pytest.mark.parametrize("name", WATCHDOGS)
def test_what_is_said_of_the_timeouts_of_nccl(name: str) -> None:
    lines, *words = WATCHDOGS[name]
    message = find_in_log(read_log(lines))[1]
    assert not [one for one in words if one not in message], message


def test_an_exception_comes_before_the_timeouts_that_it_caused() -> None:
    raised = [f"[rank1]: {line}" for line in traceback_of("ValueError: nothing to read", 12)]
    rank, message = find_in_log(read_log([*watchdog(0, 5), *raised]))
    assert rank == 1
    assert "rank 1 raised ValueError: nothing to read" in message


def test_lines_of_any_kind_are_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_bytes(b"\x00\xff\n[rank99]: Traceback (most recent call last):\n[rank99]:\nFailures:\n  rank      : x\n")
    assert explain_log(str(path)) == 0
    assert explain_log(str(tmp_path / "none.log")) == 2
