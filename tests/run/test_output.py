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
import nbformat
import pytest
import torch
import torch.distributed as dist
from nbclient import NotebookClient
from nights import by_day, nightly
from notebook_session import Cell, NotebookSession
from processes import PROJECT, Doorbell, run_on_a_terminal
from torch._C._distributed_c10d import TCPStore

from ddp_lessons import WorkerFailed, Workers, launch
from ddp_lessons.run.output.transcript import Transcript

# as functions of a cell do, so that ranks need not import this module, and all that it imports
cloudpickle.register_pickle_by_value(sys.modules[__name__])

_ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([os.fspath(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])}
_LEFT_OUT = re.compile(r"^\[\.\.\. ([\d,]+) lines left out(.*)\]$")


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookSession]:
    with NotebookSession(_ENVIRONMENT) as session:
        cell(session, "import os, sys, time, torch, torch.distributed as dist\nfrom ddp_lessons import Workers, launch")
        yield session


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[Doorbell]:
    bell = Doorbell(tmp_path)
    yield bell
    bell.close()


def lines_of(say: Callable[[], object], **options: Any) -> list[str]:
    """What one rank is found to have said."""

    def call(rank: int, world_size: int) -> None:
        say()

    return list(launch(call, 1, quiet=True, **options).lines[0])


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


def _print_through_the_first_stdout() -> None:
    print("first stdout", file=sys.__stdout__)
    print("first stderr", file=sys.__stderr__)


def _replace_stdout() -> None:
    print("before", end="")
    sys.stdout = io.StringIO()
    print("into the void")


def _redirect() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as kept:
        print("kept")
    print(f"after {kept.getvalue()}", end="")


def _buffer_like_cpp() -> None:
    libc = _c_library()
    fully = 0  # stdio's _IOFBF
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, fully, ctypes.c_size_t(1 << 16))
    libc.printf(b"buffered line\n")
    libc.printf(b"buffered rest")


def _use_the_binary_stream() -> None:
    sys.stdout.buffer.write(b"bytes\n")
    sys.stdout.reconfigure(line_buffering=False)  # type: ignore[union-attr]
    print("no longer by line")


def _log() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    logging.info("logged")
    warnings.warn("mind the gap", stacklevel=1)


def _log_from_threads() -> None:
    threads = [threading.Thread(target=lambda: [sys.stdout.write("a" * 50 + "\n") for _ in range(100)]) for _ in "1234"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _ask() -> None:
    with contextlib.suppress(EOFError):
        input("name? ")


_WAYS: dict[str, tuple[Callable[[], object], list[str]]] = {
    "nothing": (lambda: None, []),
    "in order": (
        _print_all_ways,
        "print/stderr/printf 1/fd 1/fd 2/shell/shell stderr/subprocess/puts/again".split("/"),
    ),
    "unfinished": (lambda: print("a\nb", end=""), ["a", "b"]),
    "unfinished in C": (lambda: _c_library().printf(b"rest"), ["rest"]),
    "unfinished on both": (lambda: (sys.stderr.write("err "), sys.stderr.flush(), print("out", end="")), ["err out"]),
    "empty lines": (lambda: print("\n\na\n"), ["", "", "a", ""]),
    "spaces": (lambda: print("  a\t b  "), ["  a\t b  "]),
    "buffered as C++ does": (_buffer_like_cpp, ["buffered line", "buffered rest"]),
    "binary stream": (_use_the_binary_stream, ["bytes", "no longer by line"]),
    "fork": (_print_from_a_fork, ["child"]),
    "first stdout": (_print_through_the_first_stdout, ["first stdout", "first stderr"]),
    "replaced": (_replace_stdout, ["before"]),
    "redirected": (_redirect, ["after kept"]),
    "closed": (lambda: (print("last"), sys.stdout.close()), ["last"]),
    "threads": (_log_from_threads, ["a" * 50] * 400),
    "a prompt": (_ask, ["name? "]),
    "Windows' ends of lines": (lambda: os.write(1, b"a\r\nb\r\n"), ["a", "b"]),
    "not UTF-8": (lambda: os.write(1, b"\xff\xfe caf\xe9\n\xf0\x9f"), ["\ufffd\ufffd caf\ufffd", "\ufffd"]),
    "a letter in two pieces": (lambda: [os.write(1, piece) for piece in (b"\xe6", b"\xbc", b"\xa2\n")], ["漢"]),
    "lone surrogate": (lambda: print("a\ud800b"), ["a\\ud800b"]),
    "all alphabets": (lambda: print("naïve 漢字 🙂 עברית e\u0301"), ["naïve 漢字 🙂 עברית e\u0301"]),
    "other ends of lines": (lambda: print("a\u2028b\x0bc\x0cd\x85e\x1cf"), ["a\u2028b\x0bc\x0cd\x85e\x1cf"]),
    "zero byte": (lambda: print("a\0b"), ["a\0b"]),
    "colors": (lambda: print("\x1b[31mred\x1b[0m"), ["\x1b[31mred\x1b[0m"]),
}


@pytest.mark.parametrize(("say", "lines"), _WAYS.values(), ids=_WAYS)
def test_whatever_a_rank_prints_is_found_in_its_lines(say: Callable[[], object], lines: list[str]) -> None:
    assert lines_of(say) == lines


def test_a_warning_and_a_log_of_the_learner_are_shown() -> None:
    assert lines_of(_log)[0] == "INFO logged"
    assert any("UserWarning: mind the gap" in line for line in lines_of(_log))


def test_each_rank_has_its_own_lines_in_its_own_order() -> None:
    def talk(rank: int, world_size: int) -> None:
        for step in range(20):
            print(rank, step)
            dist.barrier()

    results = launch(talk, 4, quiet=True)
    assert [list(lines) for lines in results.lines] == [[f"{rank} {step}" for step in range(20)] for rank in range(4)]


def test_workers_of_a_loader_print_under_their_rank() -> None:
    def load(rank: int, world_size: int) -> None:
        def collate(samples: list[int]) -> None:
            print("batch of rank", rank)

        samples: Any = range(4)
        loader: Any = torch.utils.data.DataLoader(samples, batch_size=2, num_workers=1, collate_fn=collate)
        list(loader)

    assert [list(lines) for lines in launch(load, 2, quiet=True).lines] == [
        ["batch of rank 0"] * 2,
        ["batch of rank 1"] * 2,
    ]


@pytest.mark.parametrize(
    "end",
    [lambda: os._exit(3), lambda: os.kill(os.getpid(), 9), lambda: ctypes.string_at(0), lambda: 1 / 0],
    ids=["exit", "kill", "crash", "exception"],
)
def test_what_was_printed_before_a_rank_ended_is_kept(end: Callable[[], object]) -> None:
    def speak_and_end(rank: int, world_size: int) -> None:
        print("by Python")
        _c_library().printf(b"by C\n")
        os.write(1, b"unfinished")
        end()

    with pytest.raises(WorkerFailed) as caught:
        launch(speak_and_end, 1, quiet=True)
    assert list(caught.value.results.lines[0]) == ["by Python", "by C", "unfinished"]


def test_lines_of_one_call_do_not_show_up_in_the_next_on_the_same_workers() -> None:
    def say(rank: int, world_size: int, word: str) -> None:
        print(word, end="")

    with Workers(2, quiet=True) as workers:
        assert [list(workers.run(say, word).lines[1]) for word in ("one", "two")] == [["one"], ["two"]]


# --- progress bars and control codes --------------------------------------------------------------------------------


def test_of_a_progress_bar_the_last_state_is_kept() -> None:
    def like_tqdm() -> None:
        for done in range(101):
            print(f"\r{done:3}%|{'█' * (done // 10):10}| {done}/100", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        for done in range(100):
            print(f"step {done}", end="\r")
        print("done    ")

    assert lines_of(like_tqdm) == ["100%|██████████| 100/100", "done    "]


def test_a_progress_bar_without_end_is_one_line_and_no_memory() -> None:
    def spin() -> None:
        for turn in range(200_000):
            sys.stdout.write(f"\rturn {turn}")

    assert lines_of(spin) == ["turn 199999"]


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


def test_a_long_list_is_one_line() -> None:
    """58,890 characters: `print(losses)` is what learners do."""
    assert lines_of(lambda: print(list(range(10_000)))) == [str(list(range(10_000)))]


# --- too much -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("say", "first", "last", "counted"),
    [
        (lambda: print("\n".join(map(str, range(100_000)))), "0", "99999", 100_000),
        (lambda: [sys.stdout.write("x" * 50_000_000), print("end")], "x", "end", None),
    ],
    ids=["lines", "one line"],
)
def test_of_endless_output_the_first_and_last_lines_are_kept(
    say: Callable[[], object], first: str, last: str, counted: int | None
) -> None:
    lines = lines_of(say)
    notes = [match for line in lines if (match := _LEFT_OUT.match(line))]
    assert lines[0].startswith(first)
    assert lines[-1].endswith(last)
    assert len(lines) < 5_000
    assert sum(map(len, lines)) < 5_000_000
    if counted is not None:
        assert [int(note[1].replace(",", "")) + len(lines) - 1 for note in notes] == [counted]


@nightly
def test_100_megabytes_pass_in_seconds_and_fill_neither_memory_nor_page(kernel: NotebookSession) -> None:
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


# --- in the notebook ------------------------------------------------------------------------------------------------


class _Text(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def page(data: dict[str, Any]) -> _Text:
    parsed = _Text()
    parsed.feed(data["text/html"])
    return parsed


def test_what_ranks_print_is_text_and_never_part_of_the_page(kernel: NotebookSession) -> None:
    nasty = "<script>alert(1)</script> </pre></div> <b>&amp; \"'` $x$ **bold** <!-- ]]> {{x}} \\n"
    done = cell(kernel, f"launch(lambda rank, world_size: print({nasty!r}), 2) and None")
    parsed = page(done.displays[-1])
    assert parsed.tags == {"div", "b", "pre"}
    assert parsed.text.count(nasty) == 2
    assert done.text.splitlines() == [f"rank {rank} | {nasty}" for rank in range(2)]


def test_terminal_codes_do_not_reach_the_page(kernel: NotebookSession) -> None:
    link = "\x1b]8;;http://a.b\x1b\\link\x1b]8;;\x1b\\"
    codes = f"\x1b[1;31mred\x1b[0m \x1b[2K\x1b[Aup \x1b]0;title\x07 {link} \x07\x00\x08\x7f\x85\x9dx"
    done = cell(kernel, f"launch(lambda rank, world_size: print({codes!r}), 1) and None")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.text + page(done.displays[-1]).text)
    assert re.sub(r" +", " ", done.text) == "rank 0 | red up link x"


def test_output_arrives_while_the_ranks_still_run(kernel: NotebookSession, bell: Doorbell) -> None:
    source = f"""
        def wait(rank, world_size):
            print("before", rank)
            if rank == 0:
                with open({bell.path!r}, "rb", buffering=0) as door: door.read(1)
            dist.barrier()
            print("after", rank)
        launch(wait, 2) and None
    """
    live: list[str] = []

    def let_them_go_on(seen: Cell) -> None:
        if not live and "before 0" in seen.text and "before 1" in seen.text:
            live.append(seen.text)
            os.write(bell._end, b"!")

    done = kernel.finish(kernel.begin(textwrap.dedent(source)), whenever=let_them_go_on)
    assert live == ["rank 0 | before 0\nrank 1 | before 1"]
    assert done.text.split("\n") == [
        f"rank {rank} | {word} {rank}" for rank in range(2) for word in ("before", "after")
    ]


def test_an_unfinished_line_is_shown_live_too(kernel: NotebookSession, bell: Doorbell) -> None:
    source = f"""
        def wait(rank, world_size):
            print("loading ...", end="", flush=True)
            with open({bell.path!r}, "rb", buffering=0) as door: door.read(1)
            print(" done")
        launch(wait, 1) and None
    """
    live: list[str] = []

    def let_it_go_on(seen: Cell) -> None:
        if not live and "loading ..." in seen.text:
            live.append(seen.text)
            os.write(bell._end, b"!")

    done = kernel.finish(kernel.begin(textwrap.dedent(source)), whenever=let_it_go_on)
    assert (live, done.text) == (["rank 0 | loading ..."], "rank 0 | loading ... done")


def test_while_nothing_is_said_a_clock_runs_and_is_gone_in_the_end(kernel: NotebookSession, bell: Doorbell) -> None:
    source = f"""
        def wait(rank, world_size):
            if rank == 0:
                with open({bell.path!r}, "rb", buffering=0) as door: door.read(1)
        launch(wait, 2) and None
    """
    live: list[str] = []

    def let_it_go_on(seen: Cell) -> None:
        if not live and "running" in seen.text:
            live.append(seen.text)
            os.write(bell._end, b"!")

    done = kernel.finish(kernel.begin(textwrap.dedent(source)), whenever=let_it_go_on)
    assert re.fullmatch(r"1 of 2 ranks (is|are) running … [12] s", live[0])
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


def test_every_rank_has_its_label_and_color_on_the_page(kernel: NotebookSession) -> None:
    done = cell(kernel, "launch(lambda rank, world_size: print('hi'), 4) and None")
    source = done.displays[-1]["text/html"]
    assert re.findall(r"rank (\d)\s*hi", page(done.displays[-1]).text) == ["0", "1", "2", "3"]
    assert len(set(re.findall(r"#[0-9A-Fa-f]{6}", source))) == 4
    assert not re.search(r"(?<!-)color:\s*(black|white|#000|#fff)|background", source)


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


def _notebook() -> Any:
    cells = [
        "import sys, time, torch, torch.distributed as dist\nfrom ddp_lessons import WorkerFailed, Workers, launch",
        "def talk(rank, world_size):\n    for step in range(100): print(step, '<b>漢', rank)\n    return rank",
        "launch(talk, 3)",
        "results = launch(lambda rank, world_size: rank, 2)",
        "launch(lambda rank, world_size: time.sleep(1.3 * rank), 2)  # the clock is shown meanwhile",
        "with Workers(2) as workers:\n    for word in '12': workers.run(lambda r, w, word: print(word), word)",
        "def bar(rank, world_size):\n    for done in range(50):\n        print(f'\\r{done}', end='', flush=True)\n"
        "        time.sleep(0.01)\nlaunch(bar, 2)",
        "try: launch(lambda rank, world_size: print('last') or 1 / 0, 2)\nexcept WorkerFailed as error: print(error)",
        "list(results), results.lines, results.events",
    ]
    v4: Any = nbformat.v4
    notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in cells])
    notebook.cells.append(v4.new_code_cell("launch(talk, 0)", metadata={"tags": ["raises-exception"]}))
    return notebook


@nightly
def test_a_stored_notebook_passes_nbval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", _ENVIRONMENT["PYTHONPATH"])
    notebook = _notebook()
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": os.fspath(tmp_path)}}).execute()
    (tmp_path / "lesson.ipynb").write_text(json.dumps(notebook))
    command = [sys.executable, "-m", "pytest", "--nbval", "lesson.ipynb", "-q", "-p", "no:cacheprovider"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout
    assert f"{len(notebook.cells)} passed" in ended.stdout


# --- in a terminal --------------------------------------------------------------------------------------------------

_SCRIPT = """
from ddp_lessons import launch

def greet(rank, world_size):
    print(f"naïve 漢字 from {rank}")
    print("unfinished", end="")
    return rank

results = launch(greet, 2)
print(list(results))
"""
_GREETINGS = sorted(f"rank {rank} | {words}" for rank in (0, 1) for words in (f"naïve 漢字 from {rank}", "unfinished"))


def ran(command: list[str], script: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    script.write_text(_SCRIPT, encoding="utf-8")
    env = {**os.environ, **_ENVIRONMENT, **environment}
    return subprocess.run([*command, os.fspath(script)], cwd=script.parent, env=env, capture_output=True, timeout=60)


@nightly
@pytest.mark.parametrize(
    "command",
    by_day(
        [
            [sys.executable],
            [sys.executable, "-m", "IPython", "--colors=NoColor", "--no-confirm-exit", "--no-term-title"],
        ],
        1,
    ),
    ids=["python", "ipython"],
)
def test_a_script_prints_readable_labeled_lines_and_nothing_else(command: list[str], tmp_path: Path) -> None:
    ended = ran(command, tmp_path / "script.py", IPYTHONDIR=os.fspath(tmp_path))
    *said, last = ended.stdout.decode().splitlines()
    assert (sorted(said), last, ended.stderr, ended.returncode) == (_GREETINGS, "[0, 1]", b"", 0)


@nightly
def test_a_terminal_that_lacks_letters_is_no_reason_to_fail(tmp_path: Path) -> None:
    ended = ran([sys.executable], tmp_path / "script.py", PYTHONIOENCODING="ascii")
    said = ended.stdout.decode("ascii").splitlines()
    assert (len(said), said[-1], ended.stderr, ended.returncode) == (5, "[0, 1]", b"", 0)


@nightly
def test_on_a_real_terminal_the_labels_are_colored(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(_SCRIPT, encoding="utf-8")
    script = [os.fspath(tmp_path / "script.py")]
    said, complaints = run_on_a_terminal(script, {**os.environ, **_ENVIRONMENT}, "stdout")
    assert complaints == ""
    # what a launch waits for is said, and erased
    *lines, last = re.sub(r"[^\n]*\r\x1b\[K", "", said).splitlines()
    assert last == "[0, 1]"
    assert all(re.match(r"\x1b\[[\d;]+mrank \d \|\x1b\[0m ", line) for line in lines)
    assert sorted(re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines) == _GREETINGS


@nightly
def test_in_a_terminal_lines_come_while_the_ranks_run(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom ddp_lessons import launch\n"
        "def wait(rank, world_size):\n    print('waiting')\n    open(sys.argv[1] if rank else '/dev/null').read()\n"
        "    print('done')\n".replace("sys.argv[1]", repr(os.fspath(tmp_path / "door")))
        + "launch(wait, 2)\n"
    )
    os.mkfifo(tmp_path / "door")
    env = {**os.environ, **_ENVIRONMENT}
    with subprocess.Popen([sys.executable, os.fspath(script)], env=env, stdout=subprocess.PIPE, text=True) as process:
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


def _join_by_environment(rank: int, world_size: int) -> None:
    dist.init_process_group("gloo")
    dist.barrier()


def _join_by_store(rank: int, world_size: int) -> None:
    port = int(os.environ["MASTER_PORT"])
    store = TCPStore("localhost", port, world_size, is_master=rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    dist.all_reduce(torch.ones(1))


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
        (_join_by_environment, {"join": False}),
        (_join_by_store, {"join": False}),
        (_destroy, {}),
        (_abandon_a_collective, {"record": False}),  # else it is told of what nobody waited for
    ],
    ids=["collectives", "env", "store", "destroyed", "abandoned"],
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


def test_what_threads_print_after_the_function_returned_is_no_part_of_the_next_launch() -> None:
    def leave_a_thread(rank: int, world_size: int) -> None:
        threading.Thread(target=lambda: [print("still here") for _ in iter(int, 1)], daemon=True).start()

    launch(leave_a_thread, 2, quiet=True)
    assert lines_of(lambda: print("hello")) == ["hello"]
