"""With the package's solution put into it, each exercise of a lesson passes."""

from __future__ import annotations

import ast
import importlib
import pathlib
import pkgutil
from typing import Any

import pytest
from lesson_cells import EXERCISES
from nights import nightly

from ddp_lessons import check, train

TRAIN_MODULES = [
    importlib.import_module(found.name) for found in pkgutil.iter_modules(train.__path__, "ddp_lessons.train.")
]
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
