"""`breakpoint()` in a rank: the dialogue goes through a real kernel's stdin, or a terminal's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pexpect
import pytest
from nights import by_day, nightly
from notebook_session import Cell, NotebookSession
from processes import PROJECT, alive, eventually, processes_named_in

_FIRST_CELL = """
import os, sys, time
import torch, torch.distributed as dist
from ddp_lessons import launch
%load_ext ddp_lessons
"""
_TRAIN = """
    def train(rank, size):
        x = torch.ones(2) * rank
        if rank in (1, 2):
            breakpoint()
        y = x + 1
        dist.all_reduce(x)
        z = x * 2
        return z.tolist()

    list(launch(train, 4, timeout_seconds=20))
"""


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


def ranks_of(folder: Path) -> list[int]:
    """The processes of the ranks that wrote their number into this folder."""
    return processes_named_in("\n".join((folder / str(rank)).read_text() for rank in range(2)))


def answer_to(command: str, dialogue: str) -> str:
    """What was said after this command, until the next prompt, whose beginning is left out."""
    after = dialogue.partition(f"> {command}\n")[2]
    return "\n".join(line for line in after.splitlines()).partition("\nrank ")[0]


def test_a_rank_stops_at_its_breakpoint_with_its_variables(kernel: NotebookSession) -> None:
    cell = talk(
        kernel,
        """
        def train(rank, size):
            x = torch.ones(2) * rank
            if rank == 2:
                breakpoint()
            y = x + 1
            dist.all_reduce(y)
            return y.tolist()

        list(launch(train, 4))
        """,
        *("p x", "x += 10", "n", "p y", "c"),
    )
    assert cell.stream.startswith("rank 2:\n> cell line 5, in train()\n-> y = x + 1\nrank 2 of 4, cell line 5> p x\n")
    assert answer_to("p x", cell.stream) == "tensor([2., 2.])"
    assert "rank 2 of 4, cell line 6> p y" in cell.stream
    assert answer_to("p y", cell.stream) == "tensor([13., 13.])"
    assert cell.value == str([[20.0, 20.0]] * 4)  # 1 + 2 + 13 + 4


@nightly
def test_commands_about_all_ranks(kernel: NotebookSession) -> None:
    commands = ("next", "where all", "print all x", "rank 2", "next", "next all", "print all x", "rank 7", "go")
    cell = talk(kernel, _TRAIN, *commands)
    said = cell.stream
    assert said.startswith("ranks 1 and 2:\n> cell line 5, in train()\n-> y = x + 1\nrank 1 of 4, cell line 5> next\n")
    where = said.partition("> where all\n")[2]
    assert where.startswith(
        "rank 0   waits in all_reduce (cell line 6:   dist.all_reduce(x))\n"
        "rank 1   stopped at cell line 6:   dist.all_reduce(x)\n"
        "rank 2   stopped at cell line 5:   y = x + 1\n"
        "rank 3   waits in all_reduce (cell line 6:   dist.all_reduce(x))\n"
        "rank 1 of 4, cell line 6> print all x\n"
        "rank 0 | tensor([0., 0.])\nrank 1 | tensor([1., 1.])\nrank 2 | tensor([2., 2.])\nrank 3 | tensor([3., 3.])\n"
        "rank 1 of 4, cell line 6> rank 2\n"
        "rank 2 of 4, cell line 5> next\n"
    )
    assert "> next all\nranks 1 and 2:\n> cell line 7, in train()\n-> z = x * 2\nrank 2 of 4, cell line 7>" in said
    assert said.count("rank 1 | tensor([6., 6.])") == 1
    assert "there is no rank 7 in a world of 4" in said
    assert cell.value == str([[12.0, 12.0]] * 4)


def test_a_rank_that_runs_can_be_stopped_at_its_line(kernel: NotebookSession) -> None:
    cell = talk(
        kernel,
        """
        def count(rank, size):
            number, is_over = 0, False
            if rank == 0:
                breakpoint()
            while rank == 1 and not is_over:
                number += 1
            return number >= 0

        list(launch(count, 2))
        """,
        *("rank 1", "p number > 0", "is_over = True", "go"),
    )
    assert "-> while rank == 1" in cell.stream or "-> number += 1" in cell.stream
    assert answer_to("p number > 0", cell.stream) == "True"
    assert cell.value == "[True, True]"


@nightly
def test_a_rank_that_waits_stops_after_its_call(kernel: NotebookSession) -> None:
    cell = talk(kernel, _TRAIN, "rank 0", "next all", "next all", "rank 0", "p x", "go")
    waits = (
        "rank 0   waits in all_reduce (cell line 6:   dist.all_reduce(x))\nIt stops as soon as it gets to another line"
    )
    assert f"rank 1 of 4, cell line 5> rank 0\n{waits}" in cell.stream
    assert "ranks 0, 1 and 2:\n> cell line 7, in train()" in cell.stream
    assert answer_to("p x", cell.stream) == "tensor([6., 6.])"


@nightly
def test_no_hang_and_no_timeout_while_a_person_thinks(kernel: NotebookSession) -> None:
    thinking = """
        def train(rank, size):
            if rank == 1:
                breakpoint()
            dist.barrier()
            return rank

        list(launch(train, 2, timeout_seconds=1))
    """
    cell = talk(kernel, thinking, lambda: time.sleep(2.5), "c")  # the time itself is what is tested
    assert cell.value == "[0, 1]"


@nightly
def test_hangs_and_the_time_limit_are_noticed_afterwards(kernel: NotebookSession) -> None:
    source = """
        def train(rank, size):
            if rank == 1:
                breakpoint()
                {then}
            dist.barrier()

        launch(train, 2, timeout_seconds=1)
    """
    hang = talk(kernel, source.format(then="return 1"), "c")
    assert "WorkersStuck: hang" in hang.error
    late = talk(kernel, source.format(then="while True: pass"), "c")
    assert "WorkersStuck: timeout" in late.error


def test_what_a_rank_printed_is_shown_before_the_prompt(kernel: NotebookSession) -> None:
    source = """
        def say(rank, size):
            print("before", rank)
            breakpoint()
            print("after", rank)

        launch(say, 2);
    """
    cell = talk(kernel, source, "c all")
    shown = [data["text/plain"] for _, data in cell.updates if data]
    assert "rank 0 | before 0\nrank 1 | before 1" in shown
    assert shown[-1] == "rank 0 | before 0\nrank 0 | after 0\nrank 1 | before 1\nrank 1 | after 1"


def test_without_input_it_is_an_error_with_a_sentence(kernel: NotebookSession) -> None:
    source = "def stop(rank, size):\n    breakpoint()\n\nlaunch(stop, 2)"
    cell = kernel.finish(kernel.begin(source, allow_stdin=False))
    assert cell.error == (
        "WorkerFailed: both ranks raised RuntimeError: breakpoint() cannot ask what to do: this notebook runs without "
        "input, as under papermill or nbconvert\n"
        "    cell line 2:   breakpoint()\n"
        "  Next: remove breakpoint(), or run this where a person can answer: in JupyterLab, IPython or a terminal."
    )


@nightly
def test_in_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "stop.py").write_text(
        "import os\nfrom ddp_lessons import launch\n\n\n"
        "def stop(rank, size):\n    open(str(rank), 'w').write(f'process {os.getpid()}')\n"
        "    breakpoint()\n    return rank\n\n\n"
        "print('came back', list(launch(stop, 3)))\n",
        encoding="utf-8",
    )
    options = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor", f"--ipython-dir={tmp_path}"]
    terminal = pexpect.spawn(sys.executable, options, cwd=str(tmp_path), timeout=60, encoding="utf-8")
    run, prompt = "%run stop.py\n", "rank 0 of 3, stop.py line 8> "
    try:
        for typed, shown in (
            (run, prompt),
            ("rank 2\n", "rank 2 of 3, stop.py line 8> "),
            ("p rank + 40\n", "42"),
            ("c all\n", r"came back \[0, 1, 2\]"),
            (run, prompt),
            ("\x04", "KeyboardInterrupt: you quit the debugger"),
            (run, prompt),
            ("\x03", "KeyboardInterrupt: you stopped the ranks"),
            (run, prompt),
        ):
            terminal.send(typed)
            terminal.expect(shown)
    finally:
        terminal.close(force=True)
    assert eventually(lambda: not alive(ranks_of(tmp_path)))


@nightly
def test_a_collective_can_be_called_at_the_prompts(kernel: NotebookSession) -> None:
    cell = talk(kernel, _TRAIN, "dist.barrier()", "where all", "go")
    assert "rank 1   waits in barrier" in cell.stream.partition("where all")[0]
    assert "rank 2 of 4, cell line 5> where all\nrank 0   waits in all_reduce" in cell.stream
    assert "WorkerFailed: mismatched collectives" in cell.error or "WorkersStuck" in cell.error


_CELL = """
    %%ranks 3
    x = torch.ones(2) * rank
    if rank > 0:
        breakpoint()
    y = x + 1
    dist.all_reduce(x)
    x
"""


@nightly
def test_a_cell_of_ranks_that_stay(kernel: NotebookSession) -> None:
    cell = talk(kernel, _CELL, "next all", "next all", "print all x", "c all")
    assert cell.stream.startswith(
        "ranks 1 and 2:\n> cell line 5, in <module>()\n-> y = x + 1\nrank 1 of 3, cell line 5>"
    )
    assert "rank 1 | tensor([3., 3.])\nrank 2 | tensor([3., 3.])\n" in cell.stream
    assert cell.text == "\n".join(f"rank {rank} | tensor([3., 3.])" for rank in range(3))

    stepped_out = talk(kernel, "%%ranks 1,\nbreakpoint()\nx = 5", "n", "n")
    assert "--Return--\n> cell line 3, in <module>()->None\n-> x = 5\nrank 1 of 3" in stepped_out.stream
    assert kernel.run("%%ranks\ny").text.startswith("rank 0 | tensor([1., 1.])\nrank 1 | tensor([2., 2.])")

    quit_it = talk(kernel, "%%ranks\ny += 1\nbreakpoint()\ny", "rank 2", "q")
    assert quit_it.error.startswith("KeyboardInterrupt: you quit the debugger\n    rank 0   is at cell line 3")
    assert kernel.run("%%ranks\ny").text.startswith("rank 0 | tensor([2., 2.])\nrank 1 | tensor([3., 3.])")

    stopped = talk(kernel, "%%ranks\ny += 1\nbreakpoint()\ny", kernel.interrupt)
    assert stopped.error.startswith("KeyboardInterrupt: you stopped the ranks")
    assert kernel.run("%%ranks\ndist.all_reduce(y)\ny").text.startswith("rank 0 | tensor([12., 12.])")


_HALF = """
    def half(number):
        share = number // 2
        if share == 1:
            raise ValueError("too small")
        return share
"""


@nightly
def test_a_rank_that_raises_opens_the_debugger(kernel: NotebookSession) -> None:
    source = f"""
    {_HALF}
    def train(rank, size):
        x = rank + 1
        half(x)
        dist.barrier()

    launch(train, 4, debug=True)
    """
    cell = talk(kernel, source, "p share", "where all", "up", "p x", "rank 2", "p number", "go")
    assert "ranks 1 and 2:\nValueError: too small\n> cell line 4, in half()\n-> raise ValueError" in cell.stream
    assert answer_to("p share", cell.stream) == "1"
    assert "rank 0   waits in barrier (cell line 10:   dist.barrier())\nrank 1   stopped at cell line 4" in cell.stream
    assert answer_to("p x", cell.stream) == "2"
    assert answer_to("p number", cell.stream) == "3"
    assert cell.error.startswith("WorkerFailed: ranks 1 and 2 of 4 raised ValueError: too small\n    cell line 4")
    assert "launch(..., debug=True) opens the debugger" in kernel.run("%debug").stream
    deaf = kernel.finish(kernel.begin("launch(train, 4, debug=True)", allow_stdin=False))
    assert "ValueError: debug=True needs a person who answers, but this notebook runs without input" in deaf.error


@nightly
def test_post_mortem_on_ranks_that_stay(kernel: NotebookSession) -> None:
    failed = kernel.run(f"%%ranks 3\n{textwrap.dedent(_HALF)}\nx = rank + 1\ny = half(x)")
    assert failed.error.startswith("WorkerFailed: ranks 1 and 2 of 3 raised ValueError: too small")
    first = talk(kernel, "%debug", "p share", "up", "p x", "q")
    assert first.stream.startswith("rank 1:\nValueError: too small\n> cell line 6, in half()\n-> raise ValueError")
    assert answer_to("p x", first.stream) == "2"
    assert not first.error
    other = talk(kernel, "%ranks debug 2", "p number", "c")
    assert answer_to("p number", other.stream) == "3"
    assert talk(kernel, "%ranks debug 0").stream == "rank 0 has raised no exception\n"
    assert "must select from the ranks 0 to 2" in talk(kernel, "%ranks debug 7").stream
    assert not kernel.run("%%ranks\ndist.barrier()").error


def test_other_failures_are_left_to_pythons_own_debugger(kernel: NotebookSession) -> None:
    kernel.run("1 / 0")
    assert "ipdb> q" in talk(kernel, "%debug", "q").stream


_LEAVE = """
    def stop(rank, size):
        with open(f"{folder}/{{rank}}", "w") as file:
            file.write(f"process {{os.getpid()}}")
        fails = waits = False
        breakpoint()
        x = rank
        if fails:
            raise ValueError("as asked for")
        if waits:
            dist.barrier()
        return x

    list(launch(stop, 2, timeout_seconds=2))
"""
_RETURNED, _QUIT, _STOPPED = "[0, 1]", "KeyboardInterrupt: you quit the debugger", "KeyboardInterrupt: you stopped the"
_WAYS: dict[str, tuple[Sequence[str], str]] = {
    "continue": (["c", "cont"], _RETURNED),
    "continue all": (["continue all"], _RETURNED),
    "go": (["go"], _RETURNED),
    "next to the end": (["n all"] * 5, _RETURNED),
    "step to the end": (["s all"] * 5, _RETURNED),
    "return": (["r all", "n all"], _RETURNED),
    "until": (["unt 99", "c", "c"], _RETURNED),
    "jump": (["rank 1", "j 4", "n", "go"], _RETURNED),
    "breakpoint of pdb": (["b 11", "c", "c", "c"], _RETURNED),
    "repeat with an empty line": (["rank 1", "c", "n", "", "", "", ""], _RETURNED),
    "quit": (["q"], _QUIT),
    "exit": (["rank 1", "exit"], _QUIT),
    "quit after another command": (["p x ;; quit"], _QUIT),
    "end of input": (["\x04"], _QUIT),
    "exception at the prompt": (["1 / 0", "raise KeyboardInterrupt", "q"], _QUIT),
    "sys.exit at the prompt": (["sys.exit(3)", "go"], _RETURNED),
    "os._exit at the prompt": (["os._exit(3)", "go"], "WorkerFailed: rank 0 of 2 exited with code 3"),
    "killed at the prompt": (["os.kill(os.getpid(), 9)", "go"], "WorkerFailed: rank 0 of 2 was killed by SIGKILL"),
    "exception afterwards": (["fails = True", "c", "go"], "WorkerFailed: rank 0 of 2 raised ValueError: as asked for"),
    "hang afterwards": (["waits = True", "c all"], "WorkersStuck: hang, no rank can make progress"),
    "not in a rank": (["restart", "run", "debug 1", "interact", "go"], _RETURNED),
}


@pytest.mark.no_second_try
@pytest.mark.parametrize("way", by_day(_WAYS, 1))
def test_however_a_person_leaves_nothing_is_left(kernel: NotebookSession, tmp_path: Path, way: str) -> None:
    answers, end = _WAYS[way]
    cell = talk(kernel, _LEAVE.format(folder=tmp_path), *answers)
    assert cell.value == end or cell.error.startswith(end), (cell.stream, cell.value, cell.error)
    assert eventually(lambda: not alive(ranks_of(tmp_path)))


@nightly
def test_interrupts_and_deaths_at_the_prompt_leave_nothing(kernel: NotebookSession, tmp_path: Path) -> None:
    source = _LEAVE.format(folder=tmp_path)
    assert talk(kernel, source, kernel.interrupt).error.startswith(_STOPPED)
    in_a_second = threading.Timer(1, kernel.interrupt)
    assert talk(kernel, source, in_a_second.start, "os.read(os.pipe()[0], 1)").error.startswith(_STOPPED)

    def kill() -> bool:
        os.kill(ranks_of(tmp_path)[0], signal.SIGKILL)
        return True

    killed = talk(kernel, source, kill, "go")
    assert killed.error.startswith("WorkerFailed: rank 0 of 2 was killed by SIGKILL")
    assert killed.stream.endswith("rank 0 of 2, cell line 6> \nrank 0 died\nrank 1 of 2, cell line 6> go\n")
    assert not alive(ranks_of(tmp_path))


@nightly
@pytest.mark.no_second_try
def test_a_kernel_that_ends_at_the_prompt_leaves_nothing(tmp_path: Path) -> None:
    with NotebookSession({"PYTHONPATH": os.fspath(PROJECT)}) as session:
        for end in (session.restart, session.kill):
            session.run(_FIRST_CELL)
            session.begin(textwrap.dedent(_LEAVE.format(folder=tmp_path)))
            session.wait_for_a_question()
            assert alive(ranks_of(tmp_path))
            end()
            assert eventually(lambda: not alive(ranks_of(tmp_path)))


def test_a_launch_without_breakpoints_loads_no_debugger() -> None:
    loaded = "[n for n in ('pdb', 'bdb', 'ddp_lessons.run.debugging.rank_pdb') if n in sys.modules]"
    code = f"import sys; from ddp_lessons import launch; print({loaded})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
