"""The `main` of a script: its options, and the call of the function with the values of the notebook's launch()."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ddp_lessons.script.needed import Notebook, needed
from ddp_lessons.script.statements import Statement, names_used

_LITERALS = (bool, int, float, str)
_OPTIONS_SHOWN = 2
_WIDTH = 120


@dataclass(frozen=True)
class Argument:
    """What is passed for a parameter."""

    parameter: str
    text: str = ""  # empty: no launch() in a cell says what
    literal: bool | int | float | str | None = None
    type: str = ""  # of a literal, which becomes an option; others are passed as they are written

    @property
    def flag(self) -> str:
        return f"--{self.parameter.replace('_', '-')}"


@dataclass(frozen=True)
class Call:
    """How the notebook calls the function."""

    function: str
    arguments: list[Argument]
    names: set[str]  # what the arguments need
    ranks: int
    size: str  # the name of the world size in the arguments
    backend: str
    joins: bool  # false: the function joins the process group itself
    varying: int  # how many arguments differ from one iteration of a loop to the next

    @property
    def options(self) -> list[Argument]:
        return [one for one in self.arguments if one.type]

    @property
    def unknown(self) -> list[str]:
        return [one.parameter for one in self.arguments if not one.text]

    def command(self, file: str) -> str:
        """How to start the script, with an example of its options."""
        numbers = [one for one in self.options if one.type in ("int", "float")][:_OPTIONS_SHOWN]
        values = "".join(f" {one.flag}={one.literal}" for one in numbers)
        return f"{self.start(file)}{values}"

    def start(self, file: str) -> str:
        return f"torchrun --standalone --nproc-per-node={self.ranks} {file}"


def call_of(notebook: Notebook, name: str) -> Call:
    """As in the last launch() of the notebook, or in the last of those that leave the fewest gaps and choices."""
    function = notebook.bound[name]
    launches = [*_launches(notebook, name)][::-1] or [(function, ast.Call(ast.Name("launch"), [], []))]
    calls = [_call(notebook, name, at, launch) for at, launch in launches]
    return min(calls, key=lambda one: len(one.unknown) + len(needed(notebook, one.names).todo) + one.varying)


def _launches(notebook: Notebook, name: str) -> Iterator[tuple[Statement, ast.Call]]:
    for one in notebook.statements:
        if one.is_definition:  # its launch() has arguments that only a call of the function knows
            continue
        for node in ast.walk(one.node):
            if isinstance(node, ast.Call) and ast.unparse(node).startswith((f"launch({name},", f"launch({name})")):
                yield one, node


def _call(notebook: Notebook, name: str, at: Statement, launch: ast.Call) -> Call:
    words = {word.arg: word.value for word in launch.keywords if word.arg}
    size = words.get("world_size", launch.args[1] if len(launch.args) > 1 else None)
    size_name = size.id if isinstance(size, ast.Name) else "world_size"
    ranks, backend = _literal(notebook, size), _literal(notebook, words.get("backend"))
    turns = _turns(at.node)
    given = [] if any(isinstance(one, ast.Starred) for one in launch.args) else launch.args[2:]
    function = notebook.bound[name]
    arguments = []
    names: set[str] = set()
    varying = 0
    for parameter, default in _further(function.node):
        value = given.pop(0) if given else None
        if value is not None and names_used(value) & turns.keys() - {size_name}:
            value = turns.get(value.id) if isinstance(value, ast.Name) else None
            varying += 1
        if value is None and default is None:
            arguments.append(Argument(parameter))
            continue
        shown = value or default
        assert shown is not None
        uses = names_used(shown)
        literal = None if size_name in uses else _literal(notebook, shown)
        if value is None and literal is None:
            continue  # the function has its own default
        # `rate=0.1` says more about the type than the 1 that was passed
        kind = float if isinstance(_literal(notebook, default), float) else type(literal)
        text = ast.get_source_segment((at if value else function).source, shown) or ""
        arguments.append(Argument(parameter, text, literal, "" if literal is None else kind.__name__))
        names |= uses - {size_name}
    return Call(
        function=name,
        arguments=arguments,
        names=names,
        ranks=ranks if type(ranks) is int else 2,
        size=size_name,
        backend=str(backend or "gloo"),
        joins=_literal(notebook, words.get("join")) is not False,
        varying=varying,
    )


def _further(function: ast.stmt) -> list[tuple[str, ast.expr | None]]:
    """The parameters after rank and world_size, and their defaults."""
    assert isinstance(function, ast.FunctionDef)
    of = function.args
    parameters = [*of.posonlyargs, *of.args, *of.kwonlyargs]
    defaults = [*of.defaults, *of.kw_defaults]
    defaults = [*[None] * (len(parameters) - len(defaults)), *defaults]
    return [(parameter.arg, default) for parameter, default in zip(parameters, defaults, strict=True)][2:]


def _literal(notebook: Notebook, value: ast.expr | None) -> bool | int | float | str | None:
    """The number or string that is written there, or in the statement that binds the name."""
    if isinstance(value, ast.Name) and value.id in notebook.bound:
        value = getattr(notebook.bound[value.id].node, "value", None)
    try:
        known = ast.literal_eval(value) if value is not None else None
    except ValueError:
        return None
    return known if isinstance(known, _LITERALS) else None


def _turns(statement: ast.stmt) -> dict[str, ast.expr | None]:
    """The names that loops bind, and what they stand for in the first iteration, if it is written there."""
    found: dict[str, ast.expr | None] = {}
    for node in ast.walk(statement):
        if isinstance(node, (ast.For, ast.comprehension)):
            found |= {one.id: None for one in ast.walk(node.target) if isinstance(one, ast.Name)}
            if isinstance(node.target, ast.Name) and isinstance(node.iter, (ast.Tuple, ast.List)):
                found[node.target.id] = next(iter(node.iter.elts), None)
    return found


def main_of(call: Call, file: str, taken: set[str]) -> str:
    """The source of `main`, and of its start. Names that the script needs for something else are not used."""
    own = ("main", "parser", "options", "answer", "rank")
    main, parser, options, answer, rank = (name if name not in taken else f"{name}_of_script" for name in own)
    lines = [f"def {main}() -> None:", f"    {parser} = argparse.ArgumentParser(description=__doc__)"]
    for one in call.options:
        kind = "action=argparse.BooleanOptionalAction" if one.type == "bool" else f"type={one.type}"
        shown = 'help="default: %(default)s"'
        lines += _wrapped(4, f"{parser}.add_argument", f'"{one.flag}", {kind}, default={one.text}, {shown}')
    lines += [
        f"    {options} = {parser}.parse_args()" if call.options else f"    {parser}.parse_args()",
        '    if "RANK" not in os.environ:',
        *_wrapped(8, f"{parser}.error", f'"RANK is not set. Start it with: {call.start(file)}"'),
    ]
    if call.joins:
        lines.append(f'    dist.init_process_group("{call.backend}")')
        lines.append(f"    {rank}, {call.size} = dist.get_rank(), dist.get_world_size()")
    else:
        lines.append(f'    {rank}, {call.size} = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])')
    lines += [f"    {one} = None  # TODO: no launch() in the notebook passes a fixed value" for one in call.unknown]
    arguments = [
        f"{one.parameter}={f'{options}.{one.parameter}' if one.type else one.text or one.parameter}"
        for one in call.arguments
    ]
    lines.append("    try:")
    if arguments:
        lines.append(f"        {answer} = {call.function}(")
        lines += [f"            {one}," for one in (rank, call.size, *arguments)]
        lines.append("        )")
    else:
        lines.append(f"        {answer} = {call.function}({rank}, {call.size})")
    lines += [
        f"        if {answer} is not None:",
        "            # one write, so that the lines of the ranks do not mix",
        f'            print(f"rank {{{rank}}}: {{{answer}}}\\n", end="", flush=True)',
        "    finally:",
        "        if dist.is_initialized():",
        "            dist.destroy_process_group()",
        "",
        "",
        'if __name__ == "__main__":',
        f"    {main}()",
    ]
    return "\n".join(lines)


def _wrapped(indent: int, function: str, arguments: str) -> list[str]:
    line = f"{' ' * indent}{function}({arguments})"
    if len(line) <= _WIDTH:
        return [line]
    return [f"{' ' * indent}{function}(", f"{' ' * indent}    {arguments}", f"{' ' * indent})"]
