"""Nothing of ours outlives the notebook, nothing piles up while it lives, and many launches do not meet."""

from __future__ import annotations

import gc
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from notebook_session import NotebookSession
from processes import Program, alive, eventually, family, template_of

from ddp_lessons import WorkerFailed, Workers, launch
from ddp_lessons.run.launcher.private_folders import session_folder
from ddp_lessons.run.processes.process_pool import pool

pytestmark = pytest.mark.no_second_try


def add_up_here(world_size: int = 2, amount: float = 1.0, **options: object) -> list[float]:
    """One launch in this process, of a function that every rank must have understood for the answer to be right."""

    def add_up(rank: int, world_size: int, amount: float) -> float:
        tensor = torch.ones(1) * rank * amount
        dist.all_reduce(tensor)
        return tensor.item()

    return list(launch(add_up, world_size, amount, quiet=True, **options))  # type: ignore[arg-type]


def sum_of_ranks(world_size: int, amount: float = 1.0) -> list[float]:
    return [amount * sum(range(world_size))] * world_size


# --- the notebook's process ends ------------------------------------------------------------------------------------

LAUNCH = """
import os, sys, time
from ddp_lessons import launch, Workers
def run(rank, size):
    import torch, torch.distributed as dist
    {body}
launch(run, 2)
"""
LOADER = """
    for step, batch in enumerate(torch.utils.data.DataLoader(range(10**9), num_workers=2)):
        if step == 9: print('here')
"""
EACH_IN_ANOTHER_WAY = """
    import signal, subprocess
    if rank == 0:
        print('here'); time.sleep(1000)
    while rank == 1:
        print('here' * (size > 0)); size = 0
    if rank == 2:
        print('here'); sum(range(10**12))
    if rank == 3:
        print('here'); dist.recv(torch.ones(1), src=0)
    if rank == 4:
        subprocess.Popen(['sleep', '1000']); print('here'); time.sleep(1000)
    if rank == 5:
        for number in (1, 2, 3, 13, 15): signal.signal(number, signal.SIG_IGN)
        print('here'); time.sleep(1000)
    if rank == 6:
        os.fork() or print('here'); time.sleep(1000)
    if rank == 7:
        print('here'); os.kill(os.getpid(), signal.SIGSTOP)
"""


def folders_of(place: Path) -> list[Path]:
    return [path for path in place.iterdir() if path.name.startswith("ddp-")]


@nightly
def test_no_process_and_no_file_is_left_two_seconds_after_the_kernel_was_killed(tmp_path: Path) -> None:
    source = LAUNCH.format(body=EACH_IN_ANOTHER_WAY + LOADER).replace("launch(run, 2)", "launch(run, 9)")
    with Program(source, environment={"TMPDIR": os.fspath(tmp_path)}) as program:
        program.wait_until_said("| here", times=9)
        # itself, the template, nine ranks, and what these began (one of them may be between fork and exec)
        assert eventually(lambda: len(program.marked()) >= 15)
        program.kill()
        assert eventually(lambda: not program.marked())
        assert eventually(lambda: not folders_of(tmp_path))


DONE = LAUNCH.format(body="pass")
NOW = "print('now', flush=True)"
SOONER = {
    "while torch is imported": "from ddp_lessons import launch",
    "while the first launch waits for torch": DONE,
    "idle": f"{DONE}{NOW}",
    "between two runs": f"{DONE}with Workers(2) as workers:\n    workers.run(run); {NOW}; time.sleep(1000)",
    "in the middle of many launches": f"{DONE}while True: launch(run, 3); {NOW}",
    "while spawned ranks import torch": DONE.replace("2)", "2, start_method='spawn')"),
}


@pytest.mark.parametrize("source", by_day(SOONER.values(), 1), ids=SOONER)
def test_nothing_is_left_of_a_kernel_that_was_killed_at_another_moment(source: str) -> None:
    with Program(source + "\nimport time; time.sleep(1000)") as program:
        if "now" in source:
            program.wait_until_said("now", times=5 if "while True" in source else 1)
        else:
            assert eventually(lambda: len(program.marked()) >= (4 if "spawn" in source else 2))
        program.kill()
        assert eventually(lambda: not program.marked())


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
def test_spawned_ranks_at_work_do_not_outlive_the_kernel(tmp_path: Path) -> None:
    environment = {"DDP_LESSONS_START_METHOD": "spawn", "TMPDIR": os.fspath(tmp_path)}
    with Program(LAUNCH.format(body=LOADER), environment=environment) as program:
        program.wait_until_said("| here", times=2)
        program.kill()
        assert eventually(lambda: not program.marked())
        assert eventually(lambda: not folders_of(tmp_path))


@nightly
@pytest.mark.parametrize(
    "leave",
    by_day(["", "raise ValueError('by the learner')", "os._exit(0)", "os.kill(os.getpid(), 15)"], 1),
    ids=["at its end", "by an error", "by _exit", "by SIGTERM"],
)
def test_a_program_that_ends_leaves_nothing_and_says_nothing_of_us(leave: str, tmp_path: Path) -> None:
    source = LAUNCH.format(body="return rank") + f"open_workers = Workers(2); open_workers.run(run)\n{leave}"
    with Program(source, environment={"TMPDIR": os.fspath(tmp_path)}) as program:
        said = program.finish()
        assert "ddp_lessons" not in said
        assert "Exception ignored" not in said
        assert eventually(lambda: not program.marked())
        assert eventually(lambda: not folders_of(tmp_path))


def test_a_program_that_ends_before_torch_is_imported_waits_for_nothing() -> None:
    source = (
        "import atexit, os, time\n"
        "atexit.register(lambda: print('ended after', time.monotonic() - end))  # the last of all that is done\n"
        "from ddp_lessons import launch\nfrom processes import template_of\n"
        "template_of(os.getpid()).suspend()  # it imports for ever\n"
        "end = time.monotonic()"
    )
    with Program(source, environment={"PYTHONPATH": os.path.dirname(__file__) + "/.."}) as program:
        assert float(program.finish().split("ended after")[1]) < 1
        assert eventually(lambda: not program.marked())


@nightly
def test_a_notebook_that_is_killed_or_restarted_leaves_nothing_and_launches_again() -> None:
    begin = "import os, time\nfrom ddp_lessons import launch\ndef run(rank, size): return os.getpid()\nos.getpid()"
    with NotebookSession() as session:
        first = int(session.run(begin).value)
        session.run("list(launch(run, 3))")
        before = family(first)
        session.restart()
        assert eventually(lambda: not alive([process.pid for process in before]))
        second = int(session.run(begin).value)
        assert len(session.run("list(launch(run, 3))").value.split(",")) == 3
        session.begin("def run(rank, size): time.sleep(1000)\nlaunch(run, 3)")
        time.sleep(0.5)  # a rank gives no sign that a killed kernel could pass on
        during = family(second)
        session.kill()
        assert eventually(lambda: not alive([process.pid for process in during]))


# --- a helper ends, and the notebook lives --------------------------------------------------------------------------


@pytest.fixture
def all_is_well_afterwards() -> Iterator[None]:
    add_up_here(4)  # now there is a template, and ranks that wait
    before = {process.pid for process in family(os.getpid()) if process.status() == psutil.STATUS_ZOMBIE}
    yield
    assert add_up_here(3) == sum_of_ranks(3)
    zombies = [process for process in family(os.getpid()) if process.status() == psutil.STATUS_ZOMBIE]
    assert not [zombie for zombie in zombies if zombie.pid not in before]


def killed(processes: Sequence[psutil.Process]) -> list[int]:
    """Kill them, see them dead, and return their ids."""
    for process in processes:
        process.kill()
    dead = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    assert eventually(lambda: all(not process.is_running() or process.status() in dead for process in processes))
    return [process.pid for process in processes]


@nightly
@pytest.mark.usefixtures("all_is_well_afterwards")
def test_a_template_killed_while_idle_is_replaced() -> None:
    template = template_of(os.getpid())
    waiting = [process.pid for process in template.children()]
    killed([template])
    assert add_up_here(4) == sum_of_ranks(4)
    assert template_of(os.getpid()).pid != template.pid
    assert eventually(lambda: alive([template.pid, *waiting]) == [])


@nightly
@pytest.mark.usefixtures("all_is_well_afterwards")
def test_a_template_killed_under_running_ranks_is_a_failure_that_says_so() -> None:
    template = template_of(os.getpid())

    def run(rank: int, world_size: int, template: int) -> None:
        print(os.getpid())
        dist.barrier()
        if rank == 0:
            os.kill(template, signal.SIGKILL)
        time.sleep(1000)

    with pytest.raises(WorkerFailed) as caught:
        launch(run, 2, template.pid, quiet=True)
    assert "both ranks exited together" in str(caught.value)
    assert "let the function return" not in str(caught.value)
    assert eventually(lambda: not alive([int(lines[0]) for lines in caught.value.results.lines]))


@pytest.mark.usefixtures("all_is_well_afterwards")
def test_spare_ranks_killed_while_they_wait_are_replaced() -> None:
    waiting = killed(template_of(os.getpid()).children())
    assert add_up_here(4) == sum_of_ranks(4)
    assert eventually(lambda: not alive(waiting))


@pytest.mark.usefixtures("all_is_well_afterwards")
def test_the_private_folder_may_be_cleaned_away() -> None:
    shutil.rmtree(session_folder())
    assert add_up_here(3) == sum_of_ranks(3)
    assert os.stat(session_folder()).st_mode & 0o777 == 0o700


# --- many at once, and one in the other -----------------------------------------------------------------------------


@nightly
def test_two_programs_launch_at_once() -> None:
    source = LAUNCH.format(body="total = torch.ones(1) * rank; dist.all_reduce(total); return total.item()")
    source += "print([list(launch(run, 3)) for _ in range(10)] == [[3.0] * 3] * 10)"
    with Program(source) as one, Program(source) as other:
        assert one.finish() == other.finish() == "True\n"


@nightly
@pytest.mark.usefixtures("all_is_well_afterwards")
def test_eight_threads_launch_at_once() -> None:
    answers: dict[tuple[int, int], object] = {}

    def launch_five_times(thread: int) -> None:
        for turn in range(5):
            try:
                answers[thread, turn] = add_up_here(2 + thread % 3, amount=thread * 10 + turn)
            except BaseException as error:
                answers[thread, turn] = error

    threads = [threading.Thread(target=launch_five_times, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {(t, n): sum_of_ranks(2 + t % 3, t * 10 + n) for t in range(8) for n in range(5)}


@pytest.mark.usefixtures("all_is_well_afterwards")
def test_two_threads_cannot_mix_their_runs_on_the_same_ranks() -> None:
    """Both right, one after the other, or one refused."""

    def slowly(rank: int, world_size: int, amount: int) -> int:
        time.sleep(0.2)
        return amount

    answers: list[object] = []
    with Workers(2, quiet=True, timeout_seconds=5) as workers:

        def run(amount: int) -> None:
            try:
                answers.append(list(workers.run(slowly, amount)))
            except Exception as error:
                answers.append(error)

        threads = [threading.Thread(target=run, args=(amount,)) for amount in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    refused = [answer for answer in answers if isinstance(answer, RuntimeError) and "thread" in str(answer)]
    right = [answer for answer in answers if answer in ([1, 1], [2, 2])]
    assert len(refused) + len(right) == 2, answers


@nightly
@pytest.mark.usefixtures("all_is_well_afterwards")
def test_a_launch_in_a_thread_while_the_main_thread_forks() -> None:
    stop = threading.Event()
    answers: list[list[float]] = []

    def keep_launching() -> None:
        while not stop.is_set():
            answers.append(add_up_here(3))

    thread = threading.Thread(target=keep_launching)
    thread.start()
    for _ in range(20):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    stop.set()
    thread.join()
    assert answers == [sum_of_ranks(3)] * len(answers)


def test_a_launch_inside_a_rank_is_refused_in_a_sentence() -> None:
    def run(rank: int, world_size: int) -> object:
        return launch(lambda rank, world_size: rank, 2)

    with pytest.raises(WorkerFailed, match="launch was called inside a rank") as caught:
        launch(run, 2, quiet=True)
    assert "call launch in the notebook" in str(caught.value)


def test_a_launch_in_a_process_that_a_rank_started_is_refused_or_works() -> None:
    def run(rank: int, world_size: int) -> str:
        child = os.fork()
        if child == 0:
            try:
                launch(lambda rank, world_size: rank, 2, quiet=True)
                os._exit(0)
            except RuntimeError:
                os._exit(42)
            finally:
                os._exit(1)
        return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    assert list(launch(run, 2, quiet=True)) in (["42", "42"], ["0", "0"])


FORKED = """
import multiprocessing, os, sys
from ddp_lessons import launch, Workers
def run(rank, size): return rank
launch(run, 3)
outer = Workers(2)
def child(ending):
    print("child", list(launch(run, 3)), flush=True)
    launch(run, 2)
    ending(0)
for ending in (os._exit, sys.exit):
    number = os.fork()
    if number == 0:
        child(ending)
    os.waitpid(number, 0)
    print("parent", list(launch(run, 3)), list(outer.run(run)), flush=True)
process = multiprocessing.get_context("fork").Process(target=child, args=(sys.exit,))
process.start(); process.join()
print("parent", list(launch(run, 3)), list(outer.run(run)), flush=True)
"""


@nightly
def test_a_launch_in_a_forked_child_works_and_leaves_the_parent_s_alone(tmp_path: Path) -> None:
    with Program(FORKED, environment={"TMPDIR": os.fspath(tmp_path)}) as program:
        assert program.finish().splitlines() == ["child [0, 1, 2]", "parent [0, 1, 2] [0, 1]"] * 3
        assert eventually(lambda: not program.marked())
        assert eventually(lambda: not folders_of(tmp_path))


@nightly
def test_a_forked_child_that_lives_on_keeps_no_rank_alive() -> None:
    source = (
        LAUNCH.format(body="pass")
        + "if os.fork() == 0:\n    time.sleep(1000)\nprint('now', flush=True); time.sleep(1000)"
    )
    with Program(source) as program:
        program.wait_until_said("now")
        program.kill()
        assert eventually(lambda: len(program.marked()) == 1)  # the child that the learner forked


# --- Workers --------------------------------------------------------------------------------------------------------


def process_ids_of(workers: Workers) -> list[int]:
    def who(rank: int, world_size: int) -> int:
        return os.getpid()

    return list(workers.run(who))


@pytest.mark.usefixtures("all_is_well_afterwards")
def test_forgotten_workers_end_when_they_are_collected() -> None:
    workers = Workers(2, quiet=True)
    process_ids = process_ids_of(workers)
    del workers
    gc.collect()
    assert eventually(lambda: not alive(process_ids))


@nightly
@pytest.mark.usefixtures("all_is_well_afterwards")
def test_forgotten_workers_in_a_ring_of_references_end_too() -> None:
    ring: list[object] = [Workers(2, quiet=True)]
    process_ids = process_ids_of(ring[0])  # type: ignore[arg-type]
    ring.append(ring)
    del ring
    gc.collect()
    assert eventually(lambda: not alive(process_ids))


def test_closed_workers_refuse_to_run() -> None:
    with Workers(2, quiet=True) as workers:
        process_ids = process_ids_of(workers)
    workers.close()
    assert alive(process_ids) == []
    with pytest.raises(RuntimeError, match="closed"):
        process_ids_of(workers)


def test_workers_of_several_sizes_do_not_meet() -> None:
    def add_up(rank: int, world_size: int) -> float:
        tensor = torch.ones(1) * rank
        dist.all_reduce(tensor)
        return tensor.item()

    with Workers(3, quiet=True) as outer, Workers(2, quiet=True) as inner:
        for _ in range(3):
            assert list(outer.run(add_up)) == sum_of_ranks(3)
            assert list(inner.run(add_up)) == sum_of_ranks(2)
            assert add_up_here(4) == sum_of_ranks(4)


def test_a_failure_of_inner_workers_leaves_the_outer_ones_alone() -> None:
    def fail(rank: int, world_size: int) -> None:
        raise ValueError("inner")

    with Workers(2, quiet=True) as outer:
        before = process_ids_of(outer)
        with pytest.raises(WorkerFailed), Workers(2, quiet=True) as inner:
            inner.run(fail)
        assert process_ids_of(outer) == before


@pytest.mark.usefixtures("all_is_well_afterwards")
def test_a_rank_killed_between_two_runs_is_told_at_the_next() -> None:
    def nothing(rank: int, world_size: int) -> None:
        pass

    with Workers(2, quiet=True) as workers:
        os.kill(process_ids_of(workers)[1], signal.SIGKILL)
        with pytest.raises(WorkerFailed, match="rank 1 of 2 was killed by SIGKILL"):
            workers.run(nothing)


@nightly
def test_sizes_may_alternate() -> None:
    sizes = [1, 8, 2, 12, 3, 1, 16, 2]
    assert [add_up_here(size) for size in sizes] == [sum_of_ranks(size) for size in sizes]


# --- nothing piles up -----------------------------------------------------------------------------------------------


@pytest.fixture
def temporary_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(tmp_path))


def footprint() -> dict[str, int]:
    us, template = psutil.Process(), template_of(os.getpid())
    return {
        "descriptors": us.num_fds(),
        "template's descriptors": template.num_fds(),
        "threads": us.num_threads(),
        "processes": len(family(us.pid)),
        "files": sum(len(files) + len(folders) for _, folders, files in os.walk(session_folder())),
        "other temporary files": len(os.listdir(tempfile.gettempdir())),
    }


def megabytes() -> float:
    us, template = psutil.Process(), template_of(os.getpid())
    return float(us.memory_full_info().uss + template.memory_full_info().uss) / 1e6


def least_memory(repeat: Callable[[], object], times: int) -> float:
    """In megabytes: what is kept for a while comes and goes, what leaks stays."""
    least = math.inf
    for left in reversed(range(times)):
        repeat()
        if left < 5:
            gc.collect()
            least = min(least, megabytes())
    return least


def grows(repeat: Callable[[], object], times: int) -> tuple[dict[str, int], float]:
    """By how much each thing grew, after a warm-up, and the memory of the second half over that of the first."""
    for _ in range(5):
        repeat()
    gc.collect()
    before = footprint()
    earlier, later = (least_memory(repeat, times // 2) for _ in range(2))
    after = footprint()
    return {what: after[what] - before[what] for what in before if after[what] > before[what]}, later - earlier


@nightly
@pytest.mark.usefixtures("temporary_folder_of_its_own")
def test_a_hundred_launches_are_right_and_leave_nothing() -> None:
    wrong = []

    def once() -> None:
        if add_up_here(2) != sum_of_ranks(2):
            wrong.append(1)

    grown, memory = grows(once, 100)
    assert (wrong, grown) == ([], {})
    assert memory < 3


@nightly
@pytest.mark.usefixtures("temporary_folder_of_its_own")
def test_failures_leave_nothing_either() -> None:
    def run(rank: int, world_size: int) -> None:
        print("x" * 3_000_000)
        if rank:
            os.abort()
        raise ValueError("lost")

    def once() -> None:
        with pytest.raises(WorkerFailed):
            launch(run, 2, quiet=True)

    grown, memory = grows(once, 10)
    assert {what: by for what, by in grown.items() if what != "files"} == {}
    assert memory < 10


@nightly
@pytest.mark.usefixtures("temporary_folder_of_its_own")
def test_a_spawned_world_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "prepare", lambda count, method: None)  # else many import torch at once
    add_up_here(1)
    before = footprint()
    for _ in range(2):
        assert add_up_here(2, start_method="spawn") == sum_of_ranks(2)
    after = footprint()
    assert {what: after[what] - before[what] for what in before if after[what] > before[what]} == {}


@nightly
def test_processes_that_wait_for_another_spawned_world_end_when_none_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take 300 to 500 MB each."""

    def waiting() -> int:
        return sum("rank.main" in " ".join(process.cmdline()) for process in family(os.getpid()))

    monkeypatch.setattr("ddp_lessons.run.processes.process_pool.IDLE_SECONDS", 1.0)
    assert add_up_here(2, start_method="spawn") == sum_of_ranks(2)
    assert eventually(lambda: waiting() == 0)


def test_failures_that_ranks_outlive_leave_no_files() -> None:
    def files() -> int:
        return sum(len(names) + len(folders) for _, folders, names in os.walk(session_folder()))

    def fail(rank: int, world_size: int) -> None:
        dist.all_reduce(torch.ones(1))
        if rank == 0:
            raise ValueError("no")
        dist.barrier()

    counts = []
    with Workers(2, quiet=True, outlive_failures=True) as workers:
        for _ in range(4):
            with pytest.raises(WorkerFailed, match="no"):
                workers.run(fail)
            counts.append(files())
    assert counts[3] - counts[1] < 3  # each kept three; a process that waits in the pool may come or go meanwhile


def test_no_file_that_the_notebook_has_open_is_open_in_a_rank(tmp_path: Path) -> None:
    def opened(rank: int, world_size: int) -> set[str]:
        numbers = os.listdir("/proc/self/fd")
        return {os.path.realpath(f"/proc/self/fd/{number}") for number in numbers}

    with open(tmp_path / "secret", "w") as secret:
        os.set_inheritable(secret.fileno(), True)
        for files in launch(opened, 2, quiet=True):
            assert secret.name not in files


def test_a_program_that_the_notebook_starts_gets_none_of_our_descriptors() -> None:
    with Workers(2, quiet=True) as workers:
        process_ids_of(workers)
        look = (
            "import os; fds = '/proc/self/fd/'; files = [os.path.realpath(fds + name) for name in os.listdir(fds)]; "
            "print([file for file in files if 'socket' in file])"
        )
        assert subprocess.check_output([sys.executable, "-c", look], close_fds=False, text=True) == "[]\n"
