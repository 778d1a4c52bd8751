"""The stop button: the ranks stop at once, each one's line is shown, and the next launch is right."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from nights import by_day, nightly
from notebook_session import Cell, NotebookSession
from processes import Doorbell, Program, alive, eventually, family, processes_named_in

from ddp_lessons import WorkerFailed, Workers, WorkersStuck

BEGIN = (
    "import os, subprocess, sys, time, torch, torch.distributed as dist\n"
    "from ddp_lessons import launch, Workers\n"
    "def ring(bell):\n    print('process', os.getpid()); open(bell, 'w').write('!')"
)
STOPPED = ("KeyboardInterrupt", "Interrupted")
WELL = (
    "def well(rank, size):\n    total = torch.ones(1) * rank\n    dist.all_reduce(total)\n    return total.item()\n"
    "list(launch(well, 3))"
)


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookSession]:
    with NotebookSession() as session:
        assert not session.run(BEGIN).error
        yield session


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[Doorbell]:
    doorbell = Doorbell(tmp_path)
    yield doorbell
    doorbell.close()


def stopped(
    kernel: NotebookSession,
    bell: Doorbell,
    *body: str,
    ranks: int = 3,
    call: str = "",
    times: int = 1,
    doing: str = "",
) -> Cell:
    """Begin a cell whose ranks ring the bell, then run these lines from line 3 on; stop it there."""
    lines = ["def run(rank, size):", f"    ring({bell.path!r})", *(f"    {line}" for line in body)]
    for _ in range(10):
        request = kernel.begin("\n".join([*lines, call or f"launch(run, {ranks})"]))
        bell.wait_for(ranks)
        for _ in range(times):
            kernel.interrupt()
            time.sleep(0.03 * (times > 1))
        cell = kernel.finish(request)
        assert alive(processes_named_in(cell.text)) == []
        assert len(processes_named_in(cell.text)) == ranks
        # from the bell to its line a rank gives no sign, and its first message may still be on its way
        is_early = "is at cell line 2" in cell.error or "is starting" in cell.error
        if not is_early and all(f"    rank {rank}   {doing}" in cell.error for rank in range(ranks)):
            break
    return cell


def check_that_all_is_well(kernel: NotebookSession) -> None:
    cell = kernel.run(WELL)
    assert (cell.value, cell.error) == ("[3.0, 3.0, 3.0]", "")


@pytest.mark.parametrize(
    ("body", "doing"),
    by_day(
        [
            ("time.sleep(1000)", "is at cell line 3:   time.sleep(1000)"),
            ("while True: pass", "is at cell line 3:   while True: pass"),
            ("sum(range(10**12))", "is at cell line 3:   sum(range(10**12))"),
            ("dist.recv(torch.ones(1), src=(rank + 1) % size)", "waits in recv (cell line 3:"),
            ("subprocess.run(['sleep', '1000'])", "is at cell line 3:   subprocess.run(['sleep', '1000'])"),
            ("while True: print('noise ' * 50)", "is at cell line 3:   while True: print('noise ' * 50)"),
            (
                "for _ in iter(int, 1):\n        try: time.sleep(1000)\n        except BaseException: pass",
                "is at cell line 4:   try: time.sleep(1000)",
            ),
            ("__import__('signal').signal(2, 1); time.sleep(1000)", "is at cell line 3:"),
        ],
        1,
    ),
    ids=["sleep", "loop", "c code", "recv", "subprocess", "flood", "catches all", "ignores"],
)
def test_ranks_stop_and_show_their_lines(kernel: NotebookSession, bell: Doorbell, body: str, doing: str) -> None:
    cell = stopped(kernel, bell, body, doing=doing)
    assert cell.error_name in STOPPED
    for rank in range(3):
        assert f"    rank {rank}   {doing}" in cell.error
    check_that_all_is_well(kernel)


def test_the_whole_message_of_an_interrupt(kernel: NotebookSession, bell: Doorbell) -> None:
    cell = stopped(kernel, bell, "if rank == 1:", "    dist.recv(torch.ones(1), src=0)", "time.sleep(1000)")
    assert cell.error.splitlines() == [
        "KeyboardInterrupt: you stopped the ranks",
        "    rank 0   is at cell line 5:   time.sleep(1000)",
        "    rank 1   waits in recv (cell line 4:   dist.recv(torch.ones(1), src=0))",
        "    rank 2   is at cell line 5:   time.sleep(1000)",
    ]


def test_twice_in_a_row_is_as_good_as_once(kernel: NotebookSession, bell: Doorbell) -> None:
    for _ in range(2):
        cell = stopped(kernel, bell, "dist.barrier() if rank else time.sleep(1000)")
        assert "rank 1   waits in barrier (cell line 3" in cell.error
    check_that_all_is_well(kernel)


@pytest.mark.parametrize("body", ["time.sleep(1000)", "sum(range(10**12))"])
def test_an_impatient_learner_changes_nothing(kernel: NotebookSession, bell: Doorbell, body: str) -> None:
    cell = stopped(kernel, bell, body, times=12)
    assert "rank 2   is at cell line 3" in cell.error
    check_that_all_is_well(kernel)


def test_a_stop_while_values_come_back_is_heard(kernel: NotebookSession, bell: Doorbell) -> None:
    cell = stopped(kernel, bell, "return torch.ones(50_000_000) if rank else time.sleep(1000)")
    assert "rank 0   is at cell line 3" in cell.error
    check_that_all_is_well(kernel)


def test_what_ranks_said_before_they_were_stopped_stays(kernel: NotebookSession, bell: Doorbell) -> None:
    cell = stopped(kernel, bell, "sys.stdout.write('not a whole line')", "sys.stdout.flush()", "time.sleep(1000)")
    assert cell.text.count("not a whole line") == 3


def test_a_stop_between_two_runs_of_workers_ends_them(kernel: NotebookSession, bell: Doorbell) -> None:
    call = "with Workers(3) as workers:\n    workers.run(run)\n    time.sleep(1000)"
    cell = stopped(kernel, bell, "pass", call=call)
    assert cell.error_name in STOPPED
    check_that_all_is_well(kernel)


def test_a_stop_in_one_thread_of_many_launches_leaves_a_kernel_that_works(
    kernel: NotebookSession, bell: Doorbell
) -> None:
    call = (
        "import threading\n"
        "other = threading.Thread(target=lambda: launch(run, 3, timeout_seconds=1, quiet=True)); other.start()\n"
        "other.join(); time.sleep(1000)"
    )
    lines = ["def run(rank, size):", f"    ring({bell.path!r})", "    time.sleep(1000)", call]
    request = kernel.begin("\n".join(lines))
    bell.wait_for(3)
    kernel.interrupt()
    assert kernel.finish(request).error_name in STOPPED
    kernel.run("other.join()")
    check_that_all_is_well(kernel)


@nightly
def test_spawned_ranks_stop_as_forked_ones_do(kernel: NotebookSession, bell: Doorbell) -> None:
    cell = stopped(kernel, bell, "sum(range(10**12))", ranks=2, call="launch(run, 2, start_method='spawn')")
    assert "rank 1   is at cell line 3:   sum(range(10**12))" in cell.error
    kernel.run(
        "from ddp_lessons.run.processes.process_pool import pool; pool.close()"
    )  # those that were started for next time
    check_that_all_is_well(kernel)


@nightly
@pytest.mark.parametrize("moment", by_day([0.0, 0.6], 1))
def test_the_very_first_launch_can_be_stopped_while_torch_is_still_imported(
    kernel: NotebookSession, moment: float
) -> None:
    """At several moments after the template was started."""
    kernel.restart()
    kernel_id = int(kernel.run("import os, time; os.getpid()").value)
    request = kernel.begin(
        "from ddp_lessons import launch\ndef run(rank, size): time.sleep(1000)\nlaunch(run, 3)",
    )
    assert eventually(lambda: "template.serve" in str([child.cmdline() for child in family(kernel_id)]))
    time.sleep(moment)  # this is what is varied here
    kernel.interrupt()
    assert kernel.finish(request).error_name in STOPPED
    assert not kernel.run(BEGIN).error
    check_that_all_is_well(kernel)


@nightly
def test_in_a_terminal_ctrl_c_stops_the_ranks_and_the_program_says_where_they_were() -> None:
    source = (
        "import time\nfrom ddp_lessons import launch\n"
        "def run(rank, size):\n    print('here'); time.sleep(1000)\n"
        "launch(run, 2)"
    )
    with Program(source) as program:
        program.wait_until_said("| here", times=2)
        program.interrupt()
        said = program.finish(10)
        assert "you stopped the ranks" in said
        assert "exit status" in said
        assert eventually(lambda: not program.marked())


@nightly
def test_a_rank_that_does_not_take_its_next_task_cannot_hold_the_notebook() -> None:
    def leave_a_thread_that_holds_the_lock(rank: int, world_size: int) -> int:
        threading.Timer(0.2, lambda: sum(range(10**12))).start()
        return os.getpid()

    def take(rank: int, world_size: int, data: bytes) -> int:
        return len(data)

    with Workers(2, quiet=True, timeout_seconds=1) as workers:
        ranks = [psutil.Process(process_id) for process_id in workers.run(leave_a_thread_that_holds_the_lock)]
        time.sleep(0.4)  # now it holds it, and can give no sign
        rescue = threading.Timer(6, lambda: list(map(psutil.Process.kill, ranks)))
        rescue.start()
        with pytest.raises((WorkersStuck, WorkerFailed)):
            workers.run(take, bytes(10_000_000))
        rescued = not rescue.is_alive()
        rescue.cancel()
    assert not rescued


def test_an_interrupt_that_is_not_the_launcher_s_stays_what_it_is(kernel: NotebookSession, bell: Doorbell) -> None:
    request = kernel.begin(f"ring({bell.path!r}); time.sleep(1000)")
    bell.wait_for(1)
    time.sleep(0.1)  # from the bell to the next call it gives no sign
    kernel.interrupt()
    cell = kernel.finish(request)
    assert cell.error_name == "KeyboardInterrupt"
    assert "ranks" not in cell.error
    check_that_all_is_well(kernel)


def test_a_training_that_is_stopped_keeps_its_curves_and_what_was_told(kernel: NotebookSession, bell: Doorbell) -> None:
    call = "launch(run, 3, live=lambda results: [one.numbers for told in results.told for one in told])"
    cell = stopped(kernel, bell, "__import__('ddp_lessons').tell(loss=rank)", "time.sleep(1000)", call=call)
    assert "  What they logged with tell() is in sys.last_value.results." in cell.error.splitlines()
    losses = "[{'loss': 0.0}, {'loss': 1.0}, {'loss': 2.0}]"
    assert [data["text/plain"] for _, data in cell.updates if "loss" in data.get("text/plain", "")][-1] == losses
    told = kernel.run("import sys; [one.numbers for told in sys.last_value.results.told for one in told]")
    assert told.value == losses
