"""The stop button: the ranks stop at once, each one's line is shown, and the next launch is right."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nights import by_day, nightly
from notebook_session import Cell, NotebookSession
from processes import Doorbell, Program, alive, eventually, family, processes_named_in

BEGIN = (
    "import os, sys, time, torch, torch.distributed as dist\n"
    "from ddp_lessons import launch, Workers\n"
    "def ring(bell):\n    print('process', os.getpid()); open(bell, 'w').write('!')"
)
STOPPED = ("KeyboardInterrupt", "Interrupted")


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
    kernel: NotebookSession, bell: Doorbell, *body: str, call: str = "launch(run, 3)", times: int = 1, doing: str = ""
) -> Cell:
    """Begin a cell whose three ranks ring the bell, then run these lines from line 3 on; stop it there."""
    lines = ["def run(rank, size):", f"    ring({bell.path!r})", *(f"    {line}" for line in body)]
    for _ in range(10):
        request = kernel.begin("\n".join([*lines, call]))
        bell.wait_for(3)
        for _ in range(times):
            kernel.interrupt()
            time.sleep(0.03 * (times > 1))
        cell = kernel.finish(request)
        assert alive(processes_named_in(cell.text)) == []
        assert len(processes_named_in(cell.text)) == 3
        # from the bell to its line a rank gives no sign, and its first message may still be on its way
        is_early = "is at cell line 2" in cell.error or "is starting" in cell.error
        if not is_early and all(f"    rank {rank}   {doing}" in cell.error for rank in range(3)):
            break
    assert cell.error_name in STOPPED
    check_that_all_is_well(kernel)
    return cell


def check_that_all_is_well(kernel: NotebookSession) -> None:
    add_up = "    total = torch.ones(1) * rank\n    dist.all_reduce(total)\n    return total.item()\n"
    cell = kernel.run(f"def well(rank, size):\n{add_up}list(launch(well, 3))")
    assert (cell.value, cell.error) == ("[3.0, 3.0, 3.0]", "")


@pytest.mark.parametrize(
    ("body", "line"),
    by_day(
        [
            ("sum(range(10**12))", "3:   sum(range(10**12))"),
            (
                "for _ in iter(int, 1):\n        try: time.sleep(1000)\n        except BaseException: pass",
                "4:   try: time.sleep(1000)",
            ),
            ("__import__('signal').signal(2, 1); time.sleep(1000)", "3:"),
        ],
        1,
    ),
)
def test_ranks_stop_and_show_their_lines(kernel: NotebookSession, bell: Doorbell, body: str, line: str) -> None:
    cell = stopped(kernel, bell, body, doing=f"is at cell line {line}")
    for rank in range(3):
        assert f"    rank {rank}   is at cell line {line}" in cell.error


def test_the_whole_message_of_an_interrupt(kernel: NotebookSession, bell: Doorbell) -> None:
    cell = stopped(kernel, bell, "if rank == 1:", "    dist.recv(torch.ones(1), src=0)", "time.sleep(1000)")
    assert cell.error.splitlines() == [
        "KeyboardInterrupt: you stopped the ranks",
        "    rank 0   is at cell line 5:   time.sleep(1000)",
        "    rank 1   waits in recv (cell line 4:   dist.recv(torch.ones(1), src=0))",
        "    rank 2   is at cell line 5:   time.sleep(1000)",
    ]


def test_an_impatient_learner_changes_nothing(kernel: NotebookSession, bell: Doorbell) -> None:
    cell = stopped(kernel, bell, "sum(range(10**12))", times=12)
    assert "rank 2   is at cell line 3" in cell.error


def test_a_stop_between_two_runs_of_workers_ends_them(kernel: NotebookSession, bell: Doorbell) -> None:
    call = "with Workers(3) as workers:\n    workers.run(run)\n    time.sleep(1000)"
    stopped(kernel, bell, "pass", call=call)


@nightly
def test_the_very_first_launch_can_be_stopped_while_torch_is_still_imported(kernel: NotebookSession) -> None:
    kernel.restart()
    kernel_id = int(kernel.run("import os, time; os.getpid()").value)
    request = kernel.begin("from ddp_lessons import launch\ndef run(rank, size): time.sleep(1000)\nlaunch(run, 3)")
    assert eventually(lambda: "template.serve" in str([child.cmdline() for child in family(kernel_id)]))
    time.sleep(0.3)
    kernel.interrupt()
    assert kernel.finish(request).error_name in STOPPED
    assert not kernel.run(BEGIN).error
    check_that_all_is_well(kernel)


@nightly
def test_in_a_terminal_ctrl_c_stops_the_ranks_and_the_program_says_where_they_were() -> None:
    run = "def run(rank, size):\n    print('here'); time.sleep(1000)\n"
    source = f"import time\nfrom ddp_lessons import launch\n{run}launch(run, 2)"
    with Program(source) as program:
        program.wait_until_said("| here", times=2)
        program.interrupt()
        said = program.finish(10)
        assert "you stopped the ranks" in said
        assert "exit status" in said
        assert eventually(lambda: not program.marked())


def test_a_training_that_is_stopped_keeps_its_curves_and_what_was_told(kernel: NotebookSession, bell: Doorbell) -> None:
    call = "launch(run, 3, live=lambda results: [one.numbers for told in results.told for one in told])"
    cell = stopped(kernel, bell, "__import__('ddp_lessons').tell(loss=rank)", "time.sleep(1000)", call=call)
    assert "  The values that they logged with tell() are in sys.last_value.results." in cell.error.splitlines()
    losses = "[{'loss': 0.0}, {'loss': 1.0}, {'loss': 2.0}]"
    assert [data["text/plain"] for _, data in cell.updates if "loss" in data.get("text/plain", "")][-1] == losses
    told = kernel.run("import sys; [one.numbers for told in sys.last_value.results.told for one in told]")
    assert told.value == losses
