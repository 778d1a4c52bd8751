"""Run a copy of a lesson as a reader's kernel does, in an empty folder, with the settings of the stored outputs."""

from __future__ import annotations

import copy
import os
import tempfile
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

LONGEST_CELL_SECONDS = 600
SETTINGS = {"DDP_LESSONS_PROGRESS": "off"}  # the author's progress must not get into the outputs


class CellFailed(Exception):
    """A cell raised, ran too long, or killed the kernel; the message names it."""


def run(lesson: Any, project: Path) -> Any:
    """Return a copy of the lesson with the outputs of this run.

    Raises:
        CellFailed: the lesson did not run to its end.
    """
    fresh = copy.deepcopy(lesson)
    began: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="lesson-") as folder:
        client = NotebookClient(
            fresh,
            timeout=LONGEST_CELL_SECONDS,
            kernel_name="python3",
            record_timing=False,
            store_widget_state=False,
            resources={"metadata": {"path": folder}},
            on_cell_execute=lambda cell, cell_index: began.append(cell),
        )
        try:
            client.execute(env=environment(project))
        except CellExecutionError as error:
            raise CellFailed(f"{named(began[-1])} raises {error.ename}: {error.evalue}") from None
        except CellTimeoutError:
            raise CellFailed(f"{named(began[-1])} runs for more than {LONGEST_CELL_SECONDS} seconds") from None
        except DeadKernelError:
            raise CellFailed(f"the kernel died in {named(began[-1]) if began else 'its beginning'}") from None
    return fresh


def environment(project: Path) -> dict[str, str]:
    """This process's environment with the settings. What can run live is not shown as recorded."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DDP_LESSONS_M")}
    if inherited.get("DDP_LESSONS_RECORDINGS") == "recorded":
        del inherited["DDP_LESSONS_RECORDINGS"]
    paths = [str(project), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**inherited, **SETTINGS, "PYTHONPATH": os.pathsep.join(paths), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def named(cell: Any) -> str:
    """A cell's id, and its first line for the author to recognize it."""
    lines = [line for line in cell.source.splitlines() if line.strip()]
    return f"cell {cell.id} ({lines[0] if lines else 'empty'})"
