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
def test_cells_are_small(notebook: pathlib.Path) -> None:
    lengths = [len(cell.source.splitlines()) for cell in cells_of(notebook, "code")]
    assert max(lengths) <= 20
    assert sum(length <= 10 for length in lengths) >= 0.9 * len(lengths)


@every_notebook
def test_every_cell_was_run_in_order_and_each_output_shows_something_and_no_error(notebook: pathlib.Path) -> None:
    cells = cells_of(notebook, "code")
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert all(output.get("data", True) and output.output_type != "error" for output in outputs)


@every_notebook
def test_nothing_of_a_machine_or_its_kernel_is_stored(notebook: pathlib.Path) -> None:
    """Where its kernel is gone, a widget's view shows an error in the place of the picture stored beside it."""
    text = notebook.read_text(encoding="utf-8")
    marks = ("/home/", "/root/", "/tmp/", "ipykernel_", str(NOTEBOOKS[0].parent), "vnd.jupyter.widget-view+json")
    assert not [mark for mark in marks if mark in text]


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


def test_every_check_of_the_package_is_in_a_lesson() -> None:
    checked = {name for _, _, source in EXERCISES for name in re.findall(r"^check\.(\w+)\(", source, re.M)}
    assert checked >= set(check.__all__) - {"Report", "progress"} - NO_EXERCISES
    text = "".join(cell.source for notebook in NOTEBOOKS for cell in cells_of(notebook, "code"))
    assert all(f"check.{name}(" in text for name in NO_EXERCISES)


@every(EXERCISES)
def test_an_exercise_is_stored_unsolved_and_the_check_says_so(notebook: pathlib.Path, name: str, checking: str) -> None:
    cell = next(cell for cell in cells_of(notebook, "code") if cell.source == checking)
    shown = [output.data["text/plain"] for output in cell.outputs if "data" in output]
    assert any("not started yet" in text or "not right yet" in text for text in shown)  # empty, or to be repaired
