"""With the package's solution put into it, each exercise of a lesson passes."""

from __future__ import annotations

import ast
import importlib
import json
import pathlib
import pkgutil
import re
from typing import Any

import pytest
from nights import nightly

from ddp_lessons import check, train

TRAIN_MODULES = [
    importlib.import_module(found.name) for found in pkgutil.iter_modules(train.__path__, "ddp_lessons.train.")
]
NOTEBOOKS = sorted((pathlib.Path(__file__).parent.parent / "notebooks").glob("[0-9][0-9]_*.ipynb"))
NO_EXERCISES = {
    "capstone",
    "diagnosis",
    "reading",
    "replicas_agree",
}  # these judge no learner's function


def exercises_of(notebook: pathlib.Path) -> list[tuple[str, str]]:
    """The name of each exercise's function, and the text of the cell that checks it."""
    found = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        checks = re.finditer(r"^check\.(\w+)\((\w+)\)", source, re.M)
        found += [(match[2], source) for match in checks if match[1] not in NO_EXERCISES]
    return found


EXERCISES = [(notebook, *exercise) for notebook in NOTEBOOKS for exercise in exercises_of(notebook)]
every_exercise = pytest.mark.parametrize(
    ("notebook", "name", "checking"), EXERCISES, ids=[f"{notebook.stem}: {name}" for notebook, name, _ in EXERCISES]
)


@nightly
@every_exercise
def test_with_the_packages_solution_put_in_an_exercise_passes(notebook: pathlib.Path, name: str, checking: str) -> None:
    (solution,) = {getattr(module, name) for module in TRAIN_MODULES if name in vars(module)}
    names: dict[str, Any] = {"check": check, name: solution}
    *before, last = ast.parse(checking).body
    imports: list[ast.stmt] = [step for step in before if isinstance(step, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), notebook.name, "exec"), names)
    assert isinstance(last, ast.Expr)
    report = eval(compile(ast.Expression(last.value), notebook.name, "eval"), names)
    assert report.passed, report.text
