"""When a rank raises, dies or never returns: who, where, what the others did, and then all is as before."""

from __future__ import annotations

import ctypes
import os
import pickle
import re
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from notebook_session import Cell, NotebookSession
from processes import alive, eventually, family, note_seconds, processes_named_in

from ddp_lessons import WorkerFailed, Workers, WorkersStuck, launch
from ddp_lessons.run.processes.process_sources import Spawns

Failure = TypeVar("Failure", WorkerFailed, WorkersStuck)


def failure(kind: type[Failure], function: Callable[..., object], world_size: int = 4, **options: Any) -> Failure:
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

    error = failure(WorkerFailed, run)
    assert str(error).splitlines() == [
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
            raise KeyError("weight")  # missing key
        while True:  # spins
            pass

    error = failure(WorkerFailed, run, 3)
    assert error.rank == 1
    assert error.traceback(1).endswith("KeyError: 'weight'\n")
    assert "has returned" in error.traceback(0)
    assert "in run\n" in error.traceback(2)
    assert error.results[0] == "done"
    assert [list(lines) for lines in error.results.lines] == [[f"rank {rank} is here"] for rank in range(3)]


@pytest.mark.parametrize(
    "keep_busy",
    by_day(
        [
            lambda: time.sleep(1000),
            lambda: [None for _ in iter(int, 1)],
            lambda: sum(range(10**12)),
            lambda: dist.all_reduce(torch.ones(1)),
            lambda: [sys.stdout.write("x" * 1000) for _ in iter(int, 1)],
            lambda: [print("x" * 1000) for _ in iter(int, 1)],
            lambda: os.kill(os.getpid(), signal.SIGSTOP),
        ],
        3,
    ),
    ids=["sleep", "python loop", "c code with the lock", "all_reduce", "one endless line", "flood", "stopped"],
)
def test_the_others_are_stopped(keep_busy: Callable[[], object]) -> None:
    def run(rank: int, world_size: int) -> None:
        print("process", os.getpid())
        dist.barrier()
        if rank:
            keep_busy()
        time.sleep(0.1)
        print("raised at", time.monotonic())
        raise ValueError("stop")

    def seconds() -> float:
        error = failure(WorkerFailed, run, 3)
        end = time.monotonic()
        assert error.rank == 0
        return end - float(error.results.lines[0][-1].split()[-1])

    note_seconds(seconds())


def test_of_several_that_raise_the_first_comes_first_and_the_others_follow() -> None:
    def run(rank: int, world_size: int) -> None:
        dist.barrier()
        time.sleep({3: 0, 1: 0.03}.get(rank, 1000))
        if rank == 3:
            raise ValueError("the cause")
        raise KeyError("what followed")

    error = failure(WorkerFailed, run)
    assert error.rank == 3
    assert str(error).startswith("rank 3 of 4 raised ValueError: the cause\n")
    assert "  Rank 1 raised KeyError: 'what followed'." in str(error)


def test_ranks_that_raise_alike_are_told_once() -> None:
    def run(rank: int, world_size: int) -> None:
        raise ValueError("all alike")

    assert str(failure(WorkerFailed, run)).startswith("all 4 ranks raised ValueError: all alike\n")


def test_ranks_that_differ_only_in_what_they_name_are_told_shortly() -> None:
    def run(rank: int, world_size: int) -> None:
        raise ValueError(f"rank {rank} has no data")

    error = failure(WorkerFailed, run, 16)
    assert len(str(error).splitlines()) < 10


def test_what_follows_from_a_death_is_not_told_as_its_cause() -> None:
    def run(rank: int, world_size: int) -> None:
        dist.barrier()
        if rank == 1:
            os._exit(3)
        dist.all_reduce(torch.ones(1))

    error = failure(WorkerFailed, run)
    assert error.rank == 1
    assert "rank 1 of 4 exited with code 3 before it returned" in str(error)


def test_a_gloo_error_caught_by_the_others_does_not_hide_the_rank_that_died() -> None:
    def run(rank: int, world_size: int) -> None:
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            raise ValueError("the sum is missing") from error

    error = failure(WorkerFailed, run)
    assert error.rank == 1
    assert "killed by SIGKILL" in str(error)


# --- exceptions that are hard to tell -------------------------------------------------------------------------------


def test_an_exception_whose_words_cannot_be_had_is_still_told() -> None:
    def run(rank: int, world_size: int) -> None:
        class Mute(Exception):
            def __str__(self) -> str:
                raise SystemExit("no words")

            __repr__ = __str__

        raise Mute

    error = failure(WorkerFailed, run, 2)
    assert "both ranks raised" in str(error)
    assert "Mute" in str(error)


@nightly
def test_a_message_of_a_megabyte_is_cut_in_the_middle_and_whole_in_the_traceback() -> None:
    def run(rank: int, world_size: int) -> None:
        raise ValueError("begin " + "x" * 1_000_000 + " end")

    error = failure(WorkerFailed, run, 2)
    assert len(str(error)) < 10_000
    assert re.search(r"ValueError: begin x+.* end\n", str(error))
    assert len(error.traceback(0)) > 1_000_000


def test_a_message_of_a_thousand_lines_is_cut_too() -> None:
    def run(rank: int, world_size: int) -> None:
        raise ValueError("\n".join(f"line {number}" for number in range(1000)))

    error = failure(WorkerFailed, run, 2)
    assert len(str(error).splitlines()) < 50
    assert "line 0\n" in str(error)
    assert "line 999" in str(error)


def test_a_recursion_without_end_names_its_line() -> None:
    def run(rank: int, world_size: int) -> None:
        def down(depth: int) -> None:
            up(depth + 1)  # goes down

        def up(depth: int) -> None:
            down(depth + 1)  # goes up

        down(0)

    error = failure(WorkerFailed, run, 2)
    assert "raised RecursionError: maximum recursion depth exceeded" in str(error)
    assert line_with("goes down") in str(error) or line_with("goes up") in str(error)
    assert len(str(error)) < 2000


def test_a_recursion_in_c_is_told_as_a_death_or_an_error() -> None:
    def run(rank: int, world_size: int) -> None:
        sys.setrecursionlimit(10**8)

        def down() -> object:
            return sorted([0], key=lambda _: down())  # type: ignore[arg-type,return-value]

        down()

    error = failure(WorkerFailed, run, 2)
    assert "SIGSEGV" in str(error) or "RecursionError" in str(error)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no exception groups")
def test_an_exception_group_names_its_parts() -> None:
    def run(rank: int, world_size: int) -> None:
        raise ExceptionGroup("two things", [ValueError("one"), KeyError("two")])  # noqa: F821  # group

    error = failure(WorkerFailed, run, 2)
    assert "both ranks raised ExceptionGroup: two things (2 sub-exceptions)" in str(error)
    assert line_with("group") in str(error)
    assert "ValueError: one" in error.traceback(1)
    assert "KeyError: 'two'" in error.traceback(1)


def test_of_a_chain_the_last_link_is_told_and_all_are_in_the_traceback() -> None:
    def run(rank: int, world_size: int) -> None:
        try:
            int("four")
        except ValueError as error:
            raise RuntimeError("no number of epochs") from error  # second link

    error = failure(WorkerFailed, run, 2)
    assert "both ranks raised RuntimeError: no number of epochs" in str(error)
    assert line_with("second link") in str(error)
    assert "invalid literal" in error.traceback(0)
    assert "ddp_lessons" not in error.traceback(0)


def test_exceptions_that_cause_each_other_are_told() -> None:
    def run(rank: int, world_size: int) -> None:
        one, other = ValueError("one"), ValueError("other")
        one.__cause__, other.__cause__ = other, one
        raise one

    assert "both ranks raised ValueError: one" in str(failure(WorkerFailed, run, 2))


def test_a_class_of_exceptions_of_its_own_is_told_by_its_name() -> None:
    def run(rank: int, world_size: int) -> None:
        class TooFewSamples(Exception):
            def __init__(self, count: int, needed: int) -> None:  # does not unpickle
                super().__init__(f"{count} of {needed}")

        raise TooFewSamples(3, needed=4)

    error = failure(WorkerFailed, run, 2)
    assert str(error).startswith("both ranks raised TooFewSamples: 3 of 4\n")


@pytest.mark.parametrize(
    ("error", "words"),
    by_day(
        [
            (KeyboardInterrupt(), "raised KeyboardInterrupt"),
            (GeneratorExit(), "raised GeneratorExit"),
            (StopIteration(5), "raised StopIteration: 5"),
            (MemoryError(), "raised MemoryError"),
            (ValueError(), "raised ValueError"),
            (ValueError(""), "raised ValueError"),
            (ValueError("two\nlines"), "raised ValueError: two\n"),
            (SyntaxError("no such word"), "raised SyntaxError: no such word"),
            (OSError(28, "No space left on device"), "raised OSError: [Errno 28] No space left on device"),
            (ValueError("half a letter \udcff"), "raised ValueError: half a letter"),
            (ValueError("a\0b"), "raised ValueError: a"),
            (ValueError("ü 漢 😀"), "raised ValueError: ü 漢 😀"),
            (BaseException("plain"), "raised BaseException: plain"),
        ],
        6,
    ),
    ids=repr,
)
def test_every_kind_of_exception_is_told(error: BaseException, words: str) -> None:
    def run(rank: int, world_size: int) -> None:
        raise error  # any kind

    told = failure(WorkerFailed, run, 2)
    assert f"both ranks {words}" in str(told)
    assert line_with("any kind") in str(told)


def test_memory_that_is_not_there_is_told_with_its_line() -> None:
    def run(rank: int, world_size: int) -> None:
        bytearray(2**60)  # too much

    error = failure(WorkerFailed, run, 2)
    assert "both ranks raised MemoryError" in str(error)
    assert line_with("too much") in str(error)


def test_a_note_on_an_exception_is_not_taken_for_its_message() -> None:
    def run(rank: int, world_size: int) -> None:
        error = ValueError()
        error.__notes__ = ["hint: look here"]  # type: ignore[attr-defined,unused-ignore]
        raise error

    assert "raised ValueError: look here" not in str(failure(WorkerFailed, run, 2))


def test_a_function_that_needs_a_module_which_only_the_notebook_has_says_so() -> None:
    here = types.ModuleType("only_here")
    exec("def help_me(): pass", vars(here))
    sys.modules["only_here"] = here
    help_me = here.help_me

    def run(rank: int, world_size: int) -> None:
        help_me()

    error = failure(WorkerFailed, run, 2)
    del sys.modules["only_here"]
    assert "both ranks could not load the function" in str(error)
    assert "only_here" in str(error)
    assert "fix that line" not in str(error)


def test_an_answer_that_the_notebook_cannot_read_is_the_rank_s_failure() -> None:
    def run(rank: int, world_size: int) -> object:
        class Trap:
            def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
                return int, ("not a number",)

        return Trap() if rank == 1 else rank

    error = failure(WorkerFailed, run, 2)
    assert error.rank == 1
    assert "rank 1 of 2 returned a Trap, which the notebook cannot load" in str(error)
    assert error.results[0] == 0


def test_a_failure_beside_a_flood_shows_the_failing_rank_s_own_words() -> None:
    def run(rank: int, world_size: int) -> None:
        dist.barrier()
        while rank != 1:
            print("noise " * 100)
        print("the loss is nan")
        raise ValueError("lost")

    error = failure(WorkerFailed, run)
    assert list(error.results.lines[1]) == ["the loss is nan"]
    assert "  Last output: the loss is nan\n" in str(error)
    assert len(str(error)) < 2000


@nightly
def test_a_failure_after_a_flood_of_its_own_keeps_the_last_words() -> None:
    def run(rank: int, world_size: int) -> None:
        for number in range(100_000):
            print("step", number)
        raise ValueError("lost")

    error = failure(WorkerFailed, run, 2)
    assert error.results.lines[error.rank][-1] == "step 99999"
    assert "Last output: step 99999\n" in str(error)


def test_a_last_word_without_end_is_cut() -> None:
    def run(rank: int, world_size: int) -> None:
        print("x" * 1_000_000)
        raise ValueError("lost")

    assert len(str(failure(WorkerFailed, run, 2))) < 10_000


# --- a rank dies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("die", "words"), by_day([
        (lambda: os._exit(3), "exited with code 3"),
        (lambda: os._exit(0), "exited with code 0"),
        (lambda: sys.exit(), "called sys.exit()"),
        (lambda: sys.exit(4), "called sys.exit(4)"),
        (lambda: sys.exit("no data"), "called sys.exit(no data)"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by SIGKILL"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "was killed by SIGTERM"),
        (lambda: os.kill(os.getpid(), 40), "was killed by signal 40"),
        (lambda: os.kill(os.getpid(), signal.SIGINT), "raised KeyboardInterrupt"),
        (lambda: ctypes.string_at(0), "was killed by SIGSEGV"),
        (lambda: os.abort(), "was killed by SIGABRT"),
        (lambda: os.execv("/bin/true", ["true"]), "exited with code"),
        (lambda: os.killpg(0, signal.SIGKILL), "was killed by SIGKILL"),
    ], 4),
    ids=[
        "_exit 3", "_exit 0", "exit", "exit 4", "exit words", "SIGKILL", "SIGTERM", "signal 40",
        "SIGINT", "SIGSEGV", "abort", "exec", "killpg",
    ],
)  # fmt: skip
def test_a_death_is_named(die: Callable[[], object], words: str) -> None:
    def run(rank: int, world_size: int) -> None:
        dist.barrier()
        print("process", os.getpid())
        if rank == 1:
            print("dies at", time.monotonic())
            die()
        dist.all_reduce(torch.ones(1))

    def seconds() -> float:
        error = failure(WorkerFailed, run, 3)
        end = time.monotonic()
        assert error.rank == 1
        assert str(error).startswith(f"rank 1 of 3 {words}")
        return end - float(error.results.lines[1][1].split()[-1])

    note_seconds(seconds())


def test_a_death_among_ranks_that_hold_the_lock_is_named() -> None:
    def run(rank: int, world_size: int) -> None:
        dist.barrier()
        if rank == 1:
            print("dies at", time.monotonic())
            os._exit(3)
        sum(range(10**12))

    def seconds() -> float:
        error = failure(WorkerFailed, run, 3)
        return time.monotonic() - float(error.results.lines[1][0].split()[-1])

    note_seconds(seconds())


@nightly
@pytest.mark.parametrize("die", [lambda: ctypes.string_at(0), lambda: os.abort()], ids=["SIGSEGV", "abort"])
def test_a_crash_in_compiled_code_shows_the_line_that_called_it(die: Callable[[], object]) -> None:
    def run(rank: int, world_size: int) -> None:
        if rank == 1:
            die()  # crashes

    error = failure(WorkerFailed, run, 2)
    assert "test_failures.py line" in str(error).splitlines()[1]
    assert line_with("crashes").split()[-1] in error.traceback(1)


def test_a_mismatch_of_shapes_that_aborts_a_rank_is_explained() -> None:
    def run(rank: int, world_size: int) -> None:
        dist.all_reduce(torch.ones(1000 if rank == 0 else 1))  # shapes

    error = failure(WorkerFailed, run, 2)
    assert "was killed by SIGABRT" in str(error) or "raised RuntimeError" in str(error)
    assert line_with("shapes") in str(error)
    assert "  Next: " in str(error)


def test_a_death_before_the_first_line_of_the_function_is_told() -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
            return os._exit, (7,)

    trap = Trap()

    def run(rank: int, world_size: int) -> object:
        return trap

    # without a group: a rank that is still joining when the other one dies would lose its connection
    error = failure(WorkerFailed, run, 2, join=False)
    assert "both ranks exited with code 7 before they returned" in str(error)


def test_a_rank_that_is_gone_after_it_returned_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_lessons.run.launcher.hang_watch.SECONDS_TO_LOOK_AT_A_RANK", 0.1)

    def run(rank: int, world_size: int) -> int:
        if rank == 0:
            threading.Timer(0.2, os._exit, [0]).start()
        else:
            time.sleep(1)
        return rank

    assert list(launch(run, 2, quiet=True)) == [0, 1]


def test_what_a_dead_rank_left_running_is_ended_too() -> None:
    def run(rank: int, world_size: int) -> None:
        import subprocess

        print("child", subprocess.Popen(["sleep", "1000"]).pid)
        dist.barrier()
        if rank == 1:
            os._exit(1)
        time.sleep(1000)

    error = failure(WorkerFailed, run, 2)
    children = [int(lines[0].split()[-1]) for lines in error.results.lines]
    assert eventually(lambda: not alive(children))


def test_a_daemon_that_a_rank_forked_is_ended_too() -> None:
    """It has left the rank's process group, and its environment is that of the process that forked the rank."""

    def run(rank: int, world_size: int) -> None:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                print("process", os.getpid())
                time.sleep(1000)
            os._exit(0)
        os.wait()
        dist.barrier()
        time.sleep(0.2)  # what the daemon prints is not ordered with what ranks do
        raise ValueError("with a daemon")

    error = failure(WorkerFailed, run, 2)
    assert len(processes_named_in("\n".join(line for lines in error.results.lines for line in lines))) == 2


@nightly
def test_a_child_that_a_rank_forked_may_fail_without_being_taken_for_the_rank() -> None:
    def run(rank: int, world_size: int) -> int:
        child = os.fork()
        if child == 0:
            raise ValueError("only the child")
        os.waitpid(child, 0)
        return rank

    assert list(launch(run, 2, quiet=True)) == [0, 1]


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

    error = failure(WorkersStuck, run, 6, timeout_seconds=1)
    message = str(error).splitlines()
    assert message[0] == "timeout, ranks 1 to 5 of 6 did not return within 1 second"
    assert message[1] == "    rank 0   has returned"
    assert line_with("sleeps") in message[2]
    assert f"{line_with('loops')[:-1]}" in message[3]
    assert line_with("holds the lock") in message[4]
    assert message[5].startswith(f"    rank 4   waits in recv from rank 1 ({line_with('receives')}")
    assert message[6].startswith(f"    rank 5   waits in barrier ({line_with('meets')}")
    assert "Rank 0 returned without calling it" in message[7]
    assert message[-2].startswith("  Next: ")
    assert message[-1].startswith('  torchrun would show: "Connection closed by peer"')


def test_the_time_is_kept() -> None:
    def run(rank: int, world_size: int) -> None:
        if rank == 1:
            sum(range(10**12))

    def seconds() -> float:
        begin = time.monotonic()
        failure(WorkersStuck, run, 2, timeout_seconds=0.5)
        return time.monotonic() - begin

    note_seconds(seconds())


@nightly
@pytest.mark.parametrize("seconds", by_day([0.2, 0.22, 0.24, 0.26, 0.28, 0.3], 3))
def test_ranks_that_return_while_the_time_runs_out_have_returned_or_not(seconds: float) -> None:
    def run(rank: int, world_size: int) -> str:
        time.sleep(seconds)
        return "done"

    try:
        ended = list(launch(run, 2, timeout_seconds=0.2))
    except WorkersStuck as stuck:
        ended = [str(stuck).partition("\n")[0]]
    assert ended == ["done"] * 2 or ended[0].endswith("did not return within 0.2 seconds")


@nightly
def test_a_rank_that_was_stopped_from_outside_is_not_called_unstarted() -> None:
    def run(rank: int, world_size: int) -> None:
        print("process", os.getpid())
        if rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)

    error = failure(WorkersStuck, run, 2, timeout_seconds=0.5)
    assert "rank 1 of 2 did not return" in str(error)
    assert "has not started" not in str(error)


def test_a_rank_that_waits_for_the_others_to_join_shows_its_line() -> None:
    def run(rank: int, world_size: int) -> None:
        if rank == 1:
            dist.init_process_group("gloo")  # joins alone
        if rank == 0:
            time.sleep(1000)

    error = failure(WorkersStuck, run, 2, timeout_seconds=1, join=False)
    assert line_with("joins alone") in str(error)


@nightly
def test_ranks_that_do_not_even_start_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the seconds that they had to start, and not those that the function may take."""
    monkeypatch.setattr("ddp_lessons.run.launcher.follow._SECONDS_TO_START", 0.01)
    error = failure(WorkersStuck, lambda rank, world_size: None, 2, timeout_seconds=3, start_method="spawn")
    assert str(error).splitlines() == [
        "timeout, both ranks did not start within 0.01 seconds",
        "    rank 0   is starting",
        "    rank 1   is starting",
        "  Next: launch again with fewer ranks, and look whether this machine is busy or out of memory (`top`).",
    ]


def test_asking_a_spawned_process_before_its_python_is_there_does_not_kill_it() -> None:
    nursery = Spawns()
    born = nursery.bear(3)
    for process in born:
        nursery.signal(process, signal.SIGUSR1)
    time.sleep(1)
    assert nursery.stop(born) == [-signal.SIGKILL] * 3  # by this stop


@nightly
def test_a_spawned_rank_blocks_no_signal() -> None:
    def blocked(rank: int, world_size: int) -> set[int | signal.Signals]:
        return signal.pthread_sigmask(signal.SIG_BLOCK, [])

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert launch(blocked, 1, quiet=True, start_method="spawn")[0] == set()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_a_rank_that_fails_while_time_runs_out_for_others_is_a_failure() -> None:
    def run(rank: int, world_size: int) -> None:
        if rank == 1:
            time.sleep(0.3)
            raise ValueError("in time")
        time.sleep(1000)

    assert failure(WorkerFailed, run, 2, timeout_seconds=0.9).rank == 1


@nightly
def test_a_farewell_that_never_ends_does_not_hold_the_answer_back() -> None:
    def run(rank: int, world_size: int) -> int:
        import atexit

        atexit.register(time.sleep, 1000)
        return rank

    assert list(launch(run, 2, quiet=True)) == [0, 1]


# --- the two exceptions ---------------------------------------------------------------------------------------------


def test_a_failure_survives_pickling() -> None:
    def run(rank: int, world_size: int) -> int:
        print("hello")
        if rank == 1:
            os.abort()
        return rank

    error = failure(WorkerFailed, run, 2)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.rank) == (WorkerFailed, str(error), 1)
    assert [copy.traceback(rank) for rank in range(2)] == [error.traceback(rank) for rank in range(2)]
    assert (list(copy.results), copy.results.lines) == (list(error.results), error.results.lines)


def test_being_stuck_survives_pickling() -> None:
    def run(rank: int, world_size: int) -> int:
        while rank == 1:
            pass
        return rank

    error = failure(WorkersStuck, run, 2, timeout_seconds=0.5)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.rank) == (WorkersStuck, str(error), 1)
    assert [copy.traceback(rank) for rank in range(2)] == [error.traceback(rank) for rank in range(2)]
    assert copy.results[0] == 0


def test_a_traceback_of_a_rank_that_never_was_is_refused() -> None:
    def run(rank: int, world_size: int) -> None:
        raise ValueError("lost")

    error = failure(WorkerFailed, run, 2)
    with pytest.raises((IndexError, ValueError)):
        error.traceback(7)


# --- where processes are not forked ---------------------------------------------------------------------------------


@pytest.fixture
def one_world_of_spawned_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No further processes ahead of need: here they would only slow the machine down."""
    from ddp_lessons.run.processes.process_pool import pool

    monkeypatch.setattr(pool, "prepare", lambda count, method: None)


@nightly
@pytest.mark.usefixtures("one_world_of_spawned_ranks")
def test_spawned_ranks_fail_as_forked_ones_do() -> None:
    def die(rank: int, world_size: int) -> None:
        print("process", os.getpid())
        dist.barrier()
        if rank == 1:
            ctypes.string_at(0)
        dist.all_reduce(torch.ones(1))

    error = failure(WorkerFailed, die, 2, start_method="spawn")
    assert str(error).startswith("rank 1 of 2 was killed by SIGSEGV\n    test_failures.py line")
    assert re.search("Rank 0 (was waiting in all_reduce|lost the connection to rank 1)", str(error))


@nightly
@pytest.mark.usefixtures("one_world_of_spawned_ranks")
def test_spawned_ranks_that_are_stuck_show_their_lines() -> None:
    def hang(rank: int, world_size: int) -> None:
        print("process", os.getpid())
        if rank == 1:
            sum(range(10**12))  # spawned holds the lock
        time.sleep(1000)  # spawned sleeps

    message = str(failure(WorkersStuck, hang, 2, timeout_seconds=0.5, start_method="spawn"))
    assert line_with("spawned sleeps") in message
    assert line_with("spawned holds the lock") in message


# --- in a notebook --------------------------------------------------------------------------------------------------

BEGIN = (
    "import os, sys, time, signal, ctypes, torch, torch.distributed as dist\nfrom ddp_lessons import launch, Workers"
)


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookSession]:
    with NotebookSession() as session:
        assert not session.run(BEGIN).error
        yield session


def fails_in(kernel: NotebookSession, *body: str, call: str = "launch(run, 3)") -> Cell:
    """Run a cell whose ranks execute these lines, the first of them on line 3. The kernel must be well afterwards."""
    lines = ["def run(rank, size):", "    print('process', os.getpid())", *(f"    {line}" for line in body)]
    cell = kernel.run("\n".join([*lines, call]))
    assert alive(processes_named_in(cell.text)) == []
    well = kernel.run("def well(rank, size):\n    return dist.get_world_size()\nlist(launch(well, 3))")
    assert well.value == "[3, 3, 3]", well.error
    return cell


@nightly
def test_in_a_notebook_the_whole_error_is_the_message(kernel: NotebookSession) -> None:
    cell = fails_in(kernel, "dist.barrier()", "if rank == 2:", "    raise ValueError('too many')", "dist.barrier()")
    assert cell.error_name == "WorkerFailed"
    last_words = cell.error.splitlines().pop(2)
    assert re.fullmatch(r"  Last output: process \d+", last_words)
    assert [line for line in cell.error.splitlines() if line != last_words] == [
        "WorkerFailed: rank 2 of 3 raised ValueError: too many",
        "    cell line 5:   raise ValueError('too many')",
        "  Ranks 0 and 1 were waiting in barrier (cell line 6) and have been stopped.",
        "  Next: fix that line; `import sys; sys.last_value.traceback(2)` shows the full stack.",
    ]
    stack = kernel.run("import sys; sys.last_value.traceback(2)").value
    assert "ValueError: too many" in stack


@pytest.mark.parametrize(
    ("body", "words"),
    by_day(
        [
            ("os._exit(3)", "exited with code 3"),
            ("sys.exit()", "called sys.exit()"),
            ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL"),
            ("ctypes.string_at(0)", "was killed by SIGSEGV"),
            ("os.abort()", "was killed by SIGABRT"),
            ("raise KeyboardInterrupt", "raised KeyboardInterrupt"),
            ("raise ValueError('half a letter \\udcff')", "raised ValueError: half a letter"),
            ("raise ValueError('\\x1b[31mred\\x07')", "raised ValueError: "),
            ("print('half a letter \\udcff'); raise ValueError('printed')", "raised ValueError: printed"),
            ("exec('raise ValueError(5)')", "raised ValueError: 5"),
            ("torch.ones(2) @ torch.ones(3)", "raised RuntimeError: "),
        ],
        3,
    ),
)
def test_in_a_notebook_a_failure_is_named_with_the_line_of_the_cell(
    kernel: NotebookSession, body: str, words: str
) -> None:
    cell = fails_in(kernel, "if rank == 1:", f"    {body}", "dist.barrier()")
    assert cell.error_name == "WorkerFailed"
    assert cell.error.startswith(f"WorkerFailed: rank 1 of 3 {words}")
    if "_exit" not in body and "SIGKILL" not in body:
        assert "cell line 4" in cell.error.splitlines()[1]
    assert not re.search("[\x00-\x09\x0b-\x1f]", cell.error.replace("\t", " "))


def run_as_a_front_end(kernel: NotebookSession, source: str, cell_id: str = "a1") -> Cell:
    """As JupyterLab does, which says which cell it is."""
    content = {"code": source, "silent": False, "store_history": True, "allow_stdin": False}
    message = kernel._client.session.msg("execute_request", content, metadata={"cellId": cell_id})
    kernel._client.shell_channel.send(message)
    return kernel.finish(message["header"]["msg_id"])


def test_a_front_end_that_names_its_cells_gets_a_card_and_one_line(kernel: NotebookSession) -> None:
    source = "def run(rank, size):\n    if rank: dist.barrier()\n    raise ValueError('<b> & more')\nlaunch(run, 3)"
    plain = kernel.run(source)
    cell = run_as_a_front_end(kernel, source)
    (card,) = (shown for shown in cell.displays if "ddp-message" in shown.get("text/html", ""))
    assert not any("ddp-message" in shown.get("text/html", "") for shown in plain.displays)
    assert cell.error == plain.error.splitlines()[0] == "WorkerFailed: rank 0 of 3 raised ValueError: <b> & more"
    assert re.sub(r"\bcell \[\d+\], line", "cell line", card["text/plain"]) == plain.error
    assert "raised ValueError: &lt;b&gt; &amp; more</strong>" in card["text/html"]
    assert "<code>raise ValueError(&#x27;&lt;b&gt; &amp; more&#x27;)</code>" in card["text/html"]


@nightly
def test_a_front_end_gets_the_numbers_beside_the_cells(kernel: NotebookSession) -> None:
    kernel.run("def inner():\n    1 / 0")
    inner = int(kernel.run("print(len(In) - 2)").stream)
    cell = run_as_a_front_end(kernel, "def run(rank, size):\n    dist.barrier() if rank else inner()\nlaunch(run, 3)")
    (card,) = (shown["text/plain"] for shown in cell.displays if "ddp-message" in shown.get("text/html", ""))
    assert f"\n    cell [{inner}], line 2:   1 / 0\n" in card
    assert f"(cell [{inner + 2}], line 2)" in card  # where the others wait
    traceback = "try:\n    launch(run, 3)\nexcept Exception as failure:\n    print(failure.traceback(0))"
    assert f"  cell [{inner}], line 2, in inner" in run_as_a_front_end(kernel, traceback).stream
    assert "  cell line 2, in inner" in kernel.run(traceback).stream  # for nbval each cell is the first


def test_a_card_links_to_the_cells_that_it_names(kernel: NotebookSession) -> None:
    inner = int(run_as_a_front_end(kernel, "def inner():\n    1 / 0\nprint(len(In) - 1)", "id of inner").stream)
    call = "def run(rank, size):\n    dist.barrier() if rank else inner()\nlaunch(run, 3)"
    cell = run_as_a_front_end(kernel, call, "b2")
    (card,) = (shown["text/html"] for shown in cell.displays if "ddp-message" in shown.get("text/html", ""))
    links = dict(re.findall(r'<a href="#cell-id=([^"]*)"[^>]*>cell \[(\d+)\]</a>, line 2', card))
    assert links == {"id of inner": str(inner), "b2": str(inner + 1)}


@nightly
def test_in_a_notebook_each_stuck_rank_shows_its_line(kernel: NotebookSession) -> None:
    cell = fails_in(
        kernel,
        "if rank == 0: time.sleep(1000)",
        "if rank == 1: sum(range(10**12))",
        "while True: pass",
        call="launch(run, 3, timeout_seconds=1)",
    )
    assert cell.error_name == "WorkersStuck"
    assert cell.error.splitlines()[1:4] == [
        "    rank 0   is at cell line 3:   if rank == 0: time.sleep(1000)   (the whole time)",
        "    rank 1   is at cell line 4:   if rank == 1: sum(range(10**12))   (the whole time)",
        "    rank 2   is at cell line 5:   while True: pass   (the whole time)",
    ]


def test_in_a_notebook_a_class_of_exceptions_from_an_earlier_cell_is_told(kernel: NotebookSession) -> None:
    kernel.run(
        "class TooFewSamples(Exception):\n    def __init__(self, count):\n        super().__init__(f'{count} left')"
    )
    cell = fails_in(kernel, "raise TooFewSamples(3)")
    assert cell.error.startswith("WorkerFailed: all 3 ranks raised TooFewSamples: 3 left")


def test_in_a_notebook_an_error_in_a_function_of_an_earlier_cell_shows_that_cell_s_line(
    kernel: NotebookSession,
) -> None:
    kernel.run("def inner():\n    '''as in a lesson'''\n    return 1 / 0")
    cell = fails_in(kernel, "inner()")
    assert "cell line 3:   return 1 / 0" in cell.error


def test_in_a_notebook_an_uncaught_failure_can_be_caught_and_looked_at(kernel: NotebookSession) -> None:
    cell = kernel.run(
        "def run(rank, size):\n    raise ValueError('lost')\n"
        "from ddp_lessons import WorkerFailed\n"
        "try:\n    launch(run, 2)\nexcept WorkerFailed as error:\n    kept = error\n"
        "kept.rank, kept.traceback(0).splitlines()[-1]"
    )
    assert cell.value == "(0, 'ValueError: lost')"


def test_after_a_failure_workers_say_why_they_are_closed() -> None:
    def run(rank: int, world_size: int) -> None:
        raise ValueError("lost")

    with Workers(2, quiet=True) as workers:
        with pytest.raises(WorkerFailed):
            workers.run(run)
        with pytest.raises(RuntimeError, match="closed: a rank raised or died"):
            workers.run(run)
