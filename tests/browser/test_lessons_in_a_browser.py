"""Every lesson in JupyterLab, as a learner has it before the eyes: all of it runs, and all of it is drawn."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from jupyter_server import JupyterServer
from screen import Screen

WIDGET = "application/vnd.jupyter.widget-view+json"
LESSONS = sorted((Path(__file__).parent.parent.parent / "notebooks").glob("[0-9][0-9]_*.ipynb"), reverse=True)
# the last first: they take longest


def count_stored(notebook: Any) -> tuple[int, int]:
    """How many widgets, and how many images beside those that stand for a widget."""
    outputs = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    widgets = sum(WIDGET in data for data in outputs)
    return widgets, sum("image/png" in data for data in outputs) - widgets


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_every_cell_of_a_lesson_runs_and_its_pictures_are_there_also_when_it_is_opened_again(
    lesson: Path, server: JupyterServer, screen: Screen
) -> None:
    shutil.copy(lesson, server.notebooks)
    published = server.read(lesson.name)
    screen.open(server, lesson.name, cells=len(published.cells))
    screen.run_all()
    screen.wait_until_all_ran(seconds=300)
    assert screen.errors() == []
    screen.wait_until_drawn(pictures=sum(count_stored(published)))
    seen = widgets, _ = screen.widgets_and_images()
    assert not widgets or screen.findings() == []

    screen.save()
    assert count_stored(server.read(lesson.name)) == seen
    screen.shut_down()
    screen.open(server, lesson.name, cells=len(published.cells))
    screen.show_all()
    screen.wait_until_drawn(pictures=sum(seen))
    assert screen.widgets_and_images() == seen
    screen.resize(1400, 1000)
    screen.shut_down()
