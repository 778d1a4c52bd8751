"""The cells that were run, in order.

IPython stores only the cells for which a front end asks for it, and a tool that runs notebooks as tests does not. So
they are also stored here, from `%load_ext ddp_lessons` on.
"""

from __future__ import annotations

from typing import Any

from ddp_lessons.script.cells import Cell, read_cell


class History:
    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._runs = kept_by_ipython(shell)

    def watch(self) -> None:
        self._shell.events.register("pre_run_cell", self._begins)
        self._shell.events.register("post_run_cell", self._ended)

    def forget(self) -> None:
        self._shell.events.unregister("pre_run_cell", self._begins)
        self._shell.events.unregister("post_run_cell", self._ended)

    def cells(self) -> list[Cell]:
        return [read_cell(number, source) for number, source in self._runs]

    def _begins(self, info: Any) -> None:
        last = self._runs[-1][0] if self._runs else 0
        self._runs.append((self._shell.execution_count if info.store_history else last + 1, info.raw_cell))

    def _ended(self, result: Any) -> None:
        """The cell that loads the extension is stored when it ends."""
        if not self._runs:
            self._begins(result.info)


def kept_by_ipython(shell: Any) -> list[tuple[int, str]]:
    """Including the one that is running."""
    texts: list[str] = shell.history_manager.input_hist_raw
    return [(number, text) for number, text in enumerate(texts[: shell.execution_count + 1]) if number]
