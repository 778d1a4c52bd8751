"""A recording stands in for what can't be made here, says so, and belongs to the lesson's text."""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
import torch.distributed as dist
from processes import PROJECT

from ddp_lessons import WorkersStuck, launch, show
from ddp_lessons.machines import Attempt, Machines, NotHere, Said, SlurmOnMachines, attempt, live_or_recorded
from ddp_lessons.record import recordings

CUT = Said(1, 0.3, "the network link is down")
PRINTED = f"{sys.prefix}/lib/python3.11/site-packages/torch/a.py in Process 12345 on node-17"
DONE = Attempt((0, 1), (Said(0, 0.25, PRINTED), Said(1, 0.5, "hello")), 0.75, happened=(CUT,))
CELL = """command = "torchrun {options} hello.py"
def meet(place):
    # as in the lesson
    print(line())
    return DONE
def line():
    return command.format(options="--rdzv-id=one")
"""


@dataclass
class Somewhere(AbstractContextManager["Somewhere"]):
    """A place that can be made, unless something is missing."""

    count: int = 2
    missing: str = field(default="", repr=False)

    def why_not(self) -> str:
        return self.missing

    def __exit__(self, *_: object) -> None: ...


def greet(place: Somewhere, *words: str) -> Attempt:
    return DONE


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Records a call in an empty folder, which is the current one."""
    monkeypatch.setattr(live_or_recorded, "RECORDINGS", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("platform.node", lambda: "node-17")

    def recorded(function: Callable[..., Any]) -> Any:
        with monkeypatch.context() as patch:
            patch.setenv(recordings.VARIABLE, "record")
            return attempt(function, Somewhere())

    return recorded


def test_a_recording_is_the_attempt_without_this_machine_s_names(record: Any) -> None:
    assert record(greet) == attempt(greet, Somewhere()) == DONE  # live in both cases
    cleaned = (Said(0, 0.25, ".../torch/a.py in Process N on thishost"), Said(1, 0.5, "hello"))
    shown = attempt(greet, Somewhere(missing="no ip"))
    assert shown == replace(DONE, said=cleaned, recorded=recordings.this_system())
    assert repr(shown).splitlines()[1] == "   0.3 s  machine 1 * the network link is down"
    assert repr(shown).endswith(f"\nmachine 1: ended with status 1\nrecorded: {recordings.this_system()}")
    with pytest.raises(NotHere, match=r"cannot run here \(no ip\), and there is no recording of greet_louder"):
        attempt(greet, Somewhere(missing="no ip"), "louder")


def test_a_hang_is_recorded_and_drawn_as_it_was(record: Any) -> None:
    def rank_0_waits_alone(rank: int, world_size: int) -> list[float]:
        print(f"rank {rank}")
        if rank == 0:
            dist.all_reduce(torch.ones(3))
        return [1.0]

    def try_it(place: Somewhere) -> WorkersStuck:
        with pytest.raises(WorkersStuck) as caught:
            launch(rank_0_waits_alone, 2, quiet=True)
        return caught.value

    def seen(error: WorkersStuck) -> tuple[Any, ...]:
        picture = show.timeline(error)
        calls = re.findall("<title>.*?</title>", picture.living_svg)
        return str(error), error.results.values, error.results.lines, str(picture), calls

    live, recalled = record(try_it), attempt(try_it, Somewhere(missing="no ip"))
    assert seen(recalled) == seen(live)
    assert seen(recalled)[-1]
    assert f"This run was recorded ({recordings.this_system()}" in show.timeline(recalled).living_svg
    assert recalled.remark == f"recorded ({recordings.this_system()})"
    assert recalled.traceback(0) == "no stack of rank 0 was recorded\n"


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("# as in the lesson", "# in other words", True),
        ("--rdzv-id=one", "--rdzv-id=two", False),  # in a function that it calls
        ("torchrun {options}", "torchrun --standalone {options}", False),  # in a value next to it
        ("names = 1", "names = 2", False),  # in a file that is named in a file that is named
    ],
)
def test_a_recording_is_of_all_that_is_used_without_comments(record: Any, old: str, new: str, is_same: bool) -> None:
    def defined(cell: str) -> Any:
        (file := Path(f"cell_{len([*Path().iterdir()])}.py").absolute()).write_text(cell)
        exec(compile(cell, file, "exec"), names := {"DONE": DONE})
        return names["meet"]

    Path("hello.py").write_text("import names.py")
    Path("names.py").write_text("names = 1")
    record(defined(CELL))
    Path("names.py").write_text("names = 1".replace(old, new))
    changed = defined(CELL.replace(old, new))
    if is_same:
        assert attempt(changed, Somewhere(2, "no ip")).recorded
    with pytest.raises(NotHere, match=r"\(no ip\), and there is no recording of your version: you changed it"):
        attempt(changed, Somewhere(3 if is_same else 2, "no ip"))


def test_a_complaint_is_the_error_without_its_traceback() -> None:
    lines = ["Exception raised from f at a.cpp:1 (most recent call first):", "  raise ValueError('a: b')"]
    said = tuple(Said(0, float(place), line) for place, line in enumerate([*lines, "ValueError: a: b", "later"]))
    assert [Attempt((1,), said, 4.0).complaint(machine) for machine in (0, 1)] == [said[2], None]


def test_the_recordings_are_those_of_the_lesson_s_present_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it fails: run lesson 14 with DDP_LESSONS_RECORDINGS=record."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(PROJECT / "scripts" / "many_machines.py", tmp_path)
    monkeypatch.setenv(recordings.VARIABLE, "recorded")
    shown: dict[str, object] = {}

    def note(function: Callable[..., Any], place: Any, *args: Any) -> None:
        shown[live_or_recorded.recording_of(function, args, {}).stem] = attempt(function, place, *args)

    names = {"attempt": note, "Machines": Machines, "SlurmOnMachines": SlurmOnMachines}
    notebook: Any = nbformat.read(PROJECT / "notebooks" / "14_many_machines.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    for number, cell in enumerate(notebook.cells):
        if cell.source.startswith("%%writefile"):
            Path(cell.source.split()[1]).write_text(cell.source.partition("\n")[2])
        elif cell.cell_type == "code":
            (file := tmp_path / f"cell_{number}.py").write_text(cell.source)
            for node in ast.parse(cell.source).body:
                is_plain = isinstance(getattr(node, "value", None), ast.Constant)
                if isinstance(node, ast.FunctionDef) or is_plain or "attempt(" in ast.unparse(node):
                    exec(compile(ast.Module([node], []), file, "exec"), names)
    files = {file.stem: file.read_text(encoding="utf-8") for file in live_or_recorded.RECORDINGS.glob("*.json")}
    assert shown.keys() == files.keys()
    for name, text in files.items():
        assert isinstance(shown[name], WorkersStuck if "cable" in name else Attempt)
        assert not re.search(r'/home/|/root/|/tmp/|File \\"/|DUE TO TIME LIMIT', text)
