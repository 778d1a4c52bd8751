"""The imports of a script: only the names that it needs, merged, in ruff's order."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons.script.layout import WIDTH
from ddp_lessons.script.statements import Statement


@dataclass(frozen=True)
class Import:
    module: str
    name: str = ""  # of `from module import name`; empty: `import module`
    alias: str = ""

    @property
    def root(self) -> str:
        return self.module.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.name or self.module} as {self.alias}" if self.alias else self.name or self.module


def imports_needed(needed: Mapping[str, Sequence[Statement]], code: str) -> set[Import]:
    """For each name the last import that bound it; of `import a` and `import a.b`, the one that is used."""
    found: set[Import] = set()
    for name, statements in needed.items():
        bound = [one for statement in statements for one in _of(statement) if _binds(one) == name]
        if bound[-1].name or bound[-1].alias:
            found.add(bound[-1])
            continue
        plain = [one for one in bound if not one.name and not one.alias]
        used = {one for one in plain if "." in one.module and re.search(rf"\b{re.escape(one.module)}\b", code)}
        found |= used | {one for one in plain if one.module == name} or set(plain)
    return found


def _of(statement: Statement) -> list[Import]:
    node = statement.node
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        return [Import(module, one.name, _alias(one)) for one in node.names]
    assert isinstance(node, ast.Import)
    return [Import(one.name, "", _alias(one)) for one in node.names]


def _alias(one: ast.alias) -> str:
    return one.asname if one.asname and one.asname != one.name else ""


def _binds(one: Import) -> str:
    return one.alias or one.name or one.root


def lies_beside(one: Import, folder: Path) -> bool:
    return (folder / f"{one.root}.py").exists() or (folder / one.root / "__init__.py").exists()


def written(imports: Iterable[Import], beside: set[str]) -> str:
    """The source, in its sections; `beside`: modules in the folder of the script."""
    sections: dict[int, list[Import]] = {}
    for one in imports:
        sections.setdefault(_section(one, beside), []).append(one)
    return "\n\n".join("\n".join(_lines(sections[number])) for number in sorted(sections))


def _section(one: Import, beside: set[str]) -> int:
    if one.module == "__future__":
        return 0
    if one.root in sys.stdlib_module_names:
        return 1
    return 3 if one.root == "ddp_lessons" or one.root in beside else 2


def _lines(imports: list[Import]) -> list[str]:
    plain = sorted((one for one in imports if not one.name), key=lambda one: (_natural(one.module), one.alias))
    lines = [f"import {one}" for one in plain]
    for module in sorted({one.module for one in imports if one.name}, key=_natural):
        names = [str(one) for one in sorted((one for one in imports if one.name and one.module == module), key=_rank)]
        line = f"from {module} import {', '.join(names)}"
        lines.append(
            line
            if len(line) <= WIDTH
            else "\n    ".join([f"from {module} import (", *(f"{name}," for name in names)]) + "\n)"
        )
    return lines


def _rank(one: Import) -> tuple[int, list[tuple[int, str]], str]:
    """Constants, then classes, then the rest."""
    is_constant = len(one.name) > 1 and one.name.isupper()
    return (0 if is_constant else 1 if one.name[:1].isupper() else 2), _natural(one.name), one.alias


def _natural(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", name.lower())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
