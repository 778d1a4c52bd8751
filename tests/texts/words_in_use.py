"""Which words of a file are in use: in code that runs, not in a comment, a docstring or a function that nothing calls.

The exercises of a lesson count as little: in the stored run nobody has solved them.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


@functools.cache
def code_of(file: Path) -> str:
    """The code of a file that has words in use."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        return "\n".join(_in_use([statement for cell in executed_cells(file) for statement in _statements(cell)]))
    if file.suffix == ".py":
        return code_without_comments(text)
    return "\n".join(line for line in text.splitlines() if not re.match(r"\s*#(?!SBATCH|!)", line))


@functools.cache
def exercises_of(notebook: Path) -> str:
    """What a lesson leaves to its reader: its calls of `check`."""
    statements = [statement for cell in executed_cells(notebook) for statement in _statements(cell)]
    return "\n".join(_unparsed(one) for one in statements if _is_a_check(one))


@functools.cache
def outputs_of(notebook: Path) -> str:
    """All text that the stored run of a notebook shows."""
    outputs = [output for cell in executed_cells(notebook) for output in cell["outputs"]]
    return "\n".join("".join(output.get("text") or output.get("data", {}).get("text/plain", "")) for output in outputs)


def executed_cells(notebook: Path) -> list[dict[str, Any]]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code" and cell["execution_count"] is not None]


def code_without_comments(text: str) -> str:
    return _unparsed(_without_docstrings(ast.parse(textwrap.dedent(text))))


def _statements(cell: dict[str, Any]) -> list[ast.stmt]:
    return _without_docstrings(ast.parse(TransformerManager().transform_cell("".join(cell["source"])))).body


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, *_DEFINITIONS)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _in_use(statements: list[ast.stmt]) -> Iterator[str]:
    """The statements at the top, and every definition that these, or others in use, refer to."""
    definitions = [one for one in statements if isinstance(one, _DEFINITIONS)]
    waiting: list[ast.stmt] = [one for one in statements if one not in definitions and not _is_a_check(one)]
    definitions = [one for one in definitions if not _is_unsolved(one)]
    while waiting:
        code = _unparsed(_WithoutGpu().visit(waiting.pop()))
        yield code
        called = [one for one in definitions if re.search(rf"\b{one.name}\b", code)]
        waiting += called
        definitions = [one for one in definitions if one not in called]


def _is_a_check(statement: ast.stmt) -> bool:
    return ast.unparse(statement).startswith("check.")


def _is_unsolved(definition: ast.stmt) -> bool:
    return any(isinstance(node, ast.Constant) and node.value is Ellipsis for node in ast.walk(definition))


class _WithoutGpu(ast.NodeTransformer):
    """Branches that only a machine with a GPU takes are not in use in the stored run."""

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        if "cuda" not in ast.unparse(node.test):
            return node
        return node.orelse or ast.Pass()


def _unparsed(node: ast.AST) -> str:
    """As code, with the lines of its strings as lines: programs in strings are read, too."""
    return ast.unparse(node).replace("\\n", "\n")
