"""Lessons in JupyterLab, as a learner has them before the eyes: all of it runs, and all of it is drawn.

`make test-browser` opens the first lesson and those that draw while ranks run or have controls; `make test-all` all.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from jupyter_server import JupyterServer
from nights import by_day
from processes import eventually
from screen import WIDE, Screen

from tools.authoring.notebooks import VIEW

ALL = sorted((Path(__file__).parent.parent.parent / "notebooks").glob("[0-9][0-9]_*.ipynb"))
# what only a browser shows; of the others nbval tells as much
FIGURE = 'class="ddp-figure"'
CONTROLS = re.compile(r"show\.explore_|live=")
WITH_CONTROLS = [lesson for lesson in ALL if CONTROLS.search(lesson.read_text(encoding="utf-8"))]
LESSONS = by_day(ALL, lambda lesson: lesson in (ALL[0], *WITH_CONTROLS))


def count_stored(notebook: Any) -> tuple[int, int]:
    """How many figures and widgets that live, and how many other images."""
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    living = [data for data in shown if VIEW in data or FIGURE in data.get("text/html", "")]
    return len(living), sum(any(kind.startswith("image/") for kind in data) for data in shown if data not in living)


def count_published(notebook: Any) -> int:
    """How many there will be when it has run: a lesson is published with the pictures only."""
    return sum(count_stored(notebook))


@pytest.mark.parametrize("lesson", LESSONS[::-1], ids=lambda path: path.stem)
def test_every_cell_of_a_lesson_runs_and_its_pictures_are_there_also_when_it_is_opened_again(
    lesson: Path, server: JupyterServer, screen: Screen
) -> None:
    shutil.copy(lesson, server.notebooks)
    published = server.read(lesson.name)
    screen.open(server, lesson.name, cells=len(published.cells))
    screen.run_all()
    screen.wait_until_all_ran(seconds=300)
    assert screen.errors() == []
    screen.wait_until_drawn(pictures=count_published(published))
    seen = widgets, _ = screen.widgets_and_images()
    if widgets:  # while its width changes, a figure may have to scroll
        assert eventually(lambda: screen.findings() == []), screen.findings()

    screen.save()
    assert count_stored(server.read(lesson.name)) == seen
    screen.shut_down()
    screen.open_saved(server, lesson.name, cells=len(published.cells), pictures=sum(seen))
    assert screen.widgets_and_images() == seen
    screen.resize(*WIDE)
    screen.shut_down()
