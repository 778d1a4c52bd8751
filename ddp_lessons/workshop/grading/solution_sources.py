"""The source of an exercise's solution, from train/, with the imports and definitions that it needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ddp_lessons.own_files import PACKAGE

_DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)


def solution_of(name: str) -> str:
    """A text that defines `name` and can be put into a cell.

    Raises:
        LookupError: no module of train/ defines it.
    """
    for file in sorted(Path(PACKAGE, "train").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        meanings = dict(_meanings(ast.parse(text)))
        if isinstance(meanings.get(name), _DEFINITIONS):
            return _composed(text, list(_needed(name, meanings, set())))
    raise LookupError(f"no module of train/ defines {name}")


def _meanings(module: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """The names that a module defines or imports, each with its statement."""
    for statement in module.body:
        for part in statement.body if isinstance(statement, ast.If) else [statement]:  # if TYPE_CHECKING
            if isinstance(part, ast.FunctionDef | ast.ClassDef):
                yield part.name, part
            elif isinstance(part, ast.Assign | ast.AnnAssign):
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                yield from ((target.id, part) for target in targets if isinstance(target, ast.Name))
            elif isinstance(part, ast.Import):
                yield from ((one.asname or one.name.split(".")[0], ast.Import([one])) for one in part.names)
            elif isinstance(part, ast.ImportFrom) and part.module != "__future__":
                yield from ((one.asname or one.name, ast.ImportFrom(part.module, [one], 0)) for one in part.names)


def _needed(name: str, meanings: dict[str, ast.stmt], seen: set[str]) -> Iterator[ast.stmt]:
    """The statement for `name`, after those that it uses."""
    if name in seen or name not in meanings:
        return
    seen.add(name)
    for node in ast.walk(meanings[name]):
        if isinstance(node, ast.Name):
            yield from _needed(node.id, meanings, seen)
    yield meanings[name]


def _composed(text: str, statements: list[ast.stmt]) -> str:
    names: dict[str | None, list[ast.alias]] = {}
    for one in statements:
        if isinstance(one, ast.ImportFrom):
            names.setdefault(one.module, []).extend(one.names)
    imports = [one for one in statements if isinstance(one, ast.Import)]
    together = [ast.ImportFrom(module, sorted(found, key=lambda one: one.name), 0) for module, found in names.items()]
    first = "\n".join(sorted(ast.unparse(one) for one in [*imports, *together]))
    return "\n\n\n".join([first, *(_lines(text, one) for one in statements if isinstance(one, _DEFINITIONS))]).lstrip()


def _lines(text: str, statement: ast.stmt) -> str:
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(text.splitlines()[first - 1 : statement.end_lineno])
