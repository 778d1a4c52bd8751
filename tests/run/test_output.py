"""What ranks print is shown line by line under its rank: all of it, nothing else, and never too much."""

from __future__ import annotations

import contextlib
import ctypes
import html.parser
import io
import json
import logging
import os
import random
import re
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from nights import nightly
from notebook_session import Cell, NotebookSession
from processes import PROJECT, run_on_a_terminal

from ddp_lessons import WorkerFailed, launch
from ddp_lessons.run.output.transcript import Transcript

# as functions of a cell do, so that ranks need not import this module, and all that it imports
cloudpickle.register_pickle_by_value(sys.modules[__name__])

_ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([os.fspath(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])}
_LEFT_OUT = re.compile(r"^\[\.\.\. ([\d,]+) lines left out(.*)\]$")


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookSession]:
    with NotebookSession(_ENVIRONMENT) as session:
        cell(session, "import os, sys, time, torch, torch.distributed as dist\nfrom ddp_lessons import launch")
        yield session


def lines_of(say: Callable[[], object]) -> list[str]:
    """What one rank is found to have said."""
    return list(launch(lambda rank, world_size: say() and None, 1, quiet=True).lines[0])


def cell(kernel: NotebookSession, source: str) -> Cell:
    done = kernel.run(textwrap.dedent(source).strip())
    assert not done.error, done.error
    return done


# --- all that is printed, whoever prints it -------------------------------------------------------------------------


def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _print_all_ways() -> None:
    print("print")
    sys.stderr.write("stderr\n")
    _c_library().printf(b"printf %d\n", 1)
    os.write(1, b"fd 1\n")
    os.write(2, b"fd 2\n")
    os.system("echo shell; echo shell stderr >&2")
    subprocess.run(["echo", "subprocess"], check=True)
    _c_library().puts(b"puts")
    print("again", file=sys.stderr)


def _print_from_a_fork() -> None:
    if os.fork() == 0:
        print("child")
        os._exit(0)
    os.wait()


def _replace_stdout() -> None:
    print("before", end="")
    sys.stdout = io.StringIO()
    print("into the void")


def _buffer_like_cpp() -> None:
    libc = _c_library()
    fully = 0  # stdio's _IOFBF
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, fully, ctypes.c_size_t(1 << 16))
    libc.printf(b"buffered line\n")
    libc.printf(b"buffered rest")


def _log() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    logging.info("logged")
    warnings.warn_explicit("mind the gap", UserWarning, "cell.py", 3)


def _print_from_threads() -> None:
    threads = [threading.Thread(target=lambda: [sys.stdout.write("a" * 50 + "\n") for _ in range(100)]) for _ in "1234"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _ask() -> None:
    with contextlib.suppress(EOFError):
        input("name? ")


def _draw_progress_bars() -> None:
    for done in range(101):
        print(f"\r{done:3}%|{'█' * (done // 10):10}| {done}/100", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for done in range(100):
        print(f"step {done}", end="\r")
    print("done    ")


_WAYS: dict[str, tuple[Callable[[], object], list[str]]] = {
    "in order": (
        _print_all_ways,
        "print/stderr/printf 1/fd 1/fd 2/shell/shell stderr/subprocess/puts/again".split("/"),
    ),
    "unfinished on both": (lambda: (sys.stderr.write("err "), sys.stderr.flush(), print("out", end="")), ["err out"]),
    "empty lines": (lambda: print("\n\na\n"), ["", "", "a", ""]),
    "buffered as C++ does": (_buffer_like_cpp, ["buffered line", "buffered rest"]),
    "fork": (_print_from_a_fork, ["child"]),
    "replaced": (_replace_stdout, ["before"]),
    "logs and warnings": (_log, ["INFO logged", "cell.py:3: UserWarning: mind the gap"]),
    "threads": (_print_from_threads, ["a" * 50] * 400),
    "a prompt": (_ask, ["name? "]),
    "progress bars": (_draw_progress_bars, ["100%|██████████| 100/100", "done    "]),
    "a long list": (lambda: print(list(range(10_000))), [str(list(range(10_000)))]),
    "not UTF-8": (lambda: os.write(1, b"\xff\xfe caf\xe9\n\xf0\x9f"), ["\ufffd\ufffd caf\ufffd", "\ufffd"]),
    "lone surrogate": (lambda: print("a\ud800b"), ["a\\ud800b"]),
    "other ends of lines": (lambda: print("a\u2028b\x0bc\x0cd\x85e\x1cf\r"), ["a\u2028b\x0bc\x0cd\x85e\x1cf"]),
}


@pytest.mark.parametrize(("say", "lines"), _WAYS.values(), ids=_WAYS)
def test_whatever_a_rank_prints_is_found_in_its_lines(say: Callable[[], object], lines: list[str]) -> None:
    assert lines_of(say) == lines


@pytest.mark.parametrize("end", [lambda: os.kill(os.getpid(), 9), lambda: 1 / 0], ids=["kill", "exception"])
def test_what_was_printed_before_a_rank_ended_is_kept(end: Callable[[], object]) -> None:
    def speak_and_end(rank: int, world_size: int) -> None:
        print("by Python")
        _c_library().printf(b"by C\n")
        os.write(1, b"unfinished")
        end()

    with pytest.raises(WorkerFailed) as caught:
        launch(speak_and_end, 1, quiet=True)
    assert list(caught.value.results.lines[0]) == ["by Python", "by C", "unfinished"]


def test_lines_are_the_same_however_the_bytes_arrive() -> None:
    data = "a\r\nlong\rab\n\n漢字🙂\r\r\n50%\r51%\r".encode() + b"\xff\n" + b"x" * 65_000 + b"\rend\n" + b"y" * 45_000
    whole = Transcript()
    whole.feed(data)
    whole.finish()
    chance = random.Random(0)
    for _ in range(200):
        cuts = sorted(chance.choices(range(len(data)), k=5) + chance.choices(range(40), k=5))
        pieces = Transcript()
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            pieces.feed(data[start:end])
        pieces.finish()
        assert pieces.lines() == whole.lines()


# --- too much -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("say", "first", "last", "lines_said"),
    [
        (lambda: print("\n".join(map(str, range(100_000)))), "0", "99999", [100_000]),
        (lambda: [sys.stdout.write("x" * 50_000_000), print("end")], "x", "end", []),
    ],
    ids=["lines", "one line"],
)
def test_of_endless_output_the_first_and_last_lines_are_kept(
    say: Callable[[], object], first: str, last: str, lines_said: list[int]
) -> None:
    lines = lines_of(say)
    notes = [match for line in lines if (match := _LEFT_OUT.match(line))]
    assert (lines[0][: len(first)], lines[-1][-len(last) :]) == (first, last)
    assert len(lines) < 5_000
    assert sum(map(len, lines)) < 5_000_000
    assert [int(note[1].replace(",", "")) + len(lines) - 1 for note in notes] == lines_said


@nightly
def test_100_megabytes_pass_and_fill_neither_memory_nor_page(kernel: NotebookSession) -> None:
    source = """
        import resource
        def memory(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        def flood(rank, world_size):
            line = "x" * 99 + "\\n"
            for _ in range(500): sys.stdout.write(line * 1000)
        before = memory()
        results = launch(flood, 2)
        print(memory() - before < 50, results.seconds < 20, sum(map(len, results.lines[0])) < 5e6)
    """
    done = cell(kernel, source)
    assert done.stream == "True True True\n"
    assert sum(len(json.dumps(data)) for _, data in done.updates) < 5_000_000
    assert len(json.dumps(done.displays)) < 100_000


@nightly
def test_a_cell_shows_head_and_tail_of_each_rank_and_says_what_it_left_out(kernel: NotebookSession) -> None:
    source = """
        def count(rank, world_size):
            for number in range(1000 if rank else 3): print(number)
        len(launch(count, 2).lines[1])
    """
    done = cell(kernel, source)
    lines = done.text.splitlines()
    shown = [line.partition(" | ")[2] for line in lines if line.startswith("rank 1")]
    (note,) = [match for line in shown if (match := _LEFT_OUT.match(line))]
    assert lines[:3] == ["rank 0 | 0", "rank 0 | 1", "rank 0 | 2"]
    assert (shown[:2], shown[-1], int(note[1]) + len(shown) - 1) == (["0", "1"], "999", 1000)
    assert (note[2], done.value) == ("; all of them are in results.lines", "1000")


def test_a_rank_that_prints_on_while_the_others_wait_is_stopped_when_the_time_is_up() -> None:
    def print_on(rank: int, world_size: int) -> None:
        while rank == 0:
            print("on and on")
        dist.barrier()

    with pytest.raises(Exception, match="did not return within 1 second"):
        launch(print_on, 2, timeout_seconds=1, quiet=True)


def test_what_threads_print_after_the_function_returned_is_no_part_of_the_next_launch() -> None:
    def leave_a_thread(rank: int, world_size: int) -> None:
        threading.Thread(target=lambda: [print("still here") for _ in iter(int, 1)], daemon=True).start()

    launch(leave_a_thread, 2, quiet=True)
    assert lines_of(lambda: print("hello")) == ["hello"]


# --- in the notebook ------------------------------------------------------------------------------------------------


class _Text(html.parser.HTMLParser):
    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(data["text/html"])

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_what_ranks_print_is_text_under_their_label_and_color_and_never_part_of_the_page(
    kernel: NotebookSession,
) -> None:
    nasty = "<script>alert(1)</script> </pre></div> <b>&amp; \"'` $x$ **bold** <!-- ]]> {{x}} \\n"
    done = cell(kernel, f"launch(lambda rank, world_size: print({nasty!r}), 4) and None")
    page = _Text(done.displays[-1])
    assert page.tags == {"div", "b", "pre"}
    assert re.findall(rf"rank (\d)\s*{re.escape(nasty)}", page.text) == ["0", "1", "2", "3"]
    assert done.text.splitlines() == [f"rank {rank} | {nasty}" for rank in range(4)]
    source = done.displays[-1]["text/html"]
    assert len(set(re.findall(r"#[0-9A-Fa-f]{6}", source))) == 4
    assert not re.search(r"(?<!-)color:\s*(black|white|#000|#fff)|background", source)


def test_terminal_codes_do_not_reach_the_page(kernel: NotebookSession) -> None:
    link = "\x1b]8;;http://a.b\x1b\\link\x1b]8;;\x1b\\"
    codes = f"\x1b[1;31mred\x1b[0m \x1b[2K\x1b[Aup \x1b]0;title\x07 {link} \x07\x00\x08\x7f\x85\x9dx"
    done = cell(kernel, f"launch(lambda rank, world_size: print({codes!r}), 1) and None")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.text + _Text(done.displays[-1]).text)
    assert re.sub(r" +", " ", done.text) == "rank 0 | red up link x"


def _waits(door: Path, before: str, after: str) -> str:
    return f"""
        def wait(rank, world_size):
            {before}
            if rank == 0: open({os.fspath(door)!r}).read()
            dist.barrier()
            {after}
        launch(wait, 2) and None
    """


@pytest.mark.parametrize(
    ("before", "after", "live", "in_the_end"),
    [
        ("print('before')", "print('after')", "rank {} | before", "rank {0} | before\nrank {0} | after"),
        ("print('wait', end=' ', flush=True)", "print('done')", "rank {} | wait ", "rank {} | wait done"),
    ],
    ids=["lines", "unfinished lines"],
)
def test_output_arrives_while_the_ranks_still_run(
    kernel: NotebookSession, before: str, after: str, live: str, in_the_end: str, tmp_path: Path
) -> None:
    seen: list[str] = []

    def let_it_go_on(cell: Cell) -> None:
        if not seen and cell.text.count("rank") == 2:
            seen.append(cell.text)
            (tmp_path / "door").write_text("")

    os.mkfifo(tmp_path / "door")
    source = _waits(tmp_path / "door", before, after)
    done = kernel.finish(kernel.begin(textwrap.dedent(source)), whenever=let_it_go_on)
    assert seen == ["\n".join(live.format(rank) for rank in (0, 1))]
    assert done.text == "\n".join(in_the_end.format(rank) for rank in (0, 1))


def test_while_nothing_is_said_a_clock_runs_and_is_gone_in_the_end(kernel: NotebookSession, tmp_path: Path) -> None:
    seen: list[str] = []

    def let_it_go_on(cell: Cell) -> None:
        if not seen and "running" in cell.text:
            seen.append(cell.text)
            (tmp_path / "door").write_text("")

    os.mkfifo(tmp_path / "door")
    source = _waits(tmp_path / "door", "if rank == 1: return", "return")
    done = kernel.finish(kernel.begin(textwrap.dedent(source)), whenever=let_it_go_on)
    assert re.fullmatch(r"1 of 2 ranks (is|are) running … [12] s", seen[0])
    assert done.text == ""


def test_the_page_is_redrawn_a_few_times_a_second_at_most(kernel: NotebookSession) -> None:
    source = """
        def chat(rank, world_size):
            end = time.monotonic() + 1
            while time.monotonic() < end: print("word")
        launch(chat, 2) and None
    """
    done = cell(kernel, source)
    assert 2 <= len(done.updates) <= 15
    assert max(len(json.dumps(data)) for _, data in done.updates) < 50_000


@nightly
def test_what_is_stored_is_in_the_order_of_ranks_and_the_same_ten_times(kernel: NotebookSession) -> None:
    source = """
        def talk(rank, world_size):
            for step in range(30):
                time.sleep(0.0005 * ((rank * 7 + step * 3) % 5))
                print(f"step {step}", file=sys.stderr if step % 3 else sys.stdout)
            return rank
        launch(talk, 4)
    """
    stored = [(done.displays, done.stream, done.value) for done in (cell(kernel, source) for _ in range(10))]
    assert all(other == stored[0] for other in stored)
    assert stored[0][1:] == ("", "Results([0, 1, 2, 3])")
    assert stored[0][0][-1]["text/plain"].splitlines() == [
        f"rank {rank} | step {step}" for rank in range(4) for step in range(30)
    ]


def test_quiet_shows_nothing_and_keeps_the_lines(kernel: NotebookSession) -> None:
    done = cell(kernel, "list(launch(lambda rank, world_size: print('hi'), 2, quiet=True).lines[1])")
    assert (done.displays, done.updates, done.stream, done.value) == ([], [], "", "['hi']")


def test_a_launch_that_says_nothing_shows_nothing(kernel: NotebookSession) -> None:
    done = cell(kernel, "launch(lambda rank, world_size: None, 2) and None")
    assert (done.text, done.stream, done.value) == ("", "", "")


def test_what_failed_ranks_had_printed_is_shown_above_the_message(kernel: NotebookSession) -> None:
    done = kernel.run("launch(lambda rank, world_size: (print('almost there'), 1 / 0), 2)")
    assert done.text.splitlines() == ["rank 0 | almost there", "rank 1 | almost there"]
    assert done.error.startswith("WorkerFailed: both ranks raised ZeroDivisionError")


# --- in a terminal --------------------------------------------------------------------------------------------------


@nightly
def test_on_a_real_terminal_the_labels_are_colored(tmp_path: Path) -> None:
    source = "from ddp_lessons import launch\nlaunch(lambda rank, size: print('naïve 漢字\\nunfinished', end=''), 2)"
    said, complaints = run_on_a_terminal(["-c", source], {**os.environ, **_ENVIRONMENT}, "stdout")
    assert complaints == ""
    # what a launch waits for is said, and erased
    lines = re.sub(r"[^\n]*\r\x1b\[K", "", said).splitlines()
    assert all(re.match(r"\x1b\[[\d;]+mrank \d \|\x1b\[0m ", line) for line in lines)
    assert sorted(re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines) == [
        f"rank {rank} | {words}" for rank in (0, 1) for words in ("naïve 漢字", "unfinished")
    ]


@nightly
def test_in_a_terminal_lines_come_while_the_ranks_run(tmp_path: Path) -> None:
    source = """
from ddp_lessons import launch
def wait(rank, world_size):
    print('waiting')
    open('door' if rank else '/dev/null').read()
    print('done')
launch(wait, 2)
"""
    os.mkfifo(tmp_path / "door")
    command, env = [sys.executable, "-c", source], {**os.environ, **_ENVIRONMENT}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        before = sorted(process.stdout.readline() for _ in range(3))
        (tmp_path / "door").write_text("")
        assert before == ["rank 0 | done\n", "rank 0 | waiting\n", "rank 1 | waiting\n"]
        assert process.stdout.read() == "rank 1 | done\n"


def test_what_ranks_print_follows_a_redirected_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as kept:
        launch(lambda rank, world_size: print("hello"), 1)
    assert (kept.getvalue(), capsys.readouterr()) == ("rank 0 | hello\n", ("", ""))


# --- nothing that the learner did not cause -------------------------------------------------------------------------


def _use_every_collective(rank: int, world_size: int) -> None:
    tensor, both = torch.ones(2), [torch.zeros(2) for _ in range(world_size)]
    dist.barrier()
    dist.monitored_barrier()
    dist.all_reduce(tensor)
    dist.broadcast(tensor, 0)
    dist.all_gather(both, tensor)
    dist.gather(tensor, both if rank == 0 else None)
    dist.scatter(tensor, both if rank == 0 else None)
    gathered: list[Any] = [None] * world_size
    dist.all_gather_object(gathered, "object")
    if rank == 0:
        dist.send(tensor, 1)
    elif rank == 1:
        dist.recv(tensor)
    dist.new_group([0, 1])


def _destroy(rank: int, world_size: int) -> None:
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


def _abandon_a_collective(rank: int, world_size: int) -> None:
    if rank == 0:
        dist.all_reduce(torch.ones(1), async_op=True)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (_use_every_collective, {}),
        (_destroy, {}),
        (_abandon_a_collective, {"record": False}),  # else it is told of what nobody waited for
    ],
)
def test_ranks_say_nothing_of_their_own(function: Callable[[int, int], None], options: dict[str, Any]) -> None:
    assert [list(lines) for lines in launch(function, 3, quiet=True, **options).lines] == [[], [], []]


def test_ranks_say_nothing_of_their_own_when_one_of_them_is_gone() -> None:
    def one_dies(rank: int, world_size: int) -> None:
        dist.init_process_group("gloo")
        dist.barrier()
        if rank == 0:  # it hosts the store
            os._exit(1)
        dist.all_reduce(torch.ones(1))

    with pytest.raises(WorkerFailed) as caught:
        launch(one_dies, 3, quiet=True, join=False)
    assert [list(lines) for lines in caught.value.results.lines] == [[], [], []]
