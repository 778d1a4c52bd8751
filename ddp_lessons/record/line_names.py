"""What a learner calls a line: of a cell, or of a file."""

from __future__ import annotations

import os
import sys
from typing import Any


def name_place(file: str, line: int) -> str:
    if not is_cell(file):
        return f"{os.path.basename(file)} line {line}"
    cell = _name_of_cell(file)
    return f"cell {cell}, line {line}" if cell else f"cell line {line}"


def is_cell(file: str) -> bool:
    return file.startswith(("<ipython-input", "<stdin>")) or "ipykernel_" in file


def request_of_front_end() -> str:
    """The name of the run of a cell, where a front end said which of its cells it is: then a person looks on.

    Others, such as nbclient and nbval, run the cells of a stored notebook: what they see must not depend on how many
    cells ran before, and an error may be all that is kept.
    """
    kernel = getattr(_shell(), "kernel", None)
    request = kernel.get_parent() if kernel is not None else {}
    return str(request["header"]["msg_id"]) if request.get("metadata", {}).get("cellId") else ""


def _name_of_cell(file: str) -> str:
    """ "[7]", as it stands beside the cell when that has run."""
    if not request_of_front_end():
        return ""
    label_and_name = getattr(_shell().compile, "format_code_name", lambda file: None)(file)
    return label_and_name[1].removeprefix("In") if label_and_name else ""


def _shell() -> Any:
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
