"""What hosted notebooks still have: IPython 7, with ipykernel 6 and ipywidgets 7. `make test-stacks` has them, too."""

from __future__ import annotations

import linecache
import os
import time

import pytest
from nights import nightly
from notebook_session import NotebookSession
from processes import PROJECT, Program

from ddp_lessons import WorkerFailed, launch

_WITHOUT_NEWER_NAMES = """
import IPython.core.completer
from IPython.core.interactiveshell import InteractiveShell
vars(IPython.core.completer).pop("CompletionContext", None)
vars(IPython.core.completer).pop("context_matcher", None)
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "ddp_lessons")
shell.run_line_magic("ranks", "status")
shell.run_line_magic("reload_ext", "ddp_lessons")
"""


def test_magics_need_no_name_that_only_newer_versions_have() -> None:
    with Program(_WITHOUT_NEWER_NAMES) as program:
        said = program.finish().splitlines()
    assert said == ["no ranks are running. To start four, begin a cell with %%ranks 4"]


def test_a_failure_shows_its_line_also_where_cells_have_a_time() -> None:
    """IPython 7 puts the text of a cell into linecache as if it were a file of now."""
    file = "/tmp/ipykernel_1/2271.py"
    source = "def divide(rank, world_size):\n    return 1 / rank  # by zero on the first\n"
    cell: dict[str, object] = {"__name__": "__main__"}
    exec(compile(source, file, "exec"), cell)
    linecache.cache[file] = len(source), time.time(), source.splitlines(keepends=True), file
    with pytest.raises(WorkerFailed, match="return 1 / rank  # by zero on the first"):
        launch(cell["divide"], 2, quiet=True)  # type: ignore[arg-type]


_CELLS = {
    "%load_ext ddp_lessons": "",
    "from ddp_lessons import launch, quiz, show, tell": "",
    "def add(rank, world_size):\n    tell('adds', loss=1.0)\n    return 1 / (1 - rank)  # by zero": "",
    "try:\n    launch(add, 2)\nexcept Exception as error:\n    kept = error; print(error)": "# by zero",
    "import gc; gc.collect(); show.timeline(kept)": "rank 0",
    "%%ranks 2\nx = rank\nprint('x is', x)": "rank 1 | x is 1",
    "%%ranks\nx / 0": "",
    "%ranks stop": "stopped 2 ranks",
    "quiz.questions(1)": "Lesson 1",
    "show.explore_scaling(lambda ranks, *_: 1e3 * ranks, cores=4, latency=1e-4, bandwidth=1e9)": "1 to 64 ranks",
}


@nightly
def test_a_notebook_launches_draws_and_asks() -> None:
    with NotebookSession({"PYTHONPATH": os.fspath(PROJECT)}) as session:
        for source, expected in _CELLS.items():
            done = session.run(source, timeout_seconds=180)
            seen = f"{done.stream}\n{done.text}\n{done.value}"
            assert expected in seen, f"{source}: {seen} {done.error}"
            assert done.error_name == ("WorkerFailed" if source.endswith("x / 0") else ""), done.error
            assert "Traceback" not in seen
