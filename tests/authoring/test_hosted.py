"""Lessons for Colab and Kaggle: one cell more, and no outputs."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import nbformat
import pytest

from ddp_lessons import __version__
from tools.authoring import hosted
from tools.authoring.__main__ import main

PROJECT = Path(__file__).parents[2]
LESSON = PROJECT / "notebooks" / "00_start_four_ranks.ipynb"


def test_a_form_is_the_lesson_without_outputs_and_with_a_cell_that_installs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notebooks").symlink_to(PROJECT / "notebooks")
    monkeypatch.chdir(tmp_path)
    assert main(["hosted"]) == 0
    assert len(list(Path("build", "hosted").iterdir())) == len(list((PROJECT / "notebooks").glob("[0-9]*.ipynb")))
    form, stored = (
        nbformat.read(place, as_version=4)  # type: ignore[no-untyped-call]
        for place in (tmp_path / "build" / "hosted" / LESSON.name, LESSON)
    )
    nbformat.validate(form)
    assert [cell.id for cell in form.cells] == [stored.cells[0].id, "install", *(cell.id for cell in stored.cells[1:])]
    assert not any(cell.get("outputs") for cell in form.cells)
    assert [cell.source for cell in form.cells[2:]] == [cell.source for cell in stored.cells[1:]]


@pytest.mark.parametrize("is_there", [True, False])
def test_the_first_cell_installs_only_what_is_missing_and_asks_for_no_restart(
    is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from IPython.testing.globalipapp import get_ipython, start_ipython

    cells = json.loads(hosted.hosted_form(LESSON))["cells"]
    shell = start_ipython() or get_ipython()
    ran: list[str] = []
    monkeypatch.setattr(shell, "system", ran.append)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: types.ModuleType(name) if is_there else None)
    assert shell.run_cell("".join(cells[1]["source"])).success
    install = f"{sys.executable} -m pip install --quiet ddp-lessons=={__version__}"
    assert list(map(shell.var_expand, ran)) == ([] if is_there else [install])
