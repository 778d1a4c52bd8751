"""What a learner calls a line: of a cell, or of a file."""

from __future__ import annotations

import os
import sys


def name_place(file: str, line: int) -> str:
    if not is_cell(file):
        return f"{os.path.basename(file)} line {line}"
    cell = _name_of_cell(file)
    return f"cell {cell}, line {line}" if cell else f"cell line {line}"


def is_cell(file: str) -> bool:
    return file.startswith(("<ipython-input", "<stdin>")) or "ipykernel_" in file


def _name_of_cell(file: str) -> str:
    """ "[7]", as it stands beside the cell when that has run, where IPython is and knows it."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    label_and_name = getattr(getattr(shell, "compile", None), "format_code_name", lambda file: None)(file)
    return label_and_name[1].removeprefix("In") if label_and_name else ""
