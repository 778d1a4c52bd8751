"""`breakpoint()` in a rank: the dialogue goes through a real kernel's stdin, or a terminal's."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pexpect
import pytest
from nights import by_day, nightly
from notebook_session import TWO_RANKS_STOP, Cell, NotebookSession
from processes import PROJECT, alive, eventually, processes_named_in

_FIRST_CELL = """
import os, sys, time
import torch, torch.distributed as dist
from ddp_lessons import launch
%load_ext ddp_lessons
"""
_FAILS = """
    def half(number):
        share = number // 2
        if share == 1:
            raise ValueError("too small")
        return share

    def train(rank, size):
        x = rank + 1
        half(x)
        dist.barrier()

    launch(train, 4, debug=True)
"""
_CELL = "%%ranks 3\nx = torch.ones(2) * rank\nif rank > 0:\n    breakpoint()\ny = x + 1\ndist.all_reduce(x)\nx"
_REDUCED = "\n".join(f"rank {rank} | tensor([3., 3.])" for rank in range(3))
_WAITS = "rank 0   waits in all_reduce (cell line 6:   dist.all_reduce(x))\n"
# the cell; what is typed; what is said, in this order; how the cell ends
_DIALOGUES: dict[str, tuple[str, Sequence[str], Sequence[str], str]] = {
    "two ranks": (
        TWO_RANKS_STOP.format("timeout_seconds=20"),
        ["p x", "x += 10", "n", "where all", "rank 0", "rank 7", "rank 2", "p x", "c", "c"],
        [
            "ranks 1 and 2:\n> cell line 5, in train()\n-> y = x + 1\nrank 1 of 4, cell line 5> p x\n",
            "tensor([1., 1.])\nrank 1 of 4, cell line 5> x += 10\nrank 1 of 4, cell line 5> n\n",
            "> cell line 6, in train()\n-> dist.all_reduce(x)\nrank 1 of 4, cell line 6> where all\n",
            _WAITS,
            "rank 1   stopped at cell line 6:   dist.all_reduce(x)\nrank 2   stopped at cell line 5:   y = x + 1\n",
            f"rank 1 of 4, cell line 6> rank 0\n{_WAITS}",
            "> rank 7\nthere is no rank 7 in a world of 4\n",
            "rank 2 of 4, cell line 5> p x\ntensor([2., 2.])\n",
            "rank 2 of 4, cell line 5> c\nrank 2   waits in all_reduce (cell line 6:   dist.all_reduce(x))\n",
            "rank 1 of 4, cell line 6> c\n",
        ],
        str([[16.0, 16.0]] * 4),
    ),
    "a rank that raises": (
        _FAILS,
        ["p share", "up", "p x", "c", "p number", "where all", "c"],
        [
            "ranks 1 and 2:\nValueError: too small\n> cell line 4, in half()\n-> raise ValueError",
            "> p share\n1\n",
            "> p x\n2\n",
            "> c\nrank 1   raised ValueError: too small\nrank 2 of 4, cell line 4> p number\n3\n",
            "rank 0   waits in barrier (cell line 10:   dist.barrier())\nrank 1   raised",
        ],
        "WorkerFailed: ranks 1 and 2 of 4 raised ValueError: too small\n    cell line 4",
    ),
    "a cell": (
        _CELL,
        ["n", "c", "c"],
        ["ranks 1 and 2:\n> cell line 5, in <module>()\n-> y = x + 1\nrank 1"],
        _REDUCED,
    ),
    "the end of a cell": (
        "%%ranks 1,\nbreakpoint()\nx = 5",
        ["n", "n"],
        ["--Return--\n> cell line 3, in <module>"],
        "",
    ),
    "quit in a cell": ("%%ranks\nbreakpoint()", ["q"], [], "KeyboardInterrupt: you quit the debugger\n    rank 0   is"),
    "a cell that fails": ("%%ranks 3\nx = rank + 1\nassert x < 2", [], [], "ranks 1 and 2 of 3 raised AssertionError"),
    "after the failure": ("%debug", ["p x", "q"], ["rank 1:\nAssertionError\n> cell line 3, in", "> p x\n2\n"], ""),
    "of another rank": ("%ranks debug 2", ["p x", "c"], ["> p x\n3\n"], ""),
    "of a rank that returned": ("%ranks debug 0", [], ["rank 0 has raised no exception\n"], ""),
    "of the notebook": ("1 / 0", [], [], "ZeroDivisionError"),
    "python's own": ("%debug", ["q"], ["ipdb> q"], ""),
}


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookSession]:
    with NotebookSession({"PYTHONPATH": os.fspath(PROJECT)}) as session:
        assert not session.run(_FIRST_CELL).error
        yield session


def talk(kernel: NotebookSession, source: str, *answers: str | Callable[[], object]) -> Cell:
    try:
        return kernel.converse(source, answers)
    except AssertionError:
        kernel.interrupt()  # or the next test would find it at this prompt
        raise


def test_dialogues(kernel: NotebookSession) -> None:
    for name, (source, typed, said, end) in _DIALOGUES.items():
        cell = talk(kernel, source, *typed)
        rest = cell.stream
        for words in said:
            assert words in rest, f"{name}: {words!r} is not in\n{rest}\nof\n{cell.stream}"
            rest = rest.partition(words)[2]
        came = cell.error or cell.value or cell.text
        assert end in came if end else not cell.error, f"{name} ended with {came}\n{cell.stream}"


def test_the_time_limit_and_hangs_count_only_while_nobody_thinks(kernel: NotebookSession) -> None:
    source = """
        def train(rank, size):
            if rank == 1:
                print("before")
                breakpoint()
                {then}
            dist.barrier()

        launch(train, 2, timeout_seconds=1);
    """
    well = talk(kernel, source.format(then="pass"), lambda: time.sleep(2.5), "c")  # the time itself is tested
    assert (well.error, well.text) == ("", "rank 1 | before")
    assert "WorkersStuck: hang" in talk(kernel, source.format(then="return 1"), "c").error
    assert "WorkersStuck: timeout" in talk(kernel, source.format(then="while True: pass"), "c").error


def test_where_nobody_can_answer_it_is_an_error_with_a_next_step(kernel: NotebookSession) -> None:
    def deaf(source: str) -> str:
        return kernel.finish(kernel.begin(source, allow_stdin=False)).error

    stopped = deaf("def stop(rank, size):\n    breakpoint()\n\nlaunch(stop, 2)")
    assert "both ranks raised RuntimeError: breakpoint() cannot open a prompt: this notebook runs without" in stopped
    assert "Next: remove breakpoint(), or run this where you can type an answer" in stopped
    assert "debug=True needs a prompt that you can answer, but this notebook" in deaf("launch(print, 2, debug=True)")


@nightly
def test_in_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "stop.py").write_text(
        "from ddp_lessons import launch\n\ndef stop(rank, size):\n    breakpoint()\n    return rank\n\n"
        "print('came back', list(launch(stop, 2)))\n",
        encoding="utf-8",
    )
    options = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor", f"--ipython-dir={tmp_path}"]
    terminal = pexpect.spawn(sys.executable, options, cwd=str(tmp_path), timeout=60, encoding="utf-8")
    for typed, shown in (
        *[("%run stop.py\n", "rank 0 of 2, stop.py line 5> "), ("rank 1\n", "rank 1 of 2, stop.py line 5> ")],
        *[("p rank + 41\n", "42"), ("c\n", "rank 0 of 2, stop.py line 5> "), ("c\n", r"came back \[0, 1\]")],
        *[("%run stop.py\n", "rank 0 of 2"), ("\x04", "KeyboardInterrupt: you quit the debugger")],
        *[("%run stop.py\n", "rank 0 of 2"), ("\x03", "KeyboardInterrupt: you stopped the ranks")],
    ):
        terminal.send(typed)
        terminal.expect(shown)
    terminal.close(force=True)


_LEAVE = """
    def stop(rank, size):
        with open(f"{folder}/{{rank}}", "w") as file:
            file.write(f"process {{os.getpid()}}")
        breakpoint()
        return rank

    list(launch(stop, 2))
"""
_WAYS: dict[str, tuple[Sequence[str], str]] = {
    "continue": (["c", "cont"], "[0, 1]"),
    "quit": (["rank 1", "exit"], "KeyboardInterrupt: you quit the debugger"),
    "os._exit": (["os._exit(3)", "c"], "WorkerFailed: rank 0 of 2 exited with code 3"),
}


def ranks_of(folder: Path) -> list[int]:
    """The processes of the ranks that wrote their number into this folder."""
    return processes_named_in("\n".join((folder / str(rank)).read_text() for rank in range(2)))


@pytest.mark.no_second_try
@pytest.mark.parametrize("way", by_day(_WAYS, 1))
def test_however_a_person_leaves_nothing_is_left(kernel: NotebookSession, tmp_path: Path, way: str) -> None:
    answers, end = _WAYS[way]
    cell = talk(kernel, _LEAVE.format(folder=tmp_path), *answers)
    assert cell.value == end or cell.error.startswith(end), (cell.stream, cell.value, cell.error)
    assert eventually(lambda: not alive(ranks_of(tmp_path)))


@nightly
@pytest.mark.no_second_try
def test_a_stop_or_a_death_at_the_prompt_leaves_nothing(tmp_path: Path) -> None:
    source = textwrap.dedent(_LEAVE.format(folder=tmp_path))
    with NotebookSession({"PYTHONPATH": os.fspath(PROJECT)}) as session:
        session.run(_FIRST_CELL)
        assert talk(session, source, session.interrupt).error.startswith("KeyboardInterrupt: you stopped the")
        killed = talk(session, source, lambda: os.kill(ranks_of(tmp_path)[0], signal.SIGKILL), "c", "c")
        assert killed.error.startswith("WorkerFailed: rank 0 of 2 was killed by SIGKILL")
        session.begin(source)
        session.wait_for_a_question()
        assert alive(ranks_of(tmp_path))
        session.kill()
        assert eventually(lambda: not alive(ranks_of(tmp_path)))
