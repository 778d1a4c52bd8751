"""Run lessons and store what a reader sees, without temporary outputs and needless changes.

A cell with the same source and text as in git keeps its stored outputs byte for byte, because measured times change a
figure's bytes. *The same* means the same to nbval, which compares the lessons in tests.
"""

from __future__ import annotations

import copy
import os
import re
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from ddp_lessons.own_files import write_whole
from ddp_lessons.workshop.stored_outputs import FIGURE, as_stored
from ddp_lessons.workshop.working_copy import LESSONS

LONGEST_CELL_SECONDS = 600
VIEW = "application/vnd.jupyter.widget-view+json"  # without a kernel, it shows an error instead of the figure
MAY_DIFFER = "nbval-ignore-output"  # nbval's tag for a cell whose output is not compared
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
OF_THE_MOMENT = ("execution", "ExecuteTime", "collapsed", "scrolled", "trusted")  # written by front ends
NUMBER = re.compile(r"\d[\d.,]*")
OF_EACH_RUN = re.compile(r"\bh[0-9a-f]{6}-|<metadata>.*?</metadata>")  # computed from a whole figure, even its times
files: Any = nbformat


class NotStored(Exception):
    """A lesson stopped with an error, or two runs differ; the message names the cells."""


def main(lessons: Sequence[str], twice: bool, pictures: bool) -> int:
    """Print the result for each lesson, and return 1 if one was not stored."""
    troubles = 0
    for path in chosen(Path.cwd() / "notebooks", lessons):
        began = time.monotonic()
        try:
            said = store(path, twice, pictures)
        except NotStored as trouble:
            troubles, said = troubles + 1, f"not stored, and the file is unchanged: {trouble}"
        print(f"{path.stem} ({time.monotonic() - began:.0f} s): {said}", flush=True)
    return min(troubles, 1)


def chosen(folder: Path, wanted: Sequence[str]) -> list[Path]:
    """Return the lessons chosen by number ("3", "03") or part of the name, or all of them."""
    lessons = sorted(folder.glob(LESSONS))
    found = dict[Path, None]()
    for word in wanted:
        name = Path(word).stem
        fitting = [one for one in lessons if (one.stem[:2] == name.zfill(2) if name.isdigit() else name in one.stem)]
        if not fitting:
            raise ValueError(f"there is no lesson {word!r}; choose from {', '.join(one.stem for one in lessons)}")
        found |= dict.fromkeys(fitting)
    return list(found) if wanted else lessons


def store(path: Path, twice: bool, new_pictures: bool) -> str:
    """Run one lesson, write its file if something changed, and return a description of the changes."""
    lesson = files.read(path, as_version=4)
    fresh = run(lesson, path.parent.parent)
    if twice:
        again = run(lesson, path.parent.parent)
        if differing := [a.id for a, b in zip(fresh.cells, again.cells, strict=True) if compared(a) != compared(b)]:
            raise NotStored(f"two runs differ in {', '.join(differing)}. Fix: print no times, process ids and paths")
    changed, look_different = take_over(fresh, committed(path) or lesson, new_pictures)
    said = [f"new outputs stored: {', '.join(changed)}"] if changed else []
    if look_different and not new_pictures:
        said.append(f"figures changed but their text did not, so not stored: {', '.join(look_different)}")
    text = files.writes(fresh).rstrip("\n") + "\n"
    if text == path.read_text(encoding="utf-8"):
        return "; ".join(["nothing to change", *said])
    write_whole(path, text, path.stat().st_mode & 0o777)
    return "; ".join(said or ["tidied"])


def run(lesson: Any, project: Path) -> Any:
    """Return a copy of the lesson with the outputs that a reader's kernel produces in an empty folder.

    Raises:
        NotStored: a cell raised an error.
    """
    fresh, began = copy.deepcopy(lesson), list[Any]()
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
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            why = str(error).splitlines()[0]
            if isinstance(error, CellExecutionError):
                why = f"{error.ename}: {error.evalue}"
            first_line = next(filter(str.strip, began[-1].source.splitlines()), "")
            raise NotStored(f"cell {began[-1].id} ({first_line}) stopped: {why}") from None
    return fresh


def environment(project: Path) -> dict[str, str]:
    """Return the environment without the author's progress and limits; what can run live must not use recordings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DDP_LESSONS_M")}
    if inherited.get("DDP_LESSONS_RECORDINGS") == "recorded":
        del inherited["DDP_LESSONS_RECORDINGS"]
    paths = os.pathsep.join(filter(None, [str(project), os.environ.get("PYTHONPATH")]))
    return {**inherited, "DDP_LESSONS_PROGRESS": "off", "PYTHONPATH": paths, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def committed(path: Path) -> Any | None:
    """Return the lesson as committed, so that unchanged outputs are restored after a manual run."""
    command = ["git", "show", f"HEAD:./{path.name}"]
    shown = subprocess.run(command, cwd=path.parent, capture_output=True, encoding="utf-8")
    return files.reads(shown.stdout, as_version=4) if shown.returncode == 0 else None  # else it is a new lesson


def take_over(lesson: Any, before: Any, new_pictures: bool) -> tuple[list[str], list[str]]:
    """Tidy a lesson that ran, and keep the earlier outputs of cells that printed the same.

    Return the cells with new outputs, and the cells whose figures look different.
    """
    known = {cell.id: cell for cell in before.cells if cell.cell_type == "code"}
    changed, look_different = list[str](), list[str]()
    lesson.metadata = {**lesson.metadata, **copy.deepcopy(METADATA)}
    lesson.metadata.pop("widgets", None)
    lesson.nbformat_minor = 5
    for cell in lesson.cells:
        for key in OF_THE_MOMENT:
            cell.metadata.pop(key, None)
    code = [cell for cell in lesson.cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, 1):
        old = known.get(cell.id)
        cell.outputs = tidy(cell.outputs)
        if old is not None and old.source == cell.source and compared(old) == compared(cell):
            if looks(old) != looks(cell):
                look_different.append(cell.id)
            if not (new_pictures and not_compared(old) != not_compared(cell)):
                cell.outputs = tidy(old.outputs)
        if old is None or cell.outputs != old.outputs:
            changed.append(cell.id)
        cell.execution_count = count
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
    return changed, look_different


def tidy(outputs: Sequence[Any]) -> list[Any]:
    """Remove widget views and empty displays, and join text that was printed in pieces."""
    kept: list[Any] = []
    for output in map(as_stored, copy.deepcopy(list(outputs))):
        output.get("data", {}).pop(VIEW, None)
        last = kept[-1] if kept else None
        if last is not None and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        elif output.output_type in ("stream", "error") or output.data:
            kept.append(output)
    return kept


def kinds_to_see(cell: Any) -> set[str]:
    """The kinds of output that nbval doesn't compare: figures, and the HTML output of tagged cells."""
    return {FIGURE, "text/html"} if MAY_DIFFER in cell.metadata.get("tags", ()) else {FIGURE}


def compared(cell: Any) -> dict[str, list[Any]]:
    """What must be the same in every run, by kind; the order matters only within a kind.

    For a figure, it is the alternative text without numbers, some of which are measured.
    """
    found, to_see = defaultdict[str, list[Any]](list), kinds_to_see(cell)
    for output in tidy(cell.get("outputs", [])):
        if output.output_type == "stream":
            found[output.name] = ["".join([*found[output.name], output.text])]
        elif output.output_type == "error":
            found["error"].append(f"{output.ename}: {output.evalue}")
        for kind, content in output.get("data", {}).items():
            words = output.metadata.get(kind, {}).get("alt", "")
            found[kind].append(NUMBER.sub("#", words) if kind in to_see else content)
    return found


def not_compared(cell: Any) -> list[str]:
    kinds = kinds_to_see(cell)
    return [output.data[kind] for output in cell.outputs for kind in sorted(kinds & set(output.get("data", {})))]


def looks(cell: Any) -> list[str]:
    """The shapes and words of figures, at any position."""
    return [NUMBER.sub("#", OF_EACH_RUN.sub("", picture)) for picture in not_compared(cell)]
