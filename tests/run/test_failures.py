"""When a rank raises, dies or never returns: who, where, what the others did, and then all is as before."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from notebook_session import Cell, NotebookSession
from processes import alive, eventually, family, processes_named_in

from ddp_lessons import WorkerFailed, WorkersStuck, launch
from ddp_lessons.run.processes.process_pool import pool

Failure = TypeVar("Failure", WorkerFailed, WorkersStuck)


def failure(kind: type[Failure], function: Callable[..., object], world_size: int = 2, **options: Any) -> Failure:
    """Launch what must fail, and return the exception; by then the ranks that said who they are must be gone."""
    with pytest.raises(kind) as caught:
        launch(function, world_size, quiet=True, **options)
    said = "\n".join(line for lines in caught.value.results.lines for line in lines)
    assert alive(processes_named_in(said)) == []
    return caught.value


@pytest.fixture(autouse=True)
def _the_next_launch_is_right(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "kernel" not in request.fixturenames:

        def add_up(rank: int, world_size: int) -> float:
            tensor = torch.ones(1) * rank
            dist.all_reduce(tensor)
            return tensor.item()

        assert list(launch(add_up, 3, quiet=True)) == [3.0, 3.0, 3.0]
        assert not [process for process in family(os.getpid()) if process.status() == "zombie"]


def line_with(words: str) -> str:
    """How a message names the line of this file that ends with the comment `# words`."""
    with open(__file__, encoding="utf-8") as file:
        (found,) = [n for n, line in enumerate(file, 1) if line.rstrip().endswith(f"# {words}")]
    return f"test_failures.py line {found}"


# --- a rank raises --------------------------------------------------------------------------------------------------


def test_the_message_names_the_rank_its_line_and_last_words_the_others_and_what_to_do() -> None:
    def run(rank: int, world_size: int) -> None:
        dist.barrier()
        if rank == 2:
            print("about to divide")
            raise ValueError("partition sizes add up to 1.2")  # raises
        dist.all_reduce(torch.ones(1))  # waits

    assert str(failure(WorkerFailed, run, 4)).splitlines() == [
        "rank 2 of 4 raised ValueError: partition sizes add up to 1.2",
        f'    {line_with("raises")}:   raise ValueError("partition sizes add up to 1.2")  # raises',
        "  Last output: about to divide",
        f"  Ranks 0, 1 and 3 were waiting in all_reduce ({line_with('waits')}) and have been stopped.",
        "  Next: fix that line; `error.traceback(2)` shows the full stack.",
    ]


def test_the_exception_says_the_rank_every_rank_s_path_and_what_came_before() -> None:
    def run(rank: int, world_size: int) -> str:
        print(f"rank {rank} is here")
        if rank == 0:
            return "done"
        dist.barrier(dist.new_group([1, 2]))  # type: ignore[arg-type]
        if rank == 1:
            raise KeyError("weight") from ValueError("invalid checkpoint")
        while True:
            pass

    error = failure(WorkerFailed, run, 3)
    assert error.rank == 1
    assert "ValueError: invalid checkpoint\n" in error.traceback(1)
    assert error.traceback(1).endswith("KeyError: 'weight'\n")
    assert "ddp_lessons" not in error.traceback(1)
    assert "has returned" in error.traceback(0)
    assert "in run\n" in error.traceback(2)
    assert error.results[0] == "done"
    assert [list(lines) for lines in error.results.lines] == [[f"rank {rank} is here"] for rank in range(3)]
    with pytest.raises((IndexError, ValueError)):
        error.traceback(7)


@pytest.mark.parametrize(
    "keep_busy",
    by_day([lambda: sum(range(10**12)), lambda: os.kill(os.getpid(), signal.SIGSTOP)], 1),
    ids=["c code with the lock", "stopped"],
)
def test_the_others_are_stopped(keep_busy: Callable[[], object]) -> None:
    def run(rank: int, world_size: int) -> None:
        print("process", os.getpid())
        dist.barrier()
        if rank:
            keep_busy()
        time.sleep(0.1)
        raise ValueError("stop")

    assert failure(WorkerFailed, run, 3).rank == 0


def test_of_several_that_raise_the_first_comes_first_and_the_others_follow() -> None:
    def run(rank: int, world_size: int) -> None:
        dist.barrier()
        time.sleep({3: 0, 1: 0.03}.get(rank, 1000))
        if rank == 3:
            raise ValueError("the cause")
        raise KeyError("what followed")

    error = failure(WorkerFailed, run, 4)
    assert error.rank == 3
    assert str(error).startswith("rank 3 of 4 raised ValueError: the cause\n")
    assert "  Rank 1 raised KeyError: 'what followed'." in str(error)


def test_a_gloo_error_caught_by_the_others_does_not_hide_the_rank_that_died() -> None:
    def run(rank: int, world_size: int) -> None:
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            raise ValueError("the sum is missing") from error

    error = failure(WorkerFailed, run, 4)
    assert error.rank == 1
    assert "killed by SIGKILL" in str(error)


# --- exceptions that are hard to tell -------------------------------------------------------------------------------


class TooFewSamples(Exception):
    def __init__(self, count: int, needed: int) -> None:  # does not unpickle
        super().__init__(f"{count} of {needed}")


HARD_TO_TELL: dict[str, tuple[Callable[[], BaseException], str]] = {
    "a stop button": (KeyboardInterrupt, "KeyboardInterrupt\n"),
    "a class of its own": (lambda: TooFewSamples(3, needed=4), "TooFewSamples: 3 of 4\n"),
    "a megabyte": (lambda: ValueError("x" * 1_000_000), "ValueError: xxx"),
    "half a letter": (lambda: ValueError("half a letter \udcff"), "ValueError: half a letter"),
}


@pytest.mark.parametrize(("make", "words"), HARD_TO_TELL.values(), ids=HARD_TO_TELL)
def test_every_kind_of_exception_is_told_shortly_and_whole_in_the_traceback(
    make: Callable[[], BaseException], words: str
) -> None:
    def run(rank: int, world_size: int) -> None:
        print("x" * 1_000_000)
        raise make()  # any kind

    error = failure(WorkerFailed, run)
    told = str(error)
    assert told.startswith(f"both ranks raised {words}")
    assert line_with("any kind") in told
    assert len(told.splitlines()) < 50
    assert len(told) < 10_000
    assert len(error.traceback(0)) > len(str(make()))


# --- a rank dies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("die", "words"),
    [(lambda: os._exit(3), "exited with code 3 before it returned"), (os.abort, "was killed by SIGABRT")],
)
@pytest.mark.parametrize("start_method", by_day(["fork", "spawn"], 1))
def test_a_death_is_named(start_method: Any, die: Callable[[], object], words: str) -> None:
    def run(rank: int, world_size: int) -> None:
        dist.barrier()
        print("process", os.getpid())
        if rank == 1:
            die()
        dist.all_reduce(torch.ones(1))

    error = failure(WorkerFailed, run, 3, start_method=start_method)
    assert error.rank == 1
    assert str(error).startswith(f"rank 1 of 3 {words}")


@pytest.mark.parametrize("start_method", by_day(["fork", "spawn"], 1))
def test_a_crash_in_compiled_code_shows_the_line_that_called_it(
    start_method: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(rank: int, world_size: int) -> None:
        print("process", os.getpid())
        dist.barrier()
        if rank == 1:
            ctypes.string_at(0)  # crashes
        dist.all_reduce(torch.ones(1))

    monkeypatch.setattr(pool, "prepare", lambda count, method: None)  # the last test here wants none that is ready
    error = failure(WorkerFailed, run, start_method=start_method)
    assert str(error).startswith("rank 1 of 2 was killed by SIGSEGV\n    test_failures.py line")
    assert re.search("Rank 0 (was waiting in all_reduce|lost the connection to rank 1)", str(error))
    assert line_with("crashes").split()[-1] in error.traceback(1)


def test_what_a_dead_rank_left_running_is_ended_too() -> None:
    """A child, and a daemon, which has left the rank's process group; its environment is the template's."""

    def run(rank: int, world_size: int) -> None:
        print("process", subprocess.Popen(["sleep", "1000"]).pid)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                print("process", os.getpid())
                time.sleep(1000)
            os._exit(0)
        os.wait()
        dist.barrier()
        time.sleep(0.2)  # what the daemon prints is not ordered with what ranks do
        if rank == 1:
            os._exit(1)
        time.sleep(1000)

    with pytest.raises(WorkerFailed) as caught:
        launch(run, 2, quiet=True)
    left = processes_named_in("\n".join(line for lines in caught.value.results.lines for line in lines))
    assert len(left) == 4
    assert eventually(lambda: not alive(left))


# --- a rank never returns -------------------------------------------------------------------------------------------


def test_at_the_end_of_its_time_each_rank_s_line_is_shown() -> None:
    def run(rank: int, world_size: int) -> None:
        print("process", os.getpid())
        if rank == 0:
            return
        if rank == 1:
            time.sleep(1000)  # sleeps
        while rank == 2:
            rank = rank + 0  # loops
        if rank == 3:
            sum(range(10**12))  # holds the lock
        if rank == 4:
            dist.recv(torch.ones(1), src=1)  # receives
        dist.barrier()  # meets

    message = str(failure(WorkersStuck, run, 6, timeout_seconds=1)).splitlines()
    assert message[0] == "timeout, ranks 1 to 5 of 6 did not return within 1 second"
    assert message[1] == "    rank 0   has returned"
    assert line_with("sleeps") in message[2]
    assert line_with("loops")[:-1] in message[3]
    assert line_with("holds the lock") in message[4]
    assert message[5].startswith(f"    rank 4   waits in recv from rank 1 ({line_with('receives')}")
    assert message[6].startswith(f"    rank 5   waits in barrier ({line_with('meets')}")
    assert "Rank 0 returned without calling it" in message[7]
    assert message[-2].startswith("  Next: ")
    assert message[-1].startswith('  torchrun would show: "Connection closed by peer"')


@nightly
def test_ranks_that_do_not_even_start_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the seconds that they had to start, and not those that the function may take."""
    monkeypatch.setattr("ddp_lessons.run.launcher.launched_call._SECONDS_TO_START", 0.01)
    error = failure(WorkersStuck, lambda rank, world_size: None, timeout_seconds=3, start_method="spawn")
    assert str(error).splitlines() == [
        "timeout, both ranks did not start within 0.01 seconds",
        "    rank 0   is starting",
        "    rank 1   is starting",
        "  Next: launch again with fewer ranks, and check with `top` whether this machine is busy or out of memory.",
    ]


# --- in a notebook --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookSession]:
    begin = "import os, sys, time, ctypes, torch, torch.distributed as dist\nfrom ddp_lessons import launch"
    with NotebookSession() as session:
        assert not session.run(begin).error
        yield session


def fails_in(kernel: NotebookSession, *body: str, call: str = "launch(run, 3)") -> Cell:
    """Run a cell whose ranks execute these lines, the first of them on line 3. The kernel must be well afterwards."""
    lines = ["def run(rank, size):", "    print('process', os.getpid())", *(f"    {line}" for line in body)]
    cell = kernel.run("\n".join([*lines, call]))
    assert alive(processes_named_in(cell.text)) == []
    well = kernel.run("def well(rank, size):\n    return dist.get_world_size()\nlist(launch(well, 3))")
    assert well.value == "[3, 3, 3]", well.error
    return cell


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("ctypes.string_at(0)", "was killed by SIGSEGV"),
        ("raise ValueError('\\x1b[31mred\\x07')", "raised ValueError: "),
    ],
)
def test_in_a_notebook_a_failure_is_named_with_the_line_of_the_cell(
    kernel: NotebookSession, body: str, words: str
) -> None:
    cell = fails_in(kernel, "if rank == 1:", f"    {body}", "dist.barrier()")
    assert cell.error.startswith(f"WorkerFailed: rank 1 of 3 {words}")
    assert "cell line 4" in cell.error.splitlines()[1]
    assert not re.search("[\x00-\x09\x0b-\x1f]", cell.error.replace("\t", " "))


def run_as_a_front_end(kernel: NotebookSession, source: str, cell_id: str = "a1") -> Cell:
    """As JupyterLab does, which says which cell it is."""
    content = {"code": source, "silent": False, "store_history": True, "allow_stdin": False}
    message = kernel._client.session.msg("execute_request", content, metadata={"cellId": cell_id})
    kernel._client.shell_channel.send(message)
    return kernel.finish(message["header"]["msg_id"])


def cards_in(cell: Cell) -> list[dict[str, Any]]:
    return [shown for shown in cell.displays if "ddp-message" in shown.get("text/html", "")]


def test_a_front_end_that_names_its_cells_gets_a_card_and_one_line(kernel: NotebookSession) -> None:
    source = "def run(rank, size):\n    if rank: dist.barrier()\n    raise ValueError('<b> & more')\nlaunch(run, 3)"
    plain = kernel.run(source)
    cell = run_as_a_front_end(kernel, source)
    (card,) = cards_in(cell)
    assert cards_in(plain) == []
    assert cell.error == plain.error.splitlines()[0] == "WorkerFailed: rank 0 of 3 raised ValueError: <b> & more"
    assert plain.error.splitlines()[1:] == [
        "    cell line 3:   raise ValueError('<b> & more')",
        "  Ranks 1 and 2 were waiting in barrier (cell line 2) and have been stopped.",
        "  Next: fix that line; `import sys; sys.last_value.traceback(0)` shows the full stack.",
    ]
    assert re.sub(r"\bcell \[\d+\], line", "cell line", card["text/plain"]) == plain.error
    assert "ValueError: <b> & more" in kernel.run("import sys; sys.last_value.traceback(0)").value
    assert "raised ValueError: &lt;b&gt; &amp; more</strong>" in card["text/html"]
    assert "<code>raise ValueError(&#x27;&lt;b&gt; &amp; more&#x27;)</code>" in card["text/html"]


def test_a_card_has_the_numbers_beside_the_cells_and_links_to_them(kernel: NotebookSession) -> None:
    inner = int(run_as_a_front_end(kernel, "def inner():\n    1 / 0\nprint(len(In) - 1)", "id of inner").stream)
    call = "def run(rank, size):\n    dist.barrier() if rank else inner()\nlaunch(run, 3)"
    (card,) = cards_in(run_as_a_front_end(kernel, call, "b2"))
    assert f"\n    cell [{inner}], line 2:   1 / 0\n" in card["text/plain"]
    assert f"(cell [{inner + 1}], line 2)" in card["text/plain"]  # where the others wait
    links = dict(re.findall(r'<a href="#cell-id=([^"]*)"[^>]*>cell \[(\d+)\]</a>, line 2', card["text/html"]))
    assert links == {"id of inner": str(inner), "b2": str(inner + 1)}
    traceback = "try:\n    launch(run, 3)\nexcept Exception as failure:\n    print(failure.traceback(0))"
    assert f"  cell [{inner}], line 2, in inner" in run_as_a_front_end(kernel, traceback).stream
    assert "  cell line 2, in inner" in kernel.run(traceback).stream  # for nbval each cell is the first
