"""The text of a script: docstring, imports, what the function needs, and a `main` for the ranks of torchrun."""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons.script.needed import Notebook, needed
from ddp_lessons.script.script_call import call_of, main_of
from ddp_lessons.script.statements import Statement


class NoSuchFunction(Exception):
    """The notebook has no function of that name that launch() could call."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


@dataclass(frozen=True)
class Script:
    text: str
    command: str
    todo: list[str]  # the names that could not be carried over; their lines have a TODO
    computed: list[str]  # the names whose values every rank computes itself
    own_modules: list[str]  # from the notebook's folder


@dataclass(frozen=True)
class Import:
    module: str
    name: str = ""  # of `from module import name`; empty: `import module`
    alias: str = ""

    @property
    def root(self) -> str:
        return self.module.partition(".")[0]

    @property
    def binds(self) -> str:
        return self.alias or self.name or self.root

    def __str__(self) -> str:
        return f"{self.name or self.module} as {self.alias}" if self.alias else self.name or self.module


def compose(cells: list[str], name: str, file: str, folder: Path, origin: str = "") -> Script:
    """The script for this function. `folder`: where the notebook's own modules may be."""
    notebook = Notebook(cells)
    function = _function(notebook, name)
    call = call_of(notebook, name)
    found = needed(notebook, {name, *call.names})
    imports = _imports(notebook, found.imports)
    imports |= {Import("argparse"), Import("os"), Import("torch.distributed", "", "dist")}
    own = {
        one.root
        for one in imports
        if (folder / f"{one.root}.py").exists() or (folder / one.root / "__init__.py").exists()
    }
    values = [one for one in found.statements if not one.is_definition and not notebook.only_here(one)]
    computed = {name for one in values if one.is_computed and not notebook.since_seed(one) for name in one.binds}
    taken = {bound for one in found.statements for bound in one.binds} | found.imports
    parts = [
        f'"""{_sentence(function, origin)}\n\n{call.command(file)}\n"""\n\n{_written(imports, own)}',
        "\n".join(f"# TODO: no cell defines `{name}`, which `{user}` uses" for name, user in found.undefined.items()),
        *_paragraphs(notebook, found.statements),
        main_of(call, file, taken),
    ]
    return Script(
        text="\n\n\n".join(part for part in parts if part) + "\n",
        command=call.command(file),
        todo=sorted(found.todo.union(call.unknown)),
        computed=sorted(computed),
        own_modules=sorted(own - {"ddp_lessons"}),
    )


def _function(notebook: Notebook, name: str) -> ast.FunctionDef:
    node = notebook.bound[name].node if name in notebook.bound else None
    if isinstance(node, ast.FunctionDef) and len([*node.args.posonlyargs, *node.args.args]) >= 2:
        return node
    raise NoSuchFunction(
        f"no cell defines a function {name}(rank, world_size, ...), so nothing was written. "
        f"Next: define it with `def {name}(rank, world_size):` at the top level of a cell."
    )


def _sentence(function: ast.FunctionDef, origin: str) -> str:
    own = (ast.get_docstring(function) or "").partition("\n")[0]
    plain = f"Run {function.name}{f' from {origin}' if origin else ''} on every rank."
    return plain if not own or '"' in own or "\\" in own else own


def _paragraphs(notebook: Notebook, statements: list[Statement]) -> Iterator[str]:
    """A definition, or values that follow each other."""
    for _, group in itertools.groupby(statements, key=lambda one: one.position if one.is_definition else -1):
        yield "\n".join(_text(notebook, one) for one in group)


def _text(notebook: Notebook, one: Statement) -> str:
    only_here = notebook.only_here(one)
    if not only_here:
        return one.text
    why = f"# TODO: this needs `{only_here[0]}`, which only the notebook has; fill in its value"
    return "\n# ".join([why, *one.text.split("\n")])


def _imports(notebook: Notebook, names: set[str]) -> set[Import]:
    """For each name the last import that bound it; `import a` and `import a.b` bind the same name, so both are kept."""
    found: set[Import] = set()
    for name in names:
        bound = [one for statement in notebook.statements for one in _of(statement) if one.binds == name]
        is_plain = not bound[-1].name and not bound[-1].alias
        found |= {one for one in bound if not one.name and not one.alias} if is_plain else {bound[-1]}
    return found


def _of(statement: Statement) -> list[Import]:
    node = statement.node
    if isinstance(node, ast.ImportFrom):
        return [Import("." * node.level + (node.module or ""), one.name, one.asname or "") for one in node.names]
    if isinstance(node, ast.Import):
        return [Import(one.name, "", one.asname or "") for one in node.names]
    return []


def _written(imports: set[Import], own: set[str]) -> str:
    """In sections: the standard library, other packages, and the notebook's own modules."""
    sections: dict[int, list[Import]] = {}
    for one in imports:
        section = 0 if one.root in sys.stdlib_module_names else 2 if one.root in {*own, "ddp_lessons"} else 1
        sections.setdefault(section, []).append(one)
    return "\n\n".join("\n".join(_lines(sections[number])) for number in sorted(sections))


def _lines(imports: list[Import]) -> list[str]:
    lines = sorted(f"import {one}" for one in imports if not one.name)
    for module in sorted({one.module for one in imports if one.name}):
        names = [one for one in imports if one.name and one.module == module]
        names.sort(key=lambda one: (not one.name.isupper(), one.name[0].islower(), one.name))  # as isort does
        lines.append(f"from {module} import {', '.join(map(str, names))}")
    return lines
