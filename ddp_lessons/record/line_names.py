"""The name of a line, in a cell or in a file, as a learner sees it."""

from __future__ import annotations

import os
import sys
from typing import Any


def name_place(file: str, line: int) -> str:
    if not file:
        return "an unknown line"
    if not is_cell(file):
        return f"{os.path.basename(file)} line {line}"
    cell = _name_of_cell(file)
    return f"cell {cell}, line {line}" if cell else f"cell line {line}"


def is_cell(file: str) -> bool:
    return file.startswith(("<ipython-input", "<stdin>")) or "ipykernel_" in file


def request_of_front_end() -> str:
    """The id of a cell's run, if the front end says which cell it is. Then a person is watching.

    Other clients, such as nbclient and nbval, run the cells of a stored notebook. Their output must not depend on how
    many cells ran before, and an error may be all that is stored.
    """
    return str(_request()["header"]["msg_id"]) if cell_of_front_end() else ""


def cell_of_front_end() -> str:
    """The front end's name for the running cell, or "" if it does not say."""
    return str(_request().get("metadata", {}).get("cellId", ""))


def notebook_shell() -> Any:
    """IPython's shell, if this is a notebook's kernel."""
    shell = _shell()
    return shell if hasattr(shell, "kernel") else None


def _request() -> dict[str, Any]:
    shell = notebook_shell()
    return shell.kernel.get_parent() if shell is not None else {}


def _name_of_cell(file: str) -> str:
    """ "[7]", as shown next to the cell after it has run."""
    if not request_of_front_end():
        return ""
    compiler = _shell().compile
    label_and_name = compiler.format_code_name(file) if hasattr(compiler, "format_code_name") else None  # IPython 7
    return label_and_name[1].removeprefix("In") if label_and_name else ""


def _shell() -> Any:
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
