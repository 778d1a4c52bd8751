"""What was recorded stands in for what cannot be made here, says so, and belongs to the lesson."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ddp_lessons.machines.sources import digest_of

from ddp_lessons import WorkersStuck, launch, show
from ddp_lessons.machines import Attempt, Machines, NotHere, Said, SlurmOnMachines, attempt, live_or_recorded, troubles

PROJECT = Path(__file__).parents[2]
NOTEBOOK = PROJECT / "notebooks" / "14_many_machines.ipynb"
RECORDINGS = PROJECT / "ddp_lessons" / "machines" / "recordings"


class Nowhere:
    """A place that cannot be made."""

    def __init__(self, count: int = 2) -> None:
        self.count = count

    def __repr__(self) -> str:
        return f"Nowhere({self.count})"

    def why_not(self) -> str:
        return "this machine has no such thing"

    def __enter__(self) -> Machines:
        raise AssertionError("nobody should try")

    def __exit__(self, *_: object) -> None: ...


def greet(machines: Machines, *words: str) -> Attempt:
    return machines.everywhere("echo hello")


DONE = Attempt((0, 1), (Said(0, 0.25, "hello from /somewhere/else"), Said(1, 0.5, "hello")), 0.75)


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(live_or_recorded, "RECORDINGS", tmp_path)
    monkeypatch.delenv(live_or_recorded.VARIABLE, raising=False)
    return tmp_path


def test_where_it_cannot_be_made_the_recording_is_shown_and_says_so(recordings: Path) -> None:
    live_or_recorded.keep("greet", DONE, digest_of(greet, Nowhere()))
    shown = attempt(greet, Nowhere())
    assert shown.said == DONE.said
    assert shown.statuses == DONE.statuses
    assert shown.recorded.startswith("Linux, Python 3.")
    assert "recorded: Linux" in repr(shown)


def test_without_a_recording_it_says_what_is_missing(recordings: Path) -> None:
    with pytest.raises(NotHere, match="there is no recording of greet_louder: this machine has no such thing"):
        attempt(greet, Nowhere(), "louder")


def test_what_is_done_here_is_not_called_recorded() -> None:
    assert "recorded" not in repr(DONE)
    assert DONE.recorded == ""


def test_a_recording_can_be_asked_for(recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live_or_recorded.keep("greet", DONE, digest_of(greet, Machines(2)))
    monkeypatch.setenv(live_or_recorded.VARIABLE, "recorded")
    assert attempt(greet, Machines(2)).recorded


def sum_up(rank: int, world_size: int) -> list[float]:
    total = torch.ones(3)
    dist.all_reduce(total)
    dist.send(total, dst=1) if rank == 0 else dist.recv(total, src=0)
    print(f"rank {rank} has {total[0]}")
    return total.tolist()


def never_meet(rank: int, world_size: int) -> None:
    if rank == 0:
        dist.barrier()


@pytest.mark.parametrize("function", [sum_up, never_meet])
def test_what_a_launch_gave_is_recorded_and_drawn_as_it_was(
    recordings: Path, monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any]
) -> None:
    def try_it(here: object) -> Any:
        try:
            return launch(function, 2, quiet=True)
        except WorkersStuck as error:
            return error

    monkeypatch.setenv(live_or_recorded.VARIABLE, "record")
    there = contextlib.nullcontext()
    monkeypatch.setattr(Nowhere, "why_not", lambda self: "")
    monkeypatch.setattr(Nowhere, "__enter__", lambda self: there)
    live = attempt(try_it, Nowhere())
    monkeypatch.setenv(live_or_recorded.VARIABLE, "recorded")
    recalled = attempt(try_it, Nowhere())
    assert type(recalled) is type(live)
    assert str(recalled) == str(live)
    one, other = (getattr(done, "results", done) for done in (live, recalled))
    assert (one.values, one.lines) == (other.values, other.lines)
    assert other.recorded.startswith("Linux, Python 3.")
    pictures = show.timeline(live), show.timeline(recalled)
    assert str(pictures[0]) == str(pictures[1])
    calls, recalled_calls = (re.findall("<title>.*?</title>", picture.living_svg) for picture in pictures)
    assert calls
    assert calls == recalled_calls
    assert "This was recorded (Linux" in pictures[1].living_svg
    if isinstance(recalled, WorkersStuck):
        assert "recorded (Linux" in recalled.remark
        assert recalled.traceback(0) == "no stack of rank 0 was recorded\n"


CELL = """
command = "torchrun {options} hello.py"

def meet(machines):
    # as in the lesson
    return machines.everywhere(lambda machine: line(machine))

def line(machine):
    return command.format(options="--rdzv-id=one")
"""
SAME = [
    ("nothing", "", ""),
    ("a comment", "# as in the lesson", "# in other words"),
    ("an empty line", "\ndef line", "\n\n\ndef line"),
]
CHANGED = [
    ("the function", "lambda machine: line", "lambda number: line"),
    ("what it calls", "--rdzv-id=one", "--rdzv-id=two"),
    ("a value beside it", "torchrun {options}", "torchrun --standalone {options}"),
    ("a text with a mark of comments", "hello.py", "hello.py # 2"),
]


def defined(tmp_path: Path, source: str) -> Callable[..., Any]:
    """As a cell defines it: with a text of its own, and in one namespace with the others."""
    file = tmp_path / f"cell_{len([*tmp_path.iterdir()])}.py"
    file.write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, file, "exec"), names)
    function: Callable[..., Any] = names["meet"]
    return function


@pytest.mark.parametrize(("what", "old", "new"), SAME, ids=[what for what, _, _ in SAME])
def test_a_recording_is_of_the_text_without_its_comments(recordings: Path, what: str, old: str, new: str) -> None:
    live_or_recorded.keep("meet", DONE, digest_of(defined(recordings, CELL), Nowhere()))
    assert attempt(defined(recordings, CELL.replace(old, new)), Nowhere()).recorded


@pytest.mark.parametrize(("what", "old", "new"), CHANGED, ids=[what for what, _, _ in CHANGED])
def test_whoever_changes_it_is_not_answered_with_the_recording(recordings: Path, what: str, old: str, new: str) -> None:
    live_or_recorded.keep("meet", DONE, digest_of(defined(recordings, CELL), Nowhere()))
    with pytest.raises(NotHere, match="you changed it, or something that it uses: only the lesson's own text was rec"):
        attempt(defined(recordings, CELL.replace(old, new)), Nowhere())


def test_a_recording_is_of_so_many_machines_and_of_the_files_that_are_named(
    recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recordings)
    Path("hello.py").write_text("import names.py\n")
    Path("names.py").write_text("a = 1\n")
    meet = defined(recordings, CELL)
    live_or_recorded.keep("meet", DONE, digest_of(meet, Nowhere(2)))
    assert attempt(meet, Nowhere(2)).recorded
    with pytest.raises(NotHere, match="you changed it"):
        attempt(meet, Nowhere(3))
    Path("names.py").write_text("a = 2\n")
    with pytest.raises(NotHere, match="you changed it"):
        attempt(meet, Nowhere(2))


def test_machines_and_clusters_say_how_large_they_are() -> None:
    assert (repr(Machines(3)), repr(SlurmOnMachines(2))) == ("Machines(3)", "SlurmOnMachines(2)")


def test_what_is_no_place_and_who_returns_nothing_is_named(recordings: Path) -> None:
    with pytest.raises(TypeError, match=r"a number of nodes, such as Machines\(2\)"):
        attempt(greet, Machines)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"takes a function and a place: attempt\(look, Machines\(2\)\)"):
        attempt(Machines(2), greet)  # type: ignore[arg-type]

    def forgets(place: Here) -> Attempt:
        return None  # type: ignore[return-value]

    with pytest.raises(TypeError, match=r"forgets\(\) returned None, and not what happened: let it return what every"):
        attempt(forgets, Here())


class Here(Nowhere):
    """A place that needs nothing."""

    def why_not(self) -> str:
        return ""

    def __enter__(self) -> Any:
        return self


def test_nothing_of_the_machine_it_was_made_on_is_kept(recordings: Path) -> None:
    import os
    import sys

    line = f"{os.getcwd()}/a.py and {sys.prefix}/lib/python3.11/site-packages/torch/b.py"
    live_or_recorded.keep("greet", Attempt((0,), (Said(0, 0.0, line),), 0.1))
    assert os.getcwd() not in (recordings / "greet.json").read_text()
    assert sys.prefix not in (recordings / "greet.json").read_text()


def test_a_complaint_is_the_error_and_not_the_way_there() -> None:
    lines = ["Traceback (most recent call last):", "  raise ValueError('a: b')", "ValueError: a: b", "later"]
    lines[2:2] = ["Exception raised from f at socket.cpp:1 (most recent call first):", "frame #0: c10::Error::Error(x)"]
    said = Attempt((1,), tuple(Said(0, float(place), line) for place, line in enumerate(lines)), 4.0)
    assert said.complaint(0) == Said(0, 4.0, "ValueError: a: b")
    assert said.complaint(1) is None


def test_an_attempt_survives_its_file() -> None:
    assert Attempt.from_json(DONE.to_json()) == DONE
    cut = replace(DONE, happened=(Said(1, 0.3, "the network link is down"),))
    assert Attempt.from_json(cut.to_json()) == cut
    assert repr(cut).splitlines()[1] == "   0.3 s  machine 1 * the network link is down"


def test_the_lesson_s_recordings_are_those_it_asks_for_and_hold_no_folder_of_ours() -> None:
    kept = {file.stem for file in live_or_recorded.RECORDINGS.glob("*.json")}
    text = "".join("".join(cell["source"]) for cell in notebook()["cells"] if cell["cell_type"] == "code")
    functions = {name.split("(")[0] for name in text.split("attempt(")[1:]}
    asked = {name.partition(",")[0].strip() for name in functions}
    assert all(any(name.startswith(function) for function in asked) for name in kept)
    assert all(any(name.startswith(function) for name in kept) for function in asked)
    for file in live_or_recorded.RECORDINGS.glob("*"):
        content = file.read_text(encoding="utf-8")
        assert not any(mark in content for mark in ("/home/", "/root/", "/tmp/", 'File \\"/'))


def test_the_recordings_are_of_the_lesson_s_present_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it fails: DDP_LESSONS_MACHINES=record, and run lesson 14."""
    monkeypatch.chdir(tmp_path)
    cells = ["".join(cell["source"]) for cell in notebook()["cells"] if cell["cell_type"] == "code"]
    files = [cell.partition("\n") for cell in cells if cell.startswith("%%writefile")]
    for head, _, text in files:
        Path(head.split()[1]).write_text(text)
    shutil.copy(NOTEBOOK.parents[1] / "scripts" / "many_machines.py", tmp_path)
    nodes = [node for cell in cells if cell[0] != "%" for node in ast.parse(cell).body]
    texts_of_cells = [n for n in nodes if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)]
    code = "\n\n".join(ast.unparse(node) for node in texts_of_cells)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    texts = [
        ast.get_source_segment(cell, node)
        for cell in cells
        if cell[0] != "%"
        for node in ast.parse(cell).body
        if isinstance(node, ast.FunctionDef)
    ]
    Path("cells.py").write_text("\n\n\n".join(filter(None, texts)))
    exec(compile(Path("cells.py").read_text(), tmp_path / "cells.py", "exec"), namespace)
    calls = [
        call
        for node in nodes
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "attempt"
    ]
    assert len(calls) == len([*live_or_recorded.RECORDINGS.glob("*.json")])
    for call in calls:
        function, place, *args = call.args
        arguments = tuple(map(ast.literal_eval, args)), {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
        made = eval(ast.unparse(place), {"Machines": Machines, "SlurmOnMachines": SlurmOnMachines})
        asked = namespace[ast.unparse(function)]
        live_or_recorded.recall(live_or_recorded.name_of(asked, *arguments), "", digest_of(asked, made))


def test_the_table_of_troubles_has_the_notes_own_mistake() -> None:
    lines = troubles().splitlines()
    assert any("only --nnodes=2" in line for line in lines)
    assert len(lines) > 12
    assert max(map(len, lines)) <= 100  # a notebook wraps what is wider


def test_long_words_go_on_below_in_their_column_and_none_is_lost() -> None:
    lines = troubles().splitlines()
    widths = [len(dashes) for dashes in lines[1].split()]
    shown = " ".join(line[widths[0] + widths[1] + 4 :].strip() for line in lines[2:])
    kept = live_or_recorded.TROUBLES.read_text(encoding="utf-8").splitlines()
    begin = kept[1].rindex("  ") + 2
    assert re.sub(r"\s", "", shown) == re.sub(r"\s", "", "".join(line[begin:] for line in kept[2:]))


def notebook() -> Any:
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


@pytest.mark.parametrize("recording", sorted(RECORDINGS.glob("*.json")), ids=lambda file: file.stem)
def test_no_recording_was_cut_short_by_a_busy_machine(recording: Path) -> None:
    assert "DUE TO TIME LIMIT" not in recording.read_text(encoding="utf-8")
