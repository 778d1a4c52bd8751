"""The statements of a notebook's cells, in the order in which they ran, and the names that each binds and needs.

Python's symtable module says which names are global. Lines that only IPython understands become calls of
`get_ipython()`, as in IPython itself, so they need a name that no script has.
"""

from __future__ import annotations

import ast
import contextlib
import json
import symtable
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_RUN_AS_THEY_ARE = ("%%time", "%%capture", "%%prun")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)


@dataclass(frozen=True, eq=False)
class Statement:
    node: ast.stmt
    cell: int
    position: int  # among all statements
    source: str  # of the whole cell
    text: str  # as in the cell, with the comment above it
    binds: frozenset[str]
    changes: frozenset[str]  # bound before: `n += 1`, `table[0] = 1`, `losses.append(1)`
    uses: frozenset[str]  # at any time
    at_once: frozenset[str]  # when it runs; the body of a function needs its names later

    @property
    def is_import(self) -> bool:
        return isinstance(self.node, (ast.Import, ast.ImportFrom))

    @property
    def is_definition(self) -> bool:
        return isinstance(self.node, _DEFINITIONS)

    @property
    def is_assignment(self) -> bool:
        return isinstance(self.node, _ASSIGNMENTS)

    @property
    def sets_seed(self) -> bool:
        call = self.node.value if isinstance(self.node, ast.Expr) else None
        return isinstance(call, ast.Call) and "seed" in ast.unparse(call.func).rpartition(".")[2]

    @property
    def is_computed(self) -> bool:
        """Does it call something? Then the value may be random, or a resource of the process."""
        return not self.is_definition and any(isinstance(one, ast.Call) for one in ast.walk(self.node))


def cells_of_file(notebook: Path) -> list[str]:
    """The code cells of a stored notebook."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def statements_of(cells: Iterable[str]) -> list[Statement]:
    found: list[Statement] = []
    for number, cell in enumerate(cells):
        source = _as_python(cell)
        with contextlib.suppress(SyntaxError):  # then the cell did not run
            body = ast.parse(source).body
            found += [_statement(node, body, number, len(found) + index, source) for index, node in enumerate(body)]
    return found


def names_used(expression: ast.expr) -> set[str]:
    """The names that an expression uses but does not bind itself."""
    found: set[str] = set()
    _collect(symtable.symtable(ast.unparse(expression), "<cell>", "eval"), found, found)
    return found


def _as_python(cell: str) -> str:
    first, _, rest = cell.lstrip("\n").partition("\n")
    if first.startswith("%%"):
        cell = rest if first.split()[0] in _RUN_AS_THEY_ARE else ""  # others run elsewhere: %%writefile, %%ranks
    from IPython.core.inputtransformer2 import TransformerManager  # loads IPython: not for every command

    text: str = TransformerManager().transform_cell(cell)
    return text


def _statement(node: ast.stmt, body: list[ast.stmt], cell: int, position: int, source: str) -> Statement:
    table = symtable.symtable(ast.unparse(node), "<cell>", "exec")
    binds = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    now: set[str] = set()
    later: set[str] = set()
    _collect(table, now, later if isinstance(node, _DEFINITIONS) else now)
    changes = set(_changed(node))
    if isinstance(node, _ASSIGNMENTS):  # `net = compile(net)` changes what an earlier statement bound
        changes |= binds & now
    return Statement(
        node=node,
        cell=cell,
        position=position,
        source=source,
        text=_text(node, body, source),
        binds=frozenset(binds - changes),
        changes=frozenset(changes),
        uses=frozenset(now | later | changes),
        at_once=frozenset(now | changes),
    )


def _collect(table: symtable.SymbolTable, now: set[str], later: set[str]) -> None:
    is_module = table.get_type() == "module"
    now |= {one.get_name() for one in table.get_symbols() if one.is_referenced() and (is_module or one.is_global())}
    for child in table.get_children():
        runs_at_once = child.get_type() == "class" or child.get_name() in ("listcomp", "setcomp", "dictcomp")
        _collect(child, now if runs_at_once else later, later)


def _changed(node: ast.AST) -> Iterator[str]:
    """The names whose values are changed in place, outside of functions and classes."""
    if isinstance(node, _DEFINITIONS):
        return
    targets: list[ast.AST] = []
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        targets = [node]
    elif isinstance(node, ast.AugAssign):
        targets = [node.target]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        targets = [node.value.func]
    for target in targets:
        while isinstance(target, (ast.Attribute, ast.Subscript)):
            target = target.value
        if isinstance(target, ast.Name):
            yield target.id
    for child in ast.iter_child_nodes(node):
        yield from _changed(child)


def _first_line(node: ast.stmt) -> int:
    return min(
        [node.lineno, *(one.lineno for one in node.decorator_list)] if isinstance(node, _DEFINITIONS) else [node.lineno]
    )


def _text(node: ast.stmt, body: list[ast.stmt], source: str) -> str:
    lines = source.split("\n")
    first, last = _first_line(node), node.end_lineno or node.lineno
    others = [(_first_line(one), one.end_lineno or one.lineno) for one in body if one is not node]
    if any(begin <= last and end >= first for begin, end in others):  # a = 1; b = 2
        return ast.unparse(node)
    above = max((end for _, end in others if end < first), default=0)
    while first - 1 > above and lines[first - 2].startswith("#"):
        first -= 1
    return "\n".join(line.rstrip() for line in lines[first - 1 : last])
