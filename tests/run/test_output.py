"""What ranks print is shown line by line under its rank: all of it, nothing else, and never too much."""

from __future__ import annotations

import contextlib
import ctypes
import html
import io
import json
import os
import random
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

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


def _print_all_ways() -> None:
    print("print")
    sys.stderr.write("stderr\n")
    ctypes.CDLL(None).printf(b"printf %d\n", 1)
    os.write(1, b"fd 1\n")
    os.write(2, b"fd 2\n")
    os.system("echo shell; echo shell stderr >&2")
    subprocess.run(["echo", "subprocess"], check=True)
    ctypes.CDLL(None).puts(b"puts")
    print("again", file=sys.stderr)


def _print_from_a_fork() -> None:
    if os.fork() == 0:
        print("child")
        os._exit(0)
    os.wait()


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
    "unfinished in C": (lambda: ctypes.CDLL(None).printf(b"rest"), ["rest"]),
    "empty lines": (lambda: print("\n\na\n"), ["", "", "a", ""]),
    "fork": (_print_from_a_fork, ["child"]),
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
        ctypes.CDLL(None).printf(b"by C\n")
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


def text_of(page: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", page))


def test_what_ranks_print_is_text_under_their_label_and_color(kernel: NotebookSession) -> None:
    nasty = "<script>alert(1)</script> </pre></div> <b>&amp; \"'` $x$ **bold** <!-- ]]> {{x}} \\n"
    done = cell(kernel, f"launch(lambda rank, world_size: print({nasty!r}), 4) and None")
    page = done.displays[-1]["text/html"]
    assert set(re.findall(r"<\W*(\w*)", page)) == {"div", "b", "pre"}
    assert re.findall(rf"rank (\d)\s*{re.escape(nasty)}", text_of(page)) == ["0", "1", "2", "3"]
    assert done.text.splitlines() == [f"rank {rank} | {nasty}" for rank in range(4)]
    assert len(set(re.findall(r"#[0-9A-Fa-f]{6}", page))) == 4
    assert not re.search(r"(?<!-)color:\s*(black|white|#000|#fff)|background", page)


def test_terminal_codes_do_not_reach_the_page(kernel: NotebookSession) -> None:
    link = "\x1b]8;;http://a.b\x1b\\link\x1b]8;;\x1b\\"
    codes = f"\x1b[1;31mred\x1b[0m \x1b[2K\x1b[Aup \x1b]0;title\x07 {link} \x07\x00\x08\x7f\x85\x9dx"
    done = cell(kernel, f"launch(lambda rank, world_size: print({codes!r}), 1) and None")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.text + text_of(done.displays[-1]["text/html"]))
    assert re.sub(r" +", " ", done.text) == "rank 0 | red up link x"


@pytest.mark.parametrize(
    ("before", "live", "in_the_end"),
    [
        ("print('before')", r"rank 0 \| before\nrank 1 \| before", ["before"]),
        ("pass", r"1 of 2 ranks (is|are) running … [12] s", []),
    ],
    ids=["lines", "a clock while nothing is said"],
)
def test_output_arrives_while_the_ranks_still_run(
    kernel: NotebookSession, before: str, live: str, in_the_end: list[str], tmp_path: Path
) -> None:
    door, seen = tmp_path / "door", list[str]()
    source = f"""
        def wait(rank, world_size):
            {before}
            if rank == 0: open({os.fspath(door)!r}).read()
        launch(wait, 2) and None
    """

    def let_it_go_on(cell: Cell) -> None:
        if not seen and re.fullmatch(live, cell.text):
            seen.append(cell.text)
            door.write_text("")

    os.mkfifo(door)
    done = kernel.finish(kernel.begin(textwrap.dedent(source)), whenever=let_it_go_on)
    assert seen
    assert done.text.splitlines() == [f"rank {rank} | {words}" for rank in range(2) for words in in_the_end]


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


def test_quiet_and_a_launch_that_says_nothing_show_nothing(kernel: NotebookSession) -> None:
    done = cell(kernel, "list(launch(lambda rank, world_size: print('hi'), 2, quiet=True).lines[1])")
    assert (done.displays, done.updates, done.stream, done.value) == ([], [], "", "['hi']")
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


def test_what_ranks_print_follows_a_redirected_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as kept:
        launch(lambda rank, world_size: print("hello"), 1)
    assert (kept.getvalue(), capsys.readouterr()) == ("rank 0 | hello\n", ("", ""))


# --- nothing that the learner did not cause -------------------------------------------------------------------------


def test_ranks_say_nothing_of_their_own_when_a_collective_is_abandoned() -> None:
    def abandon(rank: int, world_size: int) -> None:
        if rank == 0:
            dist.all_reduce(torch.ones(1), async_op=True)

    results = launch(abandon, 3, quiet=True, record=False)  # else it is told of what nobody waited for
    assert [list(lines) for lines in results.lines] == [[], [], []]


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
