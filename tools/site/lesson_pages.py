"""Lessons for readers without a kernel: figures and quizzes are interactive, and outputs to predict are folded."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import nbformat

from ddp_lessons.quiz.question import questions_of
from ddp_lessons.quiz.question_text import as_interactive_page
from ddp_lessons.show.figures.figure import living_svg_in, page_of
from ddp_lessons.workshop.stored_outputs import FIGURE

ROOT = Path(__file__).resolve().parents[2]
LESSONS = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))]
ASKS = re.compile(r"^quiz\.questions\((\d+)\)", re.M)
PREDICT = re.compile(r"\bPredict\b")
HAS_CONTROLS = re.compile(r"^show\.explore_\w+\(", re.M)
CONTROLS = "<p>In JupyterLab, this figure has controls. Here you see one setting.</p>"
ABOUT = """
```{{container}} about-this-page
This lesson has stored outputs and interactive figures. Where it says *Predict*, guess first, then open *Reveal*.
To run and change it, open `{}` in JupyterLab ([how to install](../docs/install.md)).
```"""
make: Any = nbformat.v4


@cache
def read_lesson(lesson: str) -> Any:
    return nbformat.read(ROOT / lesson, as_version=4)  # type: ignore[no-untyped-call]


def title_of(lesson: str) -> str:
    heading, _, _ = read_lesson(lesson).cells[0].source.partition("\n")
    return str(heading).removeprefix("# ").replace("`", "")


def lesson_page(notebook: Any, file: str) -> Any:
    """Change the notebook in place into a page of the site."""
    predicting = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            last_section = re.split(r"^(?:#+ |\*\*Why)", cell.source, flags=re.M)[-1]  # a *Why* ends a *Predict*
            predicting = bool(PREDICT.search(last_section))
            cell.source = cell.source.replace("Run the next cell and choose.", "Choose an answer to each question.")
            continue
        if asked := ASKS.search(cell.source):  # with the script, which isn't stored
            page = as_interactive_page(int(asked[1]), questions_of(int(asked[1])))
            cell.outputs = [make.new_output("display_data", {"text/html": page})]
        for output in cell.outputs:
            if still := output.get("data", {}).get(FIGURE):
                output.data = {"text/html": page_of(living_svg_in(still), words_of(output))}
        if cell.outputs and HAS_CONTROLS.search(cell.source):  # what they change is computed by a kernel
            cell.outputs.append(make.new_output("display_data", {"text/html": CONTROLS}))
        if cell.outputs and (predicting or PREDICT.search(cell.source)):
            cell.metadata["tags"] = ["hide-output"]
    notebook.cells[0].source += f"\n{ABOUT.format(file)}"
    return notebook


def words_of(output: Any) -> str:
    """The alternative text of a figure."""
    return str(output.metadata.get(FIGURE, {}).get("alt", ""))
