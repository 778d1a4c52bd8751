"""Calls with a different result in every process: a script must not contain them if the ranks have to agree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ddp_lessons.script.statements import Statement, run_here

_OF_THE_PROCESS = set(
    "TCPStore HashStore TemporaryDirectory NamedTemporaryFile mkdtemp mkstemp create_server socket Popen free_port "
    "getpid uuid4 perf_counter monotonic urandom token_hex Lock Event Queue Thread Process".split()
)
_CLOCKS = {"time.time", "datetime.now", "datetime.today", "date.today"}
_DRAWING = set(
    "rand randn randint randperm normal rand_like randn_like randint_like multinomial bernoulli shuffle sample choice "
    "choices random uniform gauss normal_ uniform_ kaiming_uniform_ xavier_uniform_ random_split".split()
)
_LAYERS = re.compile(
    r"(Lazy)?(Linear|Bilinear|Conv\w+|Embedding\w*|LSTM\w*|GRU\w*|RNN\w*|MultiheadAttention|Transformer\w*)"
)
_SEEDING = {"manual_seed", "seed", "manual_seed_all"}


def calls(node: ast.AST, everywhere: bool = False) -> Iterator[tuple[str, ast.Call]]:
    """The calls of a statement by dotted name; `everywhere`: including those in function bodies."""
    for one in ast.walk(node) if everywhere else run_here(node):
        if isinstance(one, ast.Call) and isinstance(one.func, (ast.Name, ast.Attribute)):
            yield ast.unparse(one.func), one


def is_seed(statement: Statement) -> bool:
    node = statement.node
    return isinstance(node, ast.Expr) and any(_last(name) in _SEEDING for name, _ in calls(node))


def of_the_process(node: ast.AST, everywhere: bool = False) -> str:
    """The first call whose result only its own process can use; empty: none."""
    found = (name for name, _ in calls(node, everywhere))
    return next((name for name in found if _last(name) in _OF_THE_PROCESS or name in _CLOCKS), "")


def draws(node: ast.AST, everywhere: bool = False) -> str:
    """The first random call in a statement that does not set a seed itself; empty: none."""
    made = list(calls(node, everywhere))
    if any(_last(name) in _SEEDING for name, _ in made):
        return ""
    free = (name for name, call in made if not any(word.arg == "generator" for word in call.keywords))
    return next((name for name in free if _last(name) in _DRAWING or _LAYERS.fullmatch(_last(name))), "")


def _last(name: str) -> str:
    return name.rpartition(".")[2]
