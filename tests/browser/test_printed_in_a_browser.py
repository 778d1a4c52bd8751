"""What was printed, in a real browser: large enough, reached by keyboard, and the page never moves sideways."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from jupyter_server import JupyterServer
from playwright.sync_api import expect
from screen import Screen

from ddp_lessons import show
from ddp_lessons.backends.backend_trials import JOIN, OUTCOMES, PLACES, Trial, Trials
from ddp_lessons.backends.calls import CALLS
from ddp_lessons.backends.under_mpirun import Ended

WORDY = "mpirun needs mpi4py and an MPI; get both with " + "python-m-pip-install-mpi4py" * 8


def trials() -> Trials:
    tried = [
        Trial(place.name, call, OUTCOMES[(row + column) % 6], WORDY if call == JOIN and column == 2 else "")
        for column, place in enumerate(PLACES)
        for row, call in enumerate((JOIN, *CALLS))
    ]
    return Trials(tuple(tried))


PRINTED: dict[str, Callable[[], show.Printed]] = {
    "terminal": lambda: show.terminal(["a line", "a long line " * 30], "What two ranks said, in some more words."),
    "mpi": lambda: show.mpi_run(Ended("mpirun -n 2 python hello.py", ("rank 0", "rank 1"), False)),
    "table": lambda: show.what_works(trials()),
}
THEMES = {"light": "background:#fff;color:#111820", "dark": "background:#111;color:#eee"}
SMALLEST = """() => Math.min(...[...document.querySelectorAll('main *')]
  .filter(one => [...one.childNodes].some(node => node.nodeType == 3 && node.data.trim()) && one.tagName != 'STYLE')
  .map(one => parseFloat(getComputedStyle(one).fontSize)))"""


@pytest.fixture
def page(screen: Screen) -> Screen:
    screen.page.goto("about:blank")
    return screen


A_CELL = """
from ddp_lessons import show
show.terminal(["a line", "a long line " * 40], "What two ranks said.")
"""


def test_in_a_notebook_a_long_line_scrolls_in_its_box_and_is_not_broken(server: JupyterServer, screen: Screen) -> None:
    server.write("printed.ipynb", A_CELL)
    screen.open(server, "printed.ipynb", cells=1)
    screen.choose("Run", "Run All Cells")
    screen.wait_until_all_ran()
    box = screen.output(0).locator("pre")
    expect(box).to_contain_text("a long line")
    height, seen, whole = box.evaluate("box => [box.clientHeight, box.clientWidth, box.scrollWidth]")
    assert height < 80
    assert whole > seen
    assert screen.findings(".jp-OutputArea-output figure") == []
    screen.shut_down()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", PRINTED)
def test_it_is_read_at_any_width_and_hinders_nobody(name: str, theme: str, page: Screen) -> None:
    shown = PRINTED[name]()._repr_mimebundle_()[0]["text/html"]
    body = f"<body style='{THEMES[theme]}'><main><h1>x</h1>{shown}</main>"
    page.page.set_content(f"<html lang='en'><title>x</title>{body}</html>")
    for width in (1280, 848, 360):
        page.resize(width, 900)
        assert page.page.evaluate(SMALLEST) >= 12
        assert page.page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
        assert page.findings("main") == []
