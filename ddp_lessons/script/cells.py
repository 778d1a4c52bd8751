"""The cells of a notebook as Python can read them: lines that only IPython understands are made harmless.

Every line stays where it is, so that a line's number is the one that a reader of the cell counts.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_IN_THE_NOTEBOOK = ("time", "capture", "prun")  # these run the cell as if they were not there
_LINE = re.compile(r"(\s*)[%!?]")
_ASSIGNED = re.compile(r"(\s*[\w.,\s\[\]'\"]+=\s*)[%!]\S")
_HELP = re.compile(r"(\s*)[%\w.]+\?{1,2}\s*$")


@dataclass(frozen=True)
class Cell:
    number: int  # as it stands beside the cell when the notebook is run once from its top
    source: str
    magic: str = ""  # its first line, where the rest did not run in the notebook: %%writefile train.py

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
    """Put `get_ipython()` in the place of what only IPython runs: who needs it is refused by that name."""
    if _is_python(source):  # then a line that begins with % is within a text or a sum
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
