"""How far a long piece of work is: said while it runs, in a notebook and in a terminal, and gone afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from nights import nightly
from notebook_session import NotebookSession
from processes import run_on_a_terminal

from ddp_lessons.run.output import progress_line
from ddp_lessons.check.judgment import LaunchCount
from ddp_lessons.run.output.progress_line import ProgressLine

IMPORTS = """
import time
from ddp_lessons import launch
from ddp_lessons.run.output import progress_line
from ddp_lessons.check.judgment import LaunchCount
from ddp_lessons.run.output.progress_line import ProgressLine
"""
AT_ONCE = "progress_line._PATIENCE_SECONDS = progress_line._SECONDS_BETWEEN_LINES = 0.0"
LAUNCHES = """
with LaunchCount({}):
    for _ in range(2):
        launch(lambda rank, world_size: time.sleep(0.2), 1, quiet=True)
"""
SHOWN = "with ProgressLine() as line: line.show('calls: 1 of 2'); line.show('calls: 2 of 2')"


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress_line, "time", clock)
    return clock


def test_the_time_left_is_that_of_the_launches_so_far(clock: Clock) -> None:
    launches = LaunchCount(24)
    assert launches.words() == "launch 1 of 24"
    for _ in range(6):
        clock.now += 1.5
        launches.finish(())
    assert launches.words() == "launch 7 of 24, about 27 s left"
    clock.now += 1.0
    assert launches.words() == "launch 7 of 24, about 26 s left"


def test_no_number_is_said_that_is_not_known(clock: Clock) -> None:
    launches = LaunchCount(2)
    for _ in range(2):
        clock.now += 5
        launches.finish(())
    assert launches.words() == "launch 3"  # one more than was announced
    launches.total = None
    assert launches.words() == "launch 3"
    launches.total = 3
    clock.now += 60  # this one takes longer than those before
    assert launches.words() == "launch 3 of 3"


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookSession]:
    with NotebookSession() as session:
        session.run(IMPORTS)
        yield session


@nightly
def test_a_notebook_shows_an_output_that_is_empty_at_first_and_at_last(kernel: NotebookSession) -> None:
    shown = [data for _, data in kernel.run(f"{AT_ONCE}\n{LAUNCHES.format(2)}").updates]
    assert shown[0] == shown[-1] == {}  # nbval compares the first, and a file keeps the last
    words = [data["text/plain"] for data in shown[1:-1]]
    assert words[0] == "launch 1 of 2"
    assert words[-1].startswith("launch 2 of 2")


@pytest.mark.parametrize("total", ["2", "None"])
def test_what_takes_less_than_its_patience_shows_nothing(total: str, kernel: NotebookSession) -> None:
    kernel.run("progress_line._PATIENCE_SECONDS = 60.0")
    assert kernel.run(LAUNCHES.format(total)).updates == []


def test_a_terminal_shows_one_line_and_erases_it() -> None:
    said, printed = run_on_a_terminal(["-c", f"{IMPORTS}\n{AT_ONCE}\n{SHOWN}"], os.environ, "stderr")
    assert said.split("\r\x1b[K") == ["", "calls: 1 of 2", "calls: 2 of 2", ""]
    assert printed == ""


def test_what_is_kept_in_a_file_has_no_such_line() -> None:
    program = [sys.executable, "-c", f"{IMPORTS}\n{AT_ONCE}\n{SHOWN}"]
    done = subprocess.run(program, capture_output=True, check=True, timeout=60)
    assert done.stdout + done.stderr == b""


def test_a_terminal_that_went_away_does_not_end_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def isatty(self) -> bool:
            raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(sys, "stderr", Gone())
    monkeypatch.setattr(progress_line, "_PATIENCE_SECONDS", 0.0)
    with ProgressLine() as line:
        line.show("calls: 1 of 2")
