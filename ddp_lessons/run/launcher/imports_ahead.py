"""What ranks will import when a function runs, judging by its code: import it once, before they start.

It is only a forecast: each rank imports what it misses, and the launch remembers that for the next time.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType

from ddp_lessons.run.wire.messages import HEAVY_IMPORTS

_IMPORTS_THE_COMPILER = "DistributedDataParallel"
_COMPILER = "torch._dynamo"
_MOST_LOOKED_AT = 300


def heavy_imports_of(values: Iterable[object]) -> frozenset[str]:
    """The heavy modules used by the functions among these values, or by functions that they call."""
    found: set[str] = set()
    waiting, seen = list(values), set[int]()
    while waiting and len(seen) < _MOST_LOOKED_AT:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        home = str(getattr(value, "__module__", ""))
        found.update(name for name in HEAVY_IMPORTS if f"{home}.".startswith(f"{name}."))
        if getattr(value, "__name__", "") == _IMPORTS_THE_COMPILER:
            found.add(_COMPILER)
        elif isinstance(value, FunctionType) and not home.startswith("torch."):
            names = set(_names_in(value.__code__))
            found.update({_COMPILER} if _IMPORTS_THE_COMPILER in names else ())
            waiting.extend(_named(value, names))
    return frozenset(found)


def heavy_imports_of_this_notebook() -> frozenset[str]:
    """The heavy modules used by the cells of the notebook, if Jupyter or VS Code tells its file."""
    file = str(os.environ.get("JPY_SESSION_NAME") or getattr(sys.modules["__main__"], "__vsc_ipynb_file__", ""))
    if "ipykernel" not in sys.modules or not file.endswith(".ipynb"):
        return frozenset()
    try:
        with open(file, encoding="utf-8") as saved:
            cells = [cell for cell in json.load(saved)["cells"] if cell["cell_type"] == "code"]
        source = "\n".join("".join(cell["source"]) for cell in cells)
    except (OSError, ValueError, LookupError, TypeError):  # not saved yet, or not readable
        return frozenset()
    found = {name for name in HEAVY_IMPORTS if name in source}
    return frozenset(found | ({_COMPILER} if _IMPORTS_THE_COMPILER in source else set()))


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _named(function: FunctionType, names: set[str]) -> Iterator[object]:
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        if isinstance(value, ModuleType):  # only modules that are imported already: looking must not import anything
            yield from (vars(value)[other] for other in names & vars(value).keys())
        else:
            yield value
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
