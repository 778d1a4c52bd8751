"""What a learner calls a line: of a cell, or of a file."""

from __future__ import annotations

import os


def name_place(file: str, line: int) -> str:
    return f"cell line {line}" if is_cell(file) else f"{os.path.basename(file)} line {line}"


def is_cell(file: str) -> bool:
    return file.startswith(("<ipython-input", "<stdin>")) or "ipykernel_" in file
