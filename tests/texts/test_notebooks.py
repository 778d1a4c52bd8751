"""What every lesson promises, beyond that its cells give what is stored in it: for that `make test` runs nbval."""

from __future__ import annotations

import ast
import pathlib
import re
import sys
from typing import Any

import nbformat
from every import every
from lesson_cells import EXERCISES, NO_EXERCISES, NOTEBOOKS, cells_of

from ddp_lessons import check

every_notebook = every(NOTEBOOKS, lambda path: path.stem)


def test_the_readme_lists_all_lessons_and_numbers_without_a_gap() -> None:
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \|(.*)$", readme, re.M)
    assert [int(number) for number, _ in rows] == list(range(len(rows)))
    linked = [match[1] for _, row in rows if (match := re.search(r"\(notebooks/(\S+)\)", row))]
    assert linked == [notebook.name for notebook in NOTEBOOKS]


def test_the_readme_has_the_minutes_that_each_lesson_plans() -> None:
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    said = [int(minutes) for minutes in re.findall(r"^\| \d+ \| .*? \| (\d+) \|", readme, re.M)]
    read: Any = nbformat.read
    plans = [read(notebook, as_version=4).metadata.ddp_lessons.minutes for notebook in NOTEBOOKS]
    assert said == [sum(plan.teach.values()) + sum(plan.exercise.values()) for plan in plans]


@every_notebook
def test_a_lesson_says_at_once_what_it_gives_and_needs(notebook: pathlib.Path) -> None:
    opening = cells_of(notebook, "markdown")[0].source
    assert opening.startswith("# ")
    assert all(word in opening for word in ("You will:", "You need:", "Time:"))


@every_notebook
def test_a_lesson_has_no_chores(notebook: pathlib.Path) -> None:
    said = "\n".join(cell.source for cell in cells_of(notebook, "markdown"))
    assert not re.search(r"clear\b.{0,60}output", said, re.I)
    cells = [cell.source for cell in cells_of(notebook, "code") if not cell.source.startswith("%%writefile")]
    assert not [cell for cell in cells if re.search("# *(noqa|NBVAL)", cell)]


@every_notebook
def test_a_lesson_can_be_read_in_an_hour_and_its_file_is_small(notebook: pathlib.Path) -> None:
    read: Any = nbformat.read
    minutes = read(notebook, as_version=4).metadata.ddp_lessons.minutes
    planned = sum(minutes.teach.values()) + sum(minutes.exercise.values())
    assert planned <= 60
    assert notebook.stat().st_size <= 200_000


@every_notebook
def test_a_lesson_closes_with_what_you_have_now(notebook: pathlib.Path) -> None:
    assert "What you have now" in cells_of(notebook, "markdown")[-1].source


@every_notebook
def test_cells_are_small(notebook: pathlib.Path) -> None:
    lengths = [len(cell.source.splitlines()) for cell in cells_of(notebook, "code")]
    assert max(lengths) <= 20
    assert sum(length <= 10 for length in lengths) >= 0.9 * len(lengths)


@every_notebook
def test_every_cell_was_run_in_order_and_none_stores_an_error(notebook: pathlib.Path) -> None:
    cells = cells_of(notebook, "code")
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]


@every_notebook
def test_a_notebook_on_disk_is_small(notebook: pathlib.Path) -> None:
    assert notebook.stat().st_size < 200_000


@every_notebook
def test_nothing_of_a_machine_is_stored(notebook: pathlib.Path) -> None:
    text = notebook.read_text(encoding="utf-8")
    assert not any(mark in text for mark in ("/home/", "/root/", "/tmp/", "ipykernel_", str(NOTEBOOKS[0].parent)))


@every_notebook
def test_a_notebook_imports_nothing_of_its_folder(notebook: pathlib.Path) -> None:
    codes = [cell.source for cell in cells_of(notebook, "code")]
    codes = [code for code in codes if not re.match(r"%%writefile \S+(?<!\.py)\n", code)]  # a job script is no Python
    # a file may be written in pieces, cut in the middle of a function
    pieces = [code.partition("\n")[2] for code in codes if re.match(r"%%writefile (-a )?\S+\.py\n", code)]
    codes = [code for code in codes if not code.startswith(("%%writefile", "%%patch"))] + ["\n".join(pieces)]
    sources = [re.sub(r"^[%!].*$", "", code, flags=re.M) for code in codes]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    known = {"IPython", "ddp_lessons", "ipywidgets", "matplotlib", "torch", "torchvision", *sys.stdlib_module_names}
    known |= {"mpi4py"}  # in files that a lesson writes for mpirun
    known |= {path.stem for path in (NOTEBOOKS[0].parent.parent / "scripts").glob("*.py")}  # lesson 14 says where
    files = [re.match(r"%%writefile (?:-a )?(\w+)\.py", cell.source) for cell in cells_of(notebook, "code")]
    written_before = {match[1] for match in files if match}
    assert {name.split(".")[0] for name in names} <= known | written_before


every_exercise = every(EXERCISES)


def test_every_check_of_the_package_is_in_a_lesson() -> None:
    checked = {name for _, _, source in EXERCISES for name in re.findall(r"^check\.(\w+)\(", source, re.M)}
    assert checked >= set(check.__all__) - {"Report", "progress"} - NO_EXERCISES
    text = "".join(cell.source for notebook in NOTEBOOKS for cell in cells_of(notebook, "code"))
    assert all(f"check.{name}(" in text for name in NO_EXERCISES)


@every_exercise
def test_an_exercise_is_stored_unsolved_and_the_check_says_so(notebook: pathlib.Path, name: str, checking: str) -> None:
    cell = next(cell for cell in cells_of(notebook, "code") if cell.source == checking)
    shown = [output.data["text/plain"] for output in cell.outputs if "data" in output]
    assert any("not started yet" in text or "not right yet" in text for text in shown)  # empty, or to be repaired


@every_notebook
def test_no_stored_output_waits_for_a_kernel(notebook: pathlib.Path) -> None:
    """Where its kernel is gone, a widget's view shows an error in the place of the picture stored beside it."""
    assert "application/vnd.jupyter.widget-view+json" not in notebook.read_text(encoding="utf-8")


@every_notebook
def test_every_stored_output_shows_something(notebook: pathlib.Path) -> None:
    assert all(output.get("data", True) for cell in cells_of(notebook, "code") for output in cell.outputs)
