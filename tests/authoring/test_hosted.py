"""Lessons for Colab and Kaggle: one cell more, no outputs, and links that lead out of the notebook."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import types
from pathlib import Path

import nbformat
import pytest
from nights import nightly

from authoring import hosted
from ddp_lessons import __version__

PROJECT = Path(__file__).parents[2]
LESSONS = sorted((PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
ADDRESS = "https://github.com/anna/ddp-lessons"


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.name[:2])
def test_a_form_is_the_lesson_with_one_cell_that_installs_and_no_link_that_a_host_cannot_follow(lesson: Path) -> None:
    form = nbformat.reads(hosted.hosted_form(lesson, ADDRESS), as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(form)
    stored = nbformat.read(lesson, as_version=4)  # type: ignore[no-untyped-call]
    assert [cell.id for cell in form.cells] == [stored.cells[0].id, "install", *(cell.id for cell in stored.cells[1:])]
    assert not any(cell.get("outputs") for cell in form.cells)
    assert [c.source for c in form.cells if c.cell_type == "code"][1:] == [
        c.source for c in stored.cells if c.cell_type == "code"
    ]
    text = "\n".join(cell.source for cell in form.cells if cell.cell_type == "markdown")
    inside = re.findall(rf"\]\({re.escape(ADDRESS)}/blob/main/([^)#]+)", text)
    assert inside
    assert all((PROJECT / name).is_file() for name in inside)
    assert not re.findall(r"\]\((?!https?:|#)", text)


def test_the_address_is_read_from_pyproject_and_its_last_slash_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[project]\n[project.urls]\nRepository = "{ADDRESS}/"\n')
    assert hosted.repository(tmp_path) == ADDRESS
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    assert hosted.repository(tmp_path) is None


def test_the_links_open_the_branch_with_the_forms_and_without_an_address_there_are_none() -> None:
    assert hosted.links(None, "00_first.ipynb") == {}
    colab, kaggle = hosted.links(ADDRESS, "00_first.ipynb").values()
    assert colab == "https://colab.research.google.com/github/anna/ddp-lessons/blob/hosted/00_first.ipynb"
    assert kaggle.endswith("?src=https://github.com/anna/ddp-lessons/blob/hosted/00_first.ipynb")


def test_a_page_of_the_site_has_the_links_of_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROJECT / "site"))
    from lesson_pages import page_of

    stored = nbformat.read(LESSONS[1], as_version=4)  # type: ignore[no-untyped-call]
    assert "[Open in Colab](https://colab." in page_of(stored, LESSONS[1].name, ADDRESS).cells[0].source


@pytest.mark.parametrize("is_there", [True, False])
def test_the_first_cell_installs_only_what_is_missing_and_asks_for_no_restart(
    is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from IPython.testing.globalipapp import get_ipython, start_ipython

    shell = start_ipython() or get_ipython()
    ran: list[str] = []
    monkeypatch.setattr(shell, "system", ran.append)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: types.ModuleType(name) if is_there else None)
    assert shell.run_cell(hosted.INSTALL).success
    install = f"{sys.executable} -m pip install --quiet ddp-lessons=={__version__}"
    assert list(map(shell.var_expand, ran)) == ([] if is_there else [install])


@nightly
def test_the_command_writes_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text((PROJECT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / LESSONS[0].name).write_bytes(LESSONS[0].read_bytes())
    command = [sys.executable, "-c", "from authoring.__main__ import main; main(['hosted'])"]
    subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(PROJECT)}, check=True)
    written = json.loads((tmp_path / "build" / "hosted" / LESSONS[0].name).read_text(encoding="utf-8"))
    assert written["cells"][1]["id"] == "install"
