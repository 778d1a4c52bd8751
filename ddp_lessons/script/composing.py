"""The source of a script: docstring, imports, constants, functions, and the `main` that torchrun's ranks run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons.script import refusals
from ddp_lessons.script.beginning import Beginning, Option, beginning
from ddp_lessons.script.imports import Import, imports_needed, lies_beside, written
from ddp_lessons.script.layout import WIDTH, call
from ddp_lessons.script.notebook import Carried, Notebook, carry
from ddp_lessons.script.refusals import CannotCarry
from ddp_lessons.script.statements import Definition, Statement

_OPTIONS_SHOWN = 2
_DISTRIBUTED = Import("torch.distributed", "", "dist")


@dataclass(frozen=True)
class Script:
    text: str
    imports: str
    body: str  # everything that runs at import, with the imports
    command: str
    must_go_along: tuple[str, ...]
    bindings: dict[str, Statement]  # what it defines itself


def compose(notebook: Notebook, name: str, file: str, folder: Path, origin: str = "") -> Script:
    """The script for this function of the notebook. `folder`: where the notebook's own modules may be.

    Raises:
        CannotCarry: it needs what a script cannot contain; the message lists it all.
    """
    function = _function(notebook, name)
    carried, begun = carry(notebook, {name}, ""), beginning(notebook, name, function)
    if both := carried.refusals + begun.carried.refusals:
        raise CannotCarry(name, both)
    carried = carry(notebook, {name, *begun.carried.bindings, *begun.carried.imports}, "launch()")
    body = _laid_out(_ordered(notebook, carried))
    command = _command(begun, file)
    main = _Main(name, begun, command, carried, function)
    imports = imports_needed(carried.imports, "\n".join([body, *main.lines])) | main.imports
    if any(one.is_import and "__future__ import annotations" in one.text for one in notebook.statements):
        imports.add(Import("__future__", "annotations"))
    beside = {one.root for one in imports if one.root in notebook.files or lies_beside(one, folder)} - {"ddp_lessons"}
    is_definition = bool(body) and _ordered(notebook, carried)[0].is_definition
    parts = [
        f'"""{_sentence(function, origin)}\n\n{command}\n"""\n\n',
        written(imports, beside) + ("\n\n\n" if is_definition else "\n\n"),
        body + "\n\n\n",
        "\n".join(main.lines) + f'\n\n\nif __name__ == "__main__":\n    {main.name}()\n',
    ]
    return Script("".join(parts), written(imports, beside), body, command, tuple(sorted(beside)), carried.bindings)


def _function(notebook: Notebook, name: str) -> Statement:
    bound = notebook.binding(name)
    if bound is None:
        raise CannotCarry(name, [notebook.why_unbound(name, "")])
    if bound.is_import:
        raise CannotCarry(name, [refusals.has_a_file(name, bound)])
    node, what = bound.node, ""
    if isinstance(node, ast.ClassDef):
        what = "it is a class"
    elif isinstance(node, ast.AsyncFunctionDef):
        what = "it is a coroutine, which launch() cannot call either"
    elif not isinstance(node, ast.FunctionDef):
        value = getattr(node, "value", None)
        what = "it is a value, not a function"
        if isinstance(value, ast.Lambda):
            what = "it is a lambda"
        elif isinstance(value, ast.Call):
            what = f"it was returned by `{ast.unparse(value.func)}`, and may depend on that call's local variables"
    elif len([*node.args.posonlyargs, *node.args.args]) < 2 and node.args.vararg is None:
        what = "it does not take a rank and a world size"
    if what:
        raise CannotCarry(name, [refusals.no_plain_function(name, bound.place(name), what)])
    return bound


def _ordered(notebook: Notebook, carried: Carried) -> list[Statement]:
    """Constants first, then the order of the notebook, but each after what it needs at import."""
    begun: set[Statement] = set()
    placed: list[Statement] = []
    home = {**carried.bindings}

    def behind(names: frozenset[str]) -> set[Statement]:
        """Everything that these names need, directly or not."""
        found: set[Statement] = set()
        todo = [home[name] for name in names if name in home]
        while todo:
            if (one := todo.pop()) not in found:
                found.add(one)
                todo += [home[name] for name in one.uses if name in home]
        return found

    def key(one: Statement) -> tuple[bool, int]:
        return one.is_definition or any(other.is_definition for other in behind(one.at_once)), one.position

    def place(one: Statement) -> None:
        if one in begun:
            return
        begun.add(one)
        earlier = {other for other in carried.statements if other.binds & one.binds and other.position < one.position}
        for other in sorted(behind(one.at_once) | carried.needs.get(one, set()) | earlier, key=key):
            place(other)
        placed.append(one)
        for change in carried.statements:
            if one in carried.needs.get(change, set()) and change.changes & one.binds:
                place(change)

    for one in sorted(carried.statements, key=key):
        place(one)
    return placed


def _laid_out(statements: list[Statement]) -> str:
    text = ""
    for before, one in zip([None, *statements], statements, strict=False):
        if before is None:
            gap = ""
        elif before.is_definition or one.is_definition:
            gap = "\n\n\n"
        else:
            gap = "\n" if "\n" not in before.text + one.text or _touch(before, one) else "\n\n"
        text += gap + one.text
    return text


def _touch(before: Statement, one: Statement) -> bool:
    return before.cell is one.cell and before.node.end_lineno == one.line - 1


def _sentence(function: Statement, origin: str) -> str:
    assert isinstance(function.node, Definition)
    own = (ast.get_docstring(function.node) or "").partition("\n")[0]
    plain = f"Run {function.node.name}{f' of {origin}' if origin else ''} on every rank."
    return plain if not own or '"' in own or "\\" in own else own


def _command(begun: Beginning, file: str) -> str:
    command = f"torchrun --standalone --nproc-per-node={begun.world_size} {file}"
    shown = [one for one in begun.options if not one.default]
    shown += [one for one in begun.options if one.default and one.type != "bool"][:_OPTIONS_SHOWN]
    for one in shown:
        value = one.example if one.default else one.name.upper()
        word = f" {one.flag}={value}"
        if not one.default or (
            len(command + word) <= WIDTH and value.isprintable() and not set(value) & set(" \"'\\$`*")
        ):
            command += word
    return command


class _Main:
    """The lines of `main`, its name, and its imports."""

    def __init__(self, name: str, begun: Beginning, command: str, carried: Carried, function: Statement) -> None:
        taken = {*carried.bindings, *carried.imports}
        self.name, self._asked, self._parser, self._answer = (
            free if free not in taken else f"{free}_of_script" for free in ("main", "asked", "parser", "answer")
        )
        texts = [one.text for one in carried.imports.get("dist", [])]
        is_free = "dist" not in taken or any(
            re.search(r"torch(\.| import )distributed as dist", text) for text in texts
        )
        self._dist = "dist" if is_free else "torch.distributed"
        self._begun, self._command, self._function = begun, command, name
        self.imports = {Import("os")} | ({Import("argparse")} if begun.options else set())
        if not is_free:
            self.imports.add(Import("torch.distributed"))
        elif "dist" not in taken:
            self.imports.add(_DISTRIBUTED)
        self.lines = [f"def {self.name}() -> None:", *self._reads(), *self._runs()]

    def _reads(self) -> Iterator[str]:
        options, text = self._begun.options, f"RANK is not set. Start it with: {self._command}"
        if len(text) > WIDTH - 30:
            text = f"RANK is not set. Start it with: {self._command.partition('.py')[0]}.py"
        if options:
            yield f"    {self._parser} = argparse.ArgumentParser(description=__doc__)"
            for one in options:
                yield from call(f"{self._parser}.add_argument(", [*_words(one)], 4)
            yield f"    {self._asked} = {self._parser}.parse_args()"
        yield '    if "RANK" not in os.environ:'
        yield from call(f"{self._parser}.error(" if options else "raise SystemExit(", [_quoted(text)], 8)

    def _runs(self) -> Iterator[str]:
        dist, joins = self._dist, self._begun.joins
        rank, size = f"{dist}.get_rank()", f"{dist}.get_world_size()"
        if joins:
            yield f"    {dist}.init_process_group({_quoted(self._begun.backend)})"
        else:
            yield '    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])'
            rank, size = "rank", "world_size"
        yield "    try:"
        given = [one.written(self._asked, size) for one in self._begun.arguments]
        yield from call(f"{self._answer} = {self._function}(", [rank, size, *given], 8)
        yield f"        if {self._answer} is not None:"
        shown = f'f"rank {{{rank}}}: {{{self._answer}}}\\n"'
        yield "            # one write, so that the lines of the ranks do not mix"
        yield f'            print({shown}, end="", flush=True)'
        yield "    finally:"
        if joins:
            yield f"        {dist}.destroy_process_group()"
        else:
            yield f"        if {dist}.is_initialized():"
            yield f"            {dist}.destroy_process_group()"


def _words(option: Option) -> Iterator[str]:
    yield f'"{option.flag}"'
    yield "action=argparse.BooleanOptionalAction" if option.type == "bool" else f"type={option.type}"
    yield f"default={option.default}" if option.default else "required=True"
    if option.flag != f"--{option.name.replace('_', '-')}":
        yield f'dest="{option.name}"'
    if option.default:
        yield 'help="default: %(default)s"'


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
