"""What is printed on a terminal has colors and fits its width; in a file it is the plain text."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest
from processes import run_on_a_terminal

from ddp_lessons import WorkerFailed, launch
from ddp_lessons.run.output.terminal_text import folded

REPORT = """
from ddp_lessons.check import Report
mistake = "Rank 1 receives into the tensor that it has yet to send, so that what it had is lost."
rows = ("    2 ranks; rank 0 was given a tensor of shape [120], float32", "    rank 0   calls recv (cell [7], line 6)")
print(Report("exchange", False, "not right yet", mistake, rows))
"""
PLAIN = """\
check.exchange: not right yet
  Rank 1 receives into the tensor that it has yet to send, so that what it had is lost.
    2 ranks; rank 0 was given a tensor of shape [120], float32
    rank 0   calls recv (cell [7], line 6)
"""
FOLDED = """\
check.exchange: not right yet
  Rank 1 receives into the tensor that it has yet
  to send, so that what it had is lost.
    2 ranks; rank 0 was given a tensor of shape
    [120], float32
    rank 0   calls recv (cell [7], line 6)
"""
A_TABLE = "    bytes sent by the busiest rank     720        720   and so on"
A_PROGRAM = "     12      dist.all_reduce(tensor, op=dist.ReduceOp.SUM)"
CODE = re.compile(r"\x1b\[[\d;]*m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def on_a_terminal(code: str, **environment: str) -> str:
    """What a program prints on a terminal of 50 columns."""
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    said, _ = run_on_a_terminal(["-c", code], {**kept, "COLUMNS": "50", **environment}, "stdout")
    return said


def test_a_report_on_a_terminal_is_in_color_and_folded_at_words() -> None:
    said = on_a_terminal(REPORT)
    assert said.startswith("\x1b[1;31mcheck.exchange: not right yet\x1b[0m\n")
    assert "    \x1b[38;2;0;114;178mrank 0\x1b[0m   calls recv" in said
    assert CODE.sub("", said) == FOLDED
    assert on_a_terminal(REPORT, NO_COLOR="1") == FOLDED


def test_a_report_in_a_file_is_the_plain_text() -> None:
    program = [sys.executable, "-c", REPORT]
    env = {**os.environ, "COLUMNS": "50"}
    assert subprocess.run(program, capture_output=True, env=env, check=True, text=True, timeout=60).stdout == PLAIN


def test_a_failure_in_ipython_is_in_color_and_its_message_stays_plain(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def divide(rank: int, world_size: int) -> float:
        return 1 / rank

    with pytest.raises(WorkerFailed) as caught:
        launch(divide, 2, quiet=True)
    monkeypatch.setattr(sys, "stdout", terminal)
    (shown,) = caught.value._render_traceback_()[:1]
    assert shown.startswith("\x1b[1;31mWorkerFailed: rank 0 of 2 raised")
    # uncaught, it has no name yet
    told = f"WorkerFailed: {caught.value}".replace("error.traceback", "import sys; sys.last_value.traceback")
    assert CODE.sub("", shown).split() == told.split()
    assert "\x1b[1m  Next:\x1b[0m " in shown
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "    rank 1   waiting in all_reduce with two others of its group (cell [7], line 6)",
            "    rank 1   waiting in all_reduce with two others\n             of its group (cell [7], line 6)",
        ),
        (A_TABLE, A_TABLE),
        (A_PROGRAM, A_PROGRAM),
    ],
)
def test_what_a_rank_does_stays_in_its_column_and_programs_and_tables_stay_whole(
    terminal: Terminal, text: str, shown: str
) -> None:
    assert folded(text, terminal) == shown
