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

IMPORTS = """
import time
from ddp_lessons import launch
from ddp_lessons.run.output import progress_line
from ddp_lessons.check.judgment import LaunchCount
from ddp_lessons.run.output.progress_line import ProgressLine
"""
AT_ONCE = "progress_line._PATIENCE_SECONDS = progress_line._SECONDS_BETWEEN_LINES = 0.0"
LAUNCHES = """
with LaunchCount(2):
    for _ in range(2):
        launch(lambda rank, world_size: time.sleep(0.2), 1, quiet=True)
"""
SHOWN = "with ProgressLine() as line: line.show('calls: 1 of 2'); line.show('calls: 2 of 2')"


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookSession]:
    with NotebookSession() as session:
        session.run(IMPORTS)
        yield session


@nightly
def test_a_notebook_shows_an_output_that_is_empty_at_first_and_at_last(kernel: NotebookSession) -> None:
    shown = [data for _, data in kernel.run(f"{AT_ONCE}\n{LAUNCHES}").updates]
    assert shown[0] == shown[-1] == {}  # nbval compares the first, and a file keeps the last
    words = [data["text/plain"] for data in shown[1:-1]]
    assert words[0] == "launch 1 of 2"
    assert words[-1] == "launch 2 of 2"


def test_what_takes_less_than_its_patience_shows_nothing(kernel: NotebookSession) -> None:
    kernel.run("progress_line._PATIENCE_SECONDS = 60.0")
    assert kernel.run(LAUNCHES).updates == []


def test_a_terminal_shows_one_line_and_erases_it() -> None:
    said, printed = run_on_a_terminal(["-c", f"{IMPORTS}\n{AT_ONCE}\n{SHOWN}"], os.environ, "stderr")
    assert said.split("\r\x1b[K") == ["", "calls: 1 of 2", "calls: 2 of 2", ""]
    assert printed == ""


def test_what_is_kept_in_a_file_has_no_such_line() -> None:
    program = [sys.executable, "-c", f"{IMPORTS}\n{AT_ONCE}\n{SHOWN}"]
    done = subprocess.run(program, capture_output=True, check=True, timeout=60)
    assert done.stdout + done.stderr == b""
