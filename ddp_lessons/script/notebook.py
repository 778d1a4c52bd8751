"""A notebook as a history: which statement bound a name last, and what a function needs of it.

`carry` follows the names from the function on, and finds the statements to copy and those that cannot be copied.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ddp_lessons.script import refusals, suspects
from ddp_lessons.script.cells import Cell
from ddp_lessons.script.refusals import Refusal
from ddp_lessons.script.statements import Statement, statements_of

_WRITTEN = re.compile(r"^%%(?:writefile|file)\b.*?(\w+)\.py$")
_STARTERS = {"launch", "Workers"}
_OF_NOTEBOOKS = {"get_ipython", "display", "ranks", "In", "Out", "exit", "quit"}
_BUILTIN = (set(dir(builtins)) | {"__file__", "__name__", "__doc__"}) - _OF_NOTEBOOKS - {"input"}


class Notebook:
    def __init__(
        self,
        cells: Sequence[Cell],
        live: Mapping[str, object] | None = None,
        says_the_same: Callable[[Statement, object], bool] = lambda statement, value: True,
    ) -> None:
        """`live`: the current values, if known; `says_the_same`: can the value come from the statement?"""
        self.live = live
        self.statements: list[Statement] = []
        self._elsewhere: dict[str, Cell] = {}
        self._says_the_same = says_the_same
        self.files: set[str] = set()  # the modules written by cells
        for cell in cells:
            found = statements_of(cell, len(self.statements))
            if cell.magic:
                self.files |= set(_WRITTEN.findall(cell.magic))
                self._elsewhere |= {name: cell for one in found for name in one.binds}
            else:
                self.statements += found

    def binding(self, name: str) -> Statement | None:
        """The last statement that bound it and was reached when its cell ran."""
        if self.live is not None and name not in self.live:
            return None
        found = [one for one in self.statements if name in one.binds]
        if self.live is not None:
            found = [one for one in found if not one.is_definition or self._says_the_same(one, self.live[name])]
        return found[-1] if found else None

    def why_unbound(self, name: str, user: str) -> Refusal:
        if name in self._elsewhere and (self.live is None or name not in self.live):
            cell = self._elsewhere[name]
            return refusals.only_by_magic(name, cell.where(1), cell.magic)
        known = self.live is not None and name in self.live
        return refusals.in_no_cell(name, user) if known else refusals.not_defined(name, user)

    def is_starter(self, name: str) -> bool:
        """Is it this package's launch or Workers?"""
        bound = self.binding(name)
        node = bound.node if bound else None
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("ddp_lessons"):
            return False
        return any(one.name in _STARTERS and (one.asname or one.name) == name for one in node.names)

    def asks_for(self, statement: Statement) -> list[str]:
        """The names that it needs and that exist only in a notebook."""
        known = sorted(statement.uses & (_OF_NOTEBOOKS | {"input"}))
        return [*filter(self.is_starter, sorted(statement.uses)), *filter(self._is_ipythons, known)]

    def _is_ipythons(self, name: str) -> bool:
        bound = self.binding(name)
        return bound is None or (isinstance(bound.node, ast.ImportFrom) and "IPython" in (bound.node.module or ""))


@dataclass
class Carried:
    """What the script contains, and what it cannot contain."""

    statements: list[Statement] = field(default_factory=list)
    imports: dict[str, list[Statement]] = field(default_factory=dict)  # by the imported name
    refusals: list[Refusal] = field(default_factory=list)
    needs: dict[Statement, set[Statement]] = field(default_factory=dict)  # by statement, with what must come before it
    bindings: dict[str, Statement] = field(default_factory=dict)


def carry(notebook: Notebook, asked: Iterable[str], user: str) -> Carried:
    """Add everything that these names need, directly or not. `user` needs them."""
    carried = Carried()
    todo = [(name, user) for name in sorted(asked, reverse=True)]
    seen: set[str] = set()
    while todo:
        name, user = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        bound = notebook.binding(name)
        if bound is None:
            if name not in _BUILTIN:
                carried.refusals.append(notebook.why_unbound(name, user))
        elif bound.is_import:
            carried.imports[name] = [one for one in notebook.statements if one.is_import and name in one.binds]
        else:
            carried.bindings[name] = bound
            for one in [bound, *_companions(notebook, bound, name, carried)]:
                if one not in carried.statements:
                    carried.statements.append(one)
                    asks = notebook.asks_for(one)
                    if not _is_of_the_process(notebook, one):  # otherwise that is the reason given
                        carried.refusals += [refusals.only_in_a_notebook(name, one, word) for word in asks]
                    if one.is_definition or not asks:
                        todo += [(used, f"`{name}`") for used in sorted(one.uses - set(asks), reverse=True)]
    _refuse_what_is_another_on_each_rank(notebook, carried)
    return carried


def _companions(notebook: Notebook, bound: Statement, name: str, carried: Carried) -> list[Statement]:
    """Later changes in its own cell, and random draws since the seed. A change by another cell is refused."""
    found = []
    for change in notebook.statements[bound.position + 1 :]:
        if name not in change.changes or change is bound:
            continue
        if change.cell is not bound.cell:
            carried.refusals.append(refusals.changed_elsewhere(name, bound, change))
            break
        found.append(change)
        carried.needs.setdefault(change, set()).add(bound)
    return found + (_since_the_seed(notebook, bound, carried) if not bound.is_definition else [])


def _since_the_seed(notebook: Notebook, drawing: Statement, carried: Carried) -> list[Statement]:
    if not first_sign(notebook, drawing.node, drawing.uses, suspects.draws):
        return []
    chain = []
    for one in reversed(notebook.statements[: drawing.position]):
        if one.cell is not drawing.cell:
            return []  # no seed in this cell
        if suspects.is_seed(one) or (
            not one.is_definition and first_sign(notebook, one.node, one.uses, suspects.draws)
        ):
            carried.needs.setdefault(drawing, set()).add(one)
            chain.append(one)
            drawing = one
        if suspects.is_seed(one):
            return chain
    return []


def _refuse_what_is_another_on_each_rank(notebook: Notebook, carried: Carried) -> None:
    for one, name in {one: name for name, one in [*carried.bindings.items()][::-1]}.items():  # each statement once
        if one.is_definition:
            continue
        if sign := first_sign(notebook, one.node, one.uses, suspects.of_the_process):
            carried.refusals.append(refusals.of_this_process(name, one, sign))
        elif (sign := first_sign(notebook, one.node, one.uses, suspects.draws)) and not notebook.asks_for(one):
            before = carried.needs.get(one, set())
            if not any(suspects.is_seed(other) or suspects.draws(other.node) for other in before):
                carried.refusals.append(refusals.drawn_at_random(name, one, sign))


def _is_of_the_process(notebook: Notebook, one: Statement) -> bool:
    return not one.is_definition and bool(first_sign(notebook, one.node, one.uses, suspects.of_the_process))


def first_sign(notebook: Notebook, node: ast.AST, uses: Collection[str], look: Callable[[ast.AST, bool], str]) -> str:
    """In the statement itself, or in a function or class of the notebook that it calls, directly or not."""
    seen: set[ast.AST] = set()
    todo = [(node, uses)]
    while todo:
        one, used = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        if sign := look(one, one is not node):
            return sign
        called = {name.partition(".")[0] for name, _ in suspects.calls(one, one is not node)}
        found = (notebook.binding(name) for name in sorted(called & set(used)))
        todo += [(bound.node, bound.uses) for bound in found if bound is not None and bound.is_definition]
    return ""
