"""The cells of a notebook as Python source: lines that only IPython understands are replaced.

Every line keeps its place, so line numbers are those of the cell.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_IN_THE_NOTEBOOK = ("time", "capture", "prun")  # these run the cell unchanged
_LINE = re.compile(r"(\s*)[%!?]")
_ASSIGNED = re.compile(r"(\s*[\w.,\s\[\]'\"]+=\s*)[%!]\S")
_HELP = re.compile(r"(\s*)[%\w.]+\?{1,2}\s*$")


@dataclass(frozen=True)
class Cell:
    number: int  # the execution number when the notebook is run once from the top
    source: str
    magic: str = ""  # its first line, if the rest did not run in the notebook: %%writefile train.py

    @property
    def lines(self) -> list[str]:
        return self.source.split("\n")

    def where(self, line: int) -> str:
        return f"cell {self.number}, line {line}"


def read_cell(number: int, source: str) -> Cell:
    first, _, rest = source.partition("\n")
    if not first.startswith("%%"):
        return Cell(number, without_magics(source))
    if first[2:].split(" ")[0] in _IN_THE_NOTEBOOK:
        return Cell(number, "\n" + without_magics(rest))
    return Cell(number, "\n" + rest, magic=first.strip())


def cells_of_file(notebook: Path) -> list[Cell]:
    """The code cells of a stored notebook, numbered from 1."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    found: Iterable[object] = (cell["source"] for cell in content["cells"] if cell["cell_type"] == "code")
    texts = ("".join(source) if isinstance(source, list) else str(source) for source in found)
    return [read_cell(number, text) for number, text in enumerate(texts, 1)]


def without_magics(source: str) -> str:
    """Replace what only IPython runs by `get_ipython()`: code that needs it is refused by that name."""
    if _is_python(source):  # then a line that starts with % is part of a string or an expression
        return source
    lines, goes_on = [], False
    for line in source.split("\n"):
        if goes_on or (match := _LINE.match(line) or _HELP.match(line)):
            indent = re.match(r"\s*", line)[0] if goes_on else match[1]  # type: ignore[index]
            lines.append(f"{indent}get_ipython()")
            goes_on = line.endswith("\\")
        elif match := _ASSIGNED.match(line):
            lines.append(f"{match[1]}get_ipython()")
            goes_on = line.endswith("\\")
        else:
            lines.append(line)
    return "\n".join(lines)


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True
