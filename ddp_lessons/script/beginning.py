"""How a function is started: its other parameters, and the values that the notebook's launch() passed for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ddp_lessons.script import refusals, suspects
from ddp_lessons.script.notebook import Carried, Notebook, carry, first_sign
from ddp_lessons.script.refusals import Refusal
from ddp_lessons.script.statements import Statement, names_used, run_here

_TYPES = ("int", "float", "str", "bool")
_RANKS_AT_FIRST = 2
WORLD_SIZE = "__world_size__"  # a placeholder in an argument for the world size of torchrun


@dataclass(frozen=True)
class Option:
    """A parameter that is set on the command line."""

    name: str
    type: str
    default: str = ""  # as Python source; empty: the option is required
    example: str = ""

    @property
    def flag(self) -> str:
        return f"--{self.name.strip('_').replace('_', '-')}"


@dataclass(frozen=True)
class Given:
    """An argument of the call: an expression of the notebook, or an option of the command line."""

    text: str = ""
    option: Option | None = None
    word: str = ""  # "seed=" if it must be passed by name

    def written(self, asked: str, world_size: str) -> str:
        text = f"{asked}.{self.option.name}" if self.option else self.text.replace(WORLD_SIZE, world_size)
        return self.word + text


@dataclass(frozen=True)
class Beginning:
    arguments: tuple[Given, ...]
    world_size: int
    backend: str
    joins: bool  # false: the function joins the process group itself
    carried: Carried  # what the arguments need

    @property
    def options(self) -> list[Option]:
        return [one.option for one in self.arguments if one.option]


@dataclass(frozen=True)
class _Launch:
    statement: Statement
    world_size: ast.expr | None
    arguments: list[ast.expr]
    words: dict[str, ast.expr]


def beginning(notebook: Notebook, name: str, function: Statement) -> Beginning:
    """As in the last launch() whose arguments can be copied; others are in `carried.refusals`."""
    launches: Sequence[_Launch | None] = [*_launches(notebook, name)][::-1]
    tried = [_begin(notebook, name, function, launch) for launch in launches or [None]]
    return next((one for one in tried if not one.carried.refusals), tried[0])


def _launches(notebook: Notebook, name: str) -> Iterator[_Launch]:
    for statement in notebook.statements:
        for node in run_here(statement.node):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
                continue
            if notebook.is_starter(node.func.id) and ast.unparse(node.args[0]) == name:
                words = {word.arg: word.value for word in node.keywords if word.arg}
                size = words.get("world_size", node.args[1] if len(node.args) > 1 else None)
                yield _Launch(statement, size, node.args[2:], words)


def _begin(notebook: Notebook, name: str, function: Statement, launch: _Launch | None) -> Beginning:
    node = function.node
    assert isinstance(node, ast.FunctionDef)
    arguments: list[Given] = []
    found: list[Refusal] = []
    needed: set[str] = set()
    handed = list(launch.arguments) if launch else []
    own = _Values(notebook, launch)
    skipped = False
    for parameter, default, is_word in _further(node.args):
        given = handed.pop(0) if handed and not is_word else None
        if isinstance(given, ast.Starred):
            assert launch is not None
            found.append(refusals.another_in_each_turn(name, launch.statement, ast.unparse(given)))
            break
        option = own.option(parameter, given, default)
        by_name = f"{parameter.arg}=" if skipped or is_word else ""
        if option is not None:
            arguments.append(Given(option=option, word=by_name))
            needed |= {option.default} if option.default.isidentifier() else set()
        elif given is not None:
            arguments.append(Given(own.text(given), word=by_name))
            needed |= own.needs(given)
            found += own.refused(name, given)
        elif default is None:
            found.append(refusals.without_a_value(name, function, parameter.arg))
        else:
            skipped = True
    carried = carry(notebook, needed - {"True", "False"}, "launch()") if not found else Carried()
    carried.refusals += found
    return Beginning(tuple(arguments), own.world_size(), own.word("backend", "gloo"), own.joins(), carried)


def _further(arguments: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None, bool]]:
    """The parameters after rank and world_size, their defaults, and whether they are keyword-only."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    yield from ((one, default, False) for one, default in [*zip(plain, defaults, strict=True)][2:])
    yield from ((one, default, True) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))


class _Values:
    """The expressions of a launch() in a cell, if they can be read without running it."""

    def __init__(self, notebook: Notebook, launch: _Launch | None) -> None:
        self._notebook = notebook
        self._launch = launch
        self._turns = dict(_names_of_turns(launch.statement.node)) if launch else {}

    def option(self, parameter: ast.arg, given: ast.expr | None, default: ast.expr | None) -> Option | None:
        """What the command line can pass: a number, a string, a boolean."""
        value = given if given is not None else default
        if isinstance(value, ast.Name) and self._turns.get(value.id) is not None:
            value = self._turns[value.id]  # of the first iteration; the command line can set others
        known = self.scalar(value) if value is not None else None
        if value is not None and known is None:
            return None
        type_ = ast.unparse(parameter.annotation).strip("'\"") if parameter.annotation else ""
        if type_ not in _TYPES:
            kinds = {
                type(one).__name__ for one in (known, self.scalar(default) if default else None) if one is not None
            }
            type_ = "float" if kinds == {"int", "float"} else (sorted(kinds) or [""])[0]
        if not type_ or (known is None and value is not None):
            return None
        return Option(parameter.arg, type_, self.text(value) if value is not None else "", str(known))

    def scalar(self, value: ast.expr) -> int | float | str | bool | None:
        """The number or string written there, or in the only statement that assigns it."""
        if isinstance(value, ast.Name) and value.id not in self._turns:
            bound = self._notebook.binding(value.id)
            node = bound.node if bound else None
            return self.scalar(node.value) if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        try:
            known = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
        return known if isinstance(known, (int, float, str)) else None

    def text(self, value: ast.expr) -> str:
        """As written, but with the world size of torchrun."""
        size = self._launch.world_size if self._launch else None
        if isinstance(size, ast.Name) and any(isinstance(n, ast.Name) and n.id == size.id for n in ast.walk(value)):
            return ast.unparse(_Renamed(size.id).visit(ast.parse(ast.unparse(value), mode="eval").body))
        text = ast.get_source_segment(self._source(value), value) or ast.unparse(value)
        return text if "\n" not in text else ast.unparse(value)

    def _source(self, value: ast.expr) -> str:
        for one in self._notebook.statements:
            if any(node is value for node in ast.walk(one.node)):
                return one.cell.source
        return ""

    def needs(self, value: ast.expr) -> set[str]:
        size = self._launch.world_size if self._launch else None
        return names_used(value) - ({size.id} if isinstance(size, ast.Name) else set())

    def refused(self, name: str, value: ast.expr) -> list[Refusal]:
        assert self._launch is not None
        at, uses = self._launch.statement, self.needs(value)
        if turning := sorted(uses & set(self._turns)):
            return [refusals.another_in_each_turn(name, at, one) for one in turning]
        text = f"the argument {ast.unparse(value)}"
        if sign := first_sign(self._notebook, value, uses, suspects.of_the_process):
            return [refusals.of_this_process(text, at, sign)]
        sign = first_sign(self._notebook, value, uses, suspects.draws)
        return [refusals.drawn_at_random(text, at, sign)] if sign else []

    def world_size(self) -> int:
        size = self._launch.world_size if self._launch else None
        known = self.scalar(size) if size is not None else None
        return known if isinstance(known, int) and not isinstance(known, bool) else _RANKS_AT_FIRST

    def word(self, name: str, otherwise: str) -> str:
        value = self._launch.words.get(name) if self._launch else None
        known = self.scalar(value) if value is not None else None
        return known if isinstance(known, str) else otherwise

    def joins(self) -> bool:
        value = self._launch.words.get("join") if self._launch else None
        return not (isinstance(value, ast.Constant) and value.value is False)


class _Renamed(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(WORLD_SIZE) if node.id == self._name else node


def _names_of_turns(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a loop changes, and their first value if it is a literal."""
    for node in run_here(statement):
        if isinstance(node, (ast.For, ast.comprehension)):
            written = node.iter.elts if isinstance(node.iter, (ast.Tuple, ast.List)) else []
            first = written[0] if written and isinstance(node.target, ast.Name) else None
            yield from ((one.id, first) for one in ast.walk(node.target) if isinstance(one, ast.Name))
