"""What a function needs of its notebook: the names that it uses, and, in turn, those that they use.

What only the notebook has can't be carried over: the result of a launch or of a magic, a name that no cell defines.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from dataclasses import dataclass, field

from ddp_lessons.script.statements import Statement, statements_of

_BUILTIN = (set(dir(builtins)) | {"__file__", "__name__", "__doc__"}) - {"display", "get_ipython"}  # IPython adds these
_STARTERS = {"launch", "Workers"}  # at the top of a script, each rank would start ranks of its own


class Notebook:
    """The statements that ran, and the last one that bound each name."""

    def __init__(self, cells: Iterable[str]) -> None:
        self.statements = statements_of(cells)
        self.bound = {name: one for one in self.statements for name in one.binds}

    def is_unbound(self, name: str) -> bool:
        return name not in self.bound and name not in _BUILTIN

    def only_here(self, one: Statement) -> list[str]:
        """The names because of which this value can't be computed in a script."""
        if one.is_definition:
            return []
        return sorted(name for name in one.at_once if name in _STARTERS or self.is_unbound(name))

    def made_of(self, name: str) -> list[Statement]:
        """The last statement that bound the name, what changed its value later, and the seed that it depends on."""
        last = self.bound[name]
        changes = [one for one in self.statements[last.position + 1 :] if name in one.changes]
        return [*self.since_seed(last), last, *changes]

    def since_seed(self, value: Statement) -> list[Statement]:
        """The last seed above it in its cell, and the values in between, which may have drawn random numbers."""
        above = [one for one in self.statements[: value.position] if one.cell == value.cell]
        seeds = [index for index, one in enumerate(above) if one.sets_seed]
        if not seeds or not value.is_computed:
            return []
        drawn = (one for one in above[seeds[-1] + 1 :] if one.is_assignment and one.is_computed)
        return [above[seeds[-1]], *(one for one in drawn if not self.only_here(one))]


@dataclass
class Needed:
    statements: list[Statement] = field(default_factory=list)  # without imports, each after what it needs when it runs
    imports: set[str] = field(default_factory=set)
    only_here: set[str] = field(default_factory=set)  # values that can't be computed in a script
    undefined: dict[str, str] = field(default_factory=dict)  # a name that no cell binds, and what uses it

    @property
    def todo(self) -> set[str]:
        return self.only_here | self.undefined.keys()


def needed(notebook: Notebook, asked: Iterable[str]) -> Needed:
    """Everything that these names need, directly or not."""
    found = Needed()
    carried: set[Statement] = set()
    users = dict.fromkeys(sorted(asked), "launch()")
    names = list(users)
    for name in names:  # grows
        if notebook.is_unbound(name):
            found.undefined[name] = users[name]
        elif name in notebook.bound and notebook.bound[name].is_import:
            found.imports.add(name)
        elif name in notebook.bound:
            for one in notebook.made_of(name):
                carried.add(one)
                if notebook.only_here(one):
                    found.only_here.add(name)
                    continue
                new = sorted(one.uses - users.keys())
                users |= dict.fromkeys(new, name)
                names += new
    found.statements = _ordered(notebook, carried)
    return found


def _ordered(notebook: Notebook, carried: set[Statement]) -> list[Statement]:
    """As they ran, but each after what it needs at once: a cell that ran again may have bound that later."""
    touching: dict[str, list[Statement]] = {}
    for one in sorted(carried, key=lambda one: one.position):
        for name in one.binds | one.changes:
            touching.setdefault(name, []).append(one)
    placed: list[Statement] = []
    begun: set[Statement] = set()

    def before(one: Statement) -> set[Statement]:
        found = set(notebook.since_seed(one)) & carried
        names, seen = set(one.at_once), set()
        while names:
            seen.add(name := names.pop())
            for other in touching.get(name, []):
                if other.position < one.position or name in other.binds:
                    found.add(other)
                    names |= other.uses - seen
        return found

    def place(one: Statement) -> None:
        if one not in begun:
            begun.add(one)
            for other in sorted(before(one), key=lambda one: one.position):
                place(other)
            placed.append(one)

    for one in sorted(carried, key=lambda one: one.position):
        place(one)
    return placed
