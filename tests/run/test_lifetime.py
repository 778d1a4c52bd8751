"""Nothing of ours outlives the notebook, nothing piles up while it lives, and many launches do not meet."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from processes import Program, alive, eventually, family, running, template_of

from ddp_lessons import WorkerFailed, Workers, launch
from ddp_lessons.run.launcher.private_folders import session_folder

pytestmark = pytest.mark.no_second_try


def add_up(rank: int, world_size: int) -> float:
    tensor = torch.ones(1) * rank
    dist.all_reduce(tensor)
    return tensor.item()


def who(rank: int, world_size: int) -> int:
    return os.getpid()


def fail(rank: int, world_size: int) -> None:
    print("x" * 3_000_000)
    if rank:
        os.abort()
    raise ValueError("lost")


def launch_well(world_size: int = 2, **options: Any) -> None:
    assert list(launch(add_up, world_size, quiet=True, **options)) == [sum(range(world_size))] * world_size


def launch_badly() -> None:
    with pytest.raises(WorkerFailed):
        launch(fail, 2, quiet=True)


# --- the notebook's process ends ------------------------------------------------------------------------------------

LAUNCH = """
import multiprocessing, os, sys, time
from ddp_lessons import launch, Workers
def run(rank, size):
    import torch, torch.distributed as dist
    {body}
launch(run, 2)
"""
DONE = LAUNCH.format(body="return rank")
LOADER = """
    for step, batch in enumerate(torch.utils.data.DataLoader(range(10**9), num_workers=2)):
        if step == 9: print('here')
"""
EACH_IN_ANOTHER_WAY = """
    import signal, subprocess
    if rank == 0:
        print('here'); sum(range(10**12))
    if rank == 1:
        subprocess.Popen(['sleep', '1000']); print('here'); time.sleep(1000)
    if rank == 2:
        for number in (1, 2, 3, 13, 15): signal.signal(number, signal.SIG_IGN)
        print('here'); time.sleep(1000)
    if rank == 3:
        os.fork() or print('here'); time.sleep(1000)
    if rank == 4:
        print('here'); os.kill(os.getpid(), signal.SIGSTOP)
"""
# a program; how often a rank or it says "here" before it is killed; how many processes it has then
KILLED: dict[str, tuple[str, int, int]] = {
    "while torch is imported": ("from ddp_lessons import launch; import time; time.sleep(1000)", 0, 2),
    # itself, the template, six ranks, and what these began (one of them may be between fork and exec)
    "at work": (LAUNCH.format(body=EACH_IN_ANOTHER_WAY + LOADER).replace("launch(run, 2)", "launch(run, 6)"), 6, 11),
    "in the middle of many launches": (f"{DONE}while True: launch(run, 3); print('here', flush=True)", 5, 2),
    "while spawned ranks work": (LAUNCH.format(body=LOADER).replace("n, 2)", "n, 2, start_method='spawn')"), 2, 3),
}


def folders_of(place: Path) -> list[Path]:
    return [path for path in place.iterdir() if path.name.startswith("ddp-")]


@pytest.mark.parametrize(("source", "times", "processes"), by_day(KILLED.values(), 1), ids=KILLED)
def test_no_process_and_no_file_is_left_of_a_kernel_that_was_killed(
    source: str, times: int, processes: int, tmp_path: Path
) -> None:
    with Program(source, environment={"TMPDIR": os.fspath(tmp_path)}) as program:
        program.wait_until_said("here", times)
        assert eventually(lambda: len(program.marked()) >= processes)
        program.kill()
        assert eventually(lambda: not program.marked())
        assert eventually(lambda: not folders_of(tmp_path))


SHARING_WORKERS = """
    torch.multiprocessing.set_sharing_strategy('file_descriptor')
    loader = torch.utils.data.DataLoader(torch.ones(100, 9), num_workers=1)
    batches = iter(loader)
    next(batches)
    if rank == 1: raise ValueError('as asked')
    time.sleep(1000)
"""


def test_a_launch_that_fails_leaves_no_folder_of_its_loader_workers() -> None:
    """In a folder whose path is as long as the sockets of multiprocessing allow."""
    folder = Path(tempfile.mkdtemp(prefix="x" * 58, dir="/tmp"))
    with Program(LAUNCH.format(body=SHARING_WORKERS), environment={"TMPDIR": os.fspath(folder)}) as program:
        assert "raised ValueError: as asked" in program.finish()
        assert eventually(lambda: not list(folder.iterdir())), list(folder.iterdir())
    folder.rmdir()


@nightly
@pytest.mark.parametrize("leave", by_day(["", "os._exit(0)"], 1), ids=["at its end", "by _exit"])
def test_a_program_that_ends_leaves_nothing_and_says_nothing_of_us(leave: str, tmp_path: Path) -> None:
    source = f"{DONE}open_workers = Workers(2); open_workers.run(run)\n{leave}"
    with Program(source, environment={"TMPDIR": os.fspath(tmp_path)}) as program:
        assert program.finish() == ""
        assert eventually(lambda: not program.marked())
        assert eventually(lambda: not folders_of(tmp_path))


FORKS = """
open_workers = Workers(2); open_workers.run(run)
if os.fork() == 0: time.sleep(1000)
print("now", flush=True); time.sleep(1000)
"""


@nightly
def test_a_child_that_the_notebook_forks_keeps_no_rank_alive() -> None:
    with Program(DONE + FORKS) as program:
        program.wait_until_said("now")
        program.kill()
        assert eventually(lambda: len(program.marked()) == 1)  # the child that the learner forked


# --- a helper ends, and the notebook lives --------------------------------------------------------------------------


@pytest.fixture
def all_is_well_afterwards() -> Iterator[None]:
    launch_well(4)  # now there is a template, and ranks that wait
    before = {process.pid for process in family(os.getpid()) if process.status() == psutil.STATUS_ZOMBIE}
    yield
    launch_well(3)
    zombies = {process.pid for process in family(os.getpid()) if process.status() == psutil.STATUS_ZOMBIE}
    assert zombies <= before


@pytest.mark.usefixtures("all_is_well_afterwards")
def test_spare_ranks_killed_while_they_wait_are_replaced() -> None:
    waiting = template_of(os.getpid()).children()
    for process in waiting:
        process.kill()
    assert eventually(lambda: not running(process.pid for process in waiting))
    launch_well(4)
    assert eventually(lambda: not alive([process.pid for process in waiting]))


@pytest.mark.usefixtures("all_is_well_afterwards")
def test_the_private_folder_may_be_cleaned_away() -> None:
    def load(rank: int, world_size: int) -> float:
        """A loader's workers pass their batches through sockets in that folder."""
        samples: Any = list(torch.arange(4.0))
        loader: Any = torch.utils.data.DataLoader(samples, num_workers=1)
        return float(sum(loader))

    shutil.rmtree(session_folder())
    assert list(launch(load, 1, quiet=True, timeout_seconds=20)) == [6.0]
    assert os.stat(session_folder()).st_mode & 0o777 == 0o700


# --- Workers --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("all_is_well_afterwards")
def test_forgotten_workers_in_a_ring_of_references_end_when_they_are_collected() -> None:
    workers = Workers(2, quiet=True)
    process_ids = list(workers.run(who))
    ring: list[object] = [workers]
    ring.append(ring)
    del workers, ring
    gc.collect()
    assert eventually(lambda: not alive(process_ids))


def test_workers_of_several_sizes_do_not_meet_and_one_failure_leaves_the_others_alone() -> None:
    with Workers(3, quiet=True) as outer:
        before = list(outer.run(who))
        with Workers(2, quiet=True) as inner:
            for _ in range(3):
                assert list(outer.run(add_up)) == [3.0] * 3
                assert list(inner.run(add_up)) == [1.0] * 2
                launch_well(4)
            with pytest.raises(WorkerFailed):
                inner.run(fail)
        assert list(outer.run(who)) == before
    assert alive(before) == []
    with pytest.raises(RuntimeError, match="closed"):
        outer.run(who)


# --- nothing piles up -----------------------------------------------------------------------------------------------


def footprint() -> dict[str, float]:
    us, template = psutil.Process(), template_of(os.getpid())
    return {
        "descriptors": us.num_fds(),
        "template's descriptors": template.num_fds(),
        "threads": us.num_threads(),
        "processes": len(family(us.pid)),
        "files": sum(len(names) + len(folders) for _, folders, names in os.walk(session_folder())),
        "other temporary files": len(os.listdir(tempfile.gettempdir())),
        "megabytes": sum(process.memory_full_info().uss for process in (us, template)) / 1e6,
    }


def least_footprint(repeat: Callable[[], object]) -> dict[str, float]:
    """What is kept for a while comes and goes, what leaks stays."""
    found = []
    for _ in range(5):
        repeat()
        gc.collect()
        found.append(footprint())
    return {what: min(one[what] for one in found) for what in found[0]}


@nightly
@pytest.mark.parametrize(("repeat", "times", "megabytes"), [(launch_well, 90, 3), (launch_badly, 10, 10)])
def test_many_launches_leave_nothing(
    repeat: Callable[[], object], times: int, megabytes: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(tmp_path))
    least_footprint(repeat)  # to warm up
    before = least_footprint(repeat)
    for _ in range(times):
        repeat()
    after = least_footprint(repeat)
    grown = {what: amount - before[what] for what, amount in after.items()}
    assert grown.pop("megabytes") < megabytes
    assert max(grown.values()) <= 0, grown


def test_no_file_that_the_notebook_has_open_is_open_in_a_rank(tmp_path: Path) -> None:
    def opened(rank: int, world_size: int) -> set[str]:
        return {os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")}

    with open(tmp_path / "secret", "w") as secret:
        os.set_inheritable(secret.fileno(), True)
        for names in launch(opened, 2, quiet=True):
            assert secret.name not in names


@pytest.mark.usefixtures("all_is_well_afterwards")
def test_two_threads_cannot_mix_their_runs_on_the_same_ranks() -> None:
    with Workers(2, quiet=True) as workers:
        other = threading.Thread(target=workers.run, args=(lambda rank, world_size: time.sleep(1),))
        other.start()
        time.sleep(0.3)
        with pytest.raises(RuntimeError, match="running a function in another thread"):
            workers.run(add_up)
        other.join()
        assert list(workers.run(add_up)) == [1.0, 1.0]


def test_a_rank_imports_nothing_that_its_template_has_not_imported_for_it() -> None:
    """Each rank would pay for it, with time and memory."""

    def imported(rank: int, world_size: int) -> set[str]:
        dist.barrier()
        return set(sys.modules)

    of_template = "import sys; from ddp_lessons.run.rank import template; template._import_ahead(); print(*sys.modules)"
    known = subprocess.run([sys.executable, "-c", of_template], capture_output=True, text=True, check=True).stdout
    mine = {name.partition(".")[0] for name in sys.modules if name.startswith("test")}
    for names in launch(imported, 2, quiet=True):
        assert names - set(known.split()) - mine == set()
