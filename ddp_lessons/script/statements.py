"""A statement of a cell: the names that it binds, changes and needs, and its source.

Python's symtable module says which names are global.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from dataclasses import dataclass

from ddp_lessons.script.cells import Cell

_CHANGING = set(
    "append extend insert remove pop popitem clear sort reverse update add discard setdefault appendleft step "
    "load_state_dict register_buffer register_parameter add_module register_module eval train".split()
)
_OWN_NAMES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, eq=False)
class Statement:
    cell: Cell
    node: ast.stmt
    position: int  # among all that were run
    text: str  # as in the cell, including the comment above
    binds: frozenset[str]
    changes: frozenset[str]  # in place, wherever they are bound
    uses: frozenset[str]  # at any time
    at_once: frozenset[str]  # when it is run; a function's body needs its names later

    @property
    def line(self) -> int:
        return _first_line(self.node)

    @property
    def is_definition(self) -> bool:
        return isinstance(self.node, Definition)

    @property
    def is_import(self) -> bool:
        return isinstance(self.node, (ast.Import, ast.ImportFrom))

    def place(self, name: str = "") -> str:
        """Its place in the cell; for a long statement, the line that binds the name."""
        binding = (one for one in run_here(self.node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
        line = next((one.lineno for one in binding if one.id == name), self.line)
        return f"{self.cell.where(line)}:   {self.cell.lines[line - 1].strip()}"

    @property
    def code(self) -> str:
        """Its lines in the cell, without the comments above."""
        return "\n".join(self.cell.lines[self.line - 1 : self.node.end_lineno])


def statements_of(cell: Cell, begin: int = 0) -> list[Statement]:
    """Those of a cell that is no Python: none. It did not run."""
    try:
        body = ast.parse(cell.source).body
        return [_statement(cell, node, begin + index, body) for index, node in enumerate(body)]
    except SyntaxError:
        return []


def _statement(cell: Cell, node: ast.stmt, position: int, body: list[ast.stmt]) -> Statement:
    table = symtable.symtable(ast.unparse(node), "<cell>", "exec")
    binds = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    changes = set(_changed(node))
    if isinstance(node, (ast.AugAssign, ast.Delete)):
        changes, binds = changes | binds, set()
    now: set[str] = set()
    later: set[str] = set()
    _collect(table, now, later if isinstance(node, Definition) else now)
    return Statement(
        cell=cell,
        node=node,
        position=position,
        text=_text(cell, node, body),
        binds=frozenset(binds),
        changes=frozenset(changes),
        uses=frozenset(now | later),
        at_once=frozenset(now),
    )


def names_used(expression: ast.expr) -> set[str]:
    """The names that an expression uses but does not bind itself."""
    found: set[str] = set()
    _collect(symtable.symtable(ast.unparse(expression), "<cell>", "eval"), found, found)
    return found


def _collect(table: symtable.SymbolTable, now: set[str], later: set[str]) -> None:
    is_module = table.get_type() == "module"
    now |= {one.get_name() for one in table.get_symbols() if one.is_referenced() and (is_module or one.is_global())}
    for child in table.get_children():
        is_run_at_once = child.get_type() == "class" or child.get_name() in ("listcomp", "setcomp", "dictcomp")
        _collect(child, now if is_run_at_once else later, later)


def run_here(node: ast.AST) -> Iterator[ast.AST]:
    """A statement's nodes, without the bodies of functions and classes."""
    yield node
    if not isinstance(node, _OWN_NAMES):
        for child in ast.iter_child_nodes(node):
            yield from run_here(child)


def _changed(node: ast.stmt) -> Iterator[str]:
    for one in run_here(node):
        target: ast.AST | None = None
        if isinstance(one, (ast.Attribute, ast.Subscript)) and isinstance(one.ctx, (ast.Store, ast.Del)):
            target = one
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
            name = one.func.attr
            if name in _CHANGING or (name.endswith("_") and not name.endswith("__")):
                target = one.func
        while isinstance(target, (ast.Attribute, ast.Subscript)):
            target = target.value
        if isinstance(target, ast.Name):
            yield target.id


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(one.lineno for one in decorators)])


def _text(cell: Cell, node: ast.stmt, body: list[ast.stmt]) -> str:
    first, last = _first_line(node), node.end_lineno or node.lineno
    others = [one for one in body if one is not node]
    if any(_first_line(one) <= last and (one.end_lineno or 0) >= first for one in others):  # a = 1; b = 2
        return ast.get_source_segment(cell.source, node) or ast.unparse(node)
    above = max([one.end_lineno or 0 for one in others if (one.end_lineno or 0) < first], default=0)
    while first - 1 > above and cell.lines[first - 2].startswith("#"):
        first -= 1
    return "\n".join(line.rstrip() for line in cell.lines[first - 1 : last])
