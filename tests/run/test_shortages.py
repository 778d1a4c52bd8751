"""Where a machine is short of something, a launch names it and says what to do next."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from test_surroundings import DEFINE, as_nobody, namespaces, said_by

from ddp_lessons import WorkersStuck, launch
from ddp_lessons.run.launcher.shortages import next_step

OUTLIVE = "with Workers(2, standing=True) as workers: print(list(workers.run(add_up)))\n"


def test_no_temporary_folder_to_write_to_is_named() -> None:
    read_only = " && ".join(
        f"mount --bind {place} {place} && mount -o remount,bind,ro {place}" for place in ("/tmp", "/var/tmp")
    )
    said = said_by(
        DEFINE + "os.chdir('/proc')\n" + "print(list(launch(add_up, 2)))",
        prefix=namespaces("-m", f"mkdir -p /usr/tmp; {read_only}; mount --bind /proc /usr/tmp"),
        environment={"TMPDIR": None},
        folder=Path("/proc"),
    )
    assert "OSError: " in said or "FileNotFoundError: " in said
    assert "ranks need a writable temporary folder, and there is none" in said
    assert "Next: set the variable TMPDIR to a folder of yours" in said


FILL = "open(os.environ['TMPDIR'] + '/fill', 'wb').write(bytes(100_000_000))"


@nightly
@pytest.mark.parametrize("call", by_day(["print(list(launch(add_up, 2)))", OUTLIVE], 1))
def test_a_disk_that_is_full_when_ranks_start_is_named(call: str, tmp_path: Path) -> None:
    fill = f"import tempfile; tempfile.gettempdir()\ntry: {FILL}\nexcept OSError: pass\n"
    tiny = namespaces("-m", f"mount -t tmpfs -o size=2M none '{tmp_path}'")
    said = said_by(DEFINE + fill + call, prefix=tiny, environment={"TMPDIR": os.fspath(tmp_path)})
    assert "Next: " in said
    assert "full" in said


@nightly
def test_a_disk_that_fills_up_later_takes_no_rank_that_compares_its_calls(tmp_path: Path) -> None:
    """The file in which they compare was to grow page by page; a rank that found no page was killed by SIGBUS."""
    source = DEFINE + (
        "def many(rank, size):\n    return [add_up(rank, size) for _ in range(3000)][-1]\n"
        "with Workers(2, standing=True, quiet=True) as workers:\n"
        f"    workers.run(add_up)\n    try: {FILL}\n    except OSError: pass\n    print(list(workers.run(many)))\n"
    )
    tiny = namespaces("-m", f"mount -t tmpfs -o size=20M none '{tmp_path}'")
    said = said_by(source, prefix=tiny, environment={"TMPDIR": os.fspath(tmp_path)})
    assert said.splitlines()[-1] == "[1.0, 1.0]"


@nightly
def test_shared_memory_that_is_too_small_for_workers_of_a_loader_is_named() -> None:
    source = DEFINE + (
        "def load(rank, size):\n"
        "    import torch; from torch.utils.data import DataLoader\n"
        "    return sum(len(b) for b in DataLoader(torch.ones(64, 30_000), batch_size=16, num_workers=1))\n"
        "launch(load, 1)"
    )
    said = said_by(source, prefix=namespaces("-m", "mount -t tmpfs -o size=1M none /dev/shm"))
    assert "Next: use num_workers=0 or smaller batches" in said
    assert "DataLoader workers pass batches through /dev/shm, which has 1 MB" in said


def test_torch_2_10_says_that_shared_memory_is_temporarily_unavailable_but_it_is_too_small() -> None:
    said = "unable to allocate shared memory(shm) for file </torch_1_2_0>: Resource temporarily unavailable (11)"
    assert next_step(said).startswith("use num_workers=0 or smaller batches")


@nightly
def test_too_few_processes_or_threads_are_named_with_the_limit() -> None:
    source = DEFINE + (
        "def threads(rank, size):\n    import threading\n"
        "    for _ in range(100): threading.Thread(target=time.sleep, args=(5,)).start()\n"
        "launch(threads, 2)"
    )
    nobody = as_nobody(1235)  # whose processes nobody else starts: they are counted
    nobody["prefix"] += ["prlimit", "--nproc=60:60"]
    said = said_by(source, **nobody)
    assert "this user may have at most 60 processes and threads (ulimit -u" in said


@nightly
def test_a_process_that_was_stopped_does_not_answer_and_is_not_called_starting() -> None:
    def run(rank: int, world_size: int) -> None:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(torch.ones(1))

    with pytest.raises(WorkersStuck) as caught:
        launch(run, 2, timeout_seconds=1, quiet=True)
    assert "\n    rank 1   did not answer" in str(caught.value)
    assert "Next: rank 1 did not answer, not even to a signal. Look for a stopped process (SIGSTOP" in str(caught.value)


def test_torch_s_own_look_at_each_call_is_named_where_it_hides_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(rank: int, world_size: int) -> None:
        if rank == 0:
            dist.all_reduce(torch.ones(1))

    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    with pytest.raises(WorkersStuck) as caught:
        launch(run, 2, timeout_seconds=2, quiet=True)
    assert "With TORCH_DISTRIBUTED_DEBUG=DETAIL torch itself waits" in caught.value.remark


@pytest.mark.parametrize("join", ["no", 2, None])
def test_join_is_true_or_false(join: object) -> None:
    with pytest.raises(TypeError, match="join must be True or False"):
        launch(lambda rank, world_size: rank, 2, join=join)  # type: ignore[arg-type]
