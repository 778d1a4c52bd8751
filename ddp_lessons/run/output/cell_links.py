"""Links in a card, from the number of a cell to the cell itself.

JupyterLab sends the id of the cell with each request, and scrolls to it for an address that ends in `#cell-id=`. In
other front ends such a link does nothing.
"""

from __future__ import annotations

import html
import re
from typing import Any

from ddp_lessons.record.line_names import cell_of_front_end, notebook_shell

_LOOK = "color:inherit;text-decoration:underline"
_CELL = re.compile(r"\bcell \[(\d+)\]")
_ids: dict[int, str] = {}  # of the cells that ran, by their execution number


def note_cells() -> None:
    """Start noting cells, including the one that is running."""
    shell = notebook_shell()
    if shell is not None:
        _note(_cells_so_far(shell) - 1)
        shell.events.register("pre_run_cell", lambda info: _note(_cells_so_far(shell)))


def linked(card: str) -> str:
    """The same HTML, with a link for each cell that ran."""
    return _CELL.sub(_link, card)


def _note(number: int) -> None:
    if cell_id := cell_of_front_end():
        _ids[number] = cell_id


def _cells_so_far(shell: Any) -> int:
    """Use number 0, which no cell has. IPython counts up before a cell runs, in older releases after it."""
    return len(shell.history_manager.input_hist_raw)


def _link(named: re.Match[str]) -> str:
    cell_id = _ids.get(int(named[1]))
    if cell_id is None:
        return named[0]
    return f'<a href="#cell-id={html.escape(cell_id)}" style="{_LOOK}">{named[0]}</a>'
