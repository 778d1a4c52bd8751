"""A lesson as a page: with interactive figures, with its quiz, and with the outputs to predict folded."""

from __future__ import annotations

import re
from typing import Any

import nbformat
from living import bring_to_life

from authoring.hosted import links
from ddp_lessons.quiz.question import questions_of
from ddp_lessons.quiz.question_text import as_interactive_page

ASKS = re.compile(r"^quiz\.questions\((\d+)\)", re.M)
PREDICT = re.compile(r"\bPredict\b")
HAS_CONTROLS = re.compile(r"^show\.explore_\w+\(", re.M)
TO_RUN = "Run the next cell and choose."  # before the questions, which are there on a page
OF_A_KERNEL = "application/vnd.jupyter.widget-view+json"

ABOUT = """
```{{container}} about-this-page
This lesson has stored outputs and interactive figures. Where it says *Predict*, guess first, then open *Reveal*.
To run and change it, open `{}` in JupyterLab ([how to install](../docs/install.md)).
```"""


def page_of(notebook: Any, file: str, address: str | None = None) -> Any:
    """The notebook, changed for readers without a kernel; with links to hosts, if the repository has an address."""
    predicting = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            predicting = bool(PREDICT.search(last_section(cell.source)))
            cell.source = cell.source.replace(TO_RUN, "Choose an answer to each question.")
            continue
        put_quiz(cell)
        leave_out_widgets(cell)
        bring_to_life(cell)
        say_what_has_controls(cell)
        if cell.outputs and (predicting or PREDICT.search(cell.source)):
            cell.metadata["tags"] = ["hide-output"]
    notebook.cells[0].source += f"\n{ABOUT.format(file)}"
    if hosts := links(address, file):
        notebook.cells[0].source += "\n\n" + " · ".join(f"[Open in {host}]({link})" for host, link in hosts.items())
    return notebook


def last_section(text: str) -> str:
    """The text right before the next cell; a *Why* ends a prediction."""
    return re.split(r"^(?:#+ |\*\*Why)", text, flags=re.M)[-1]


def put_quiz(cell: Any) -> None:
    """Ask the questions with the script, which isn't stored."""
    if asked := ASKS.search(cell.source):
        lesson = int(asked[1])
        page = {"text/html": as_interactive_page(lesson, questions_of(lesson))}
        make: Any = nbformat.v4
        cell.outputs = [make.new_output("display_data", page)]


def say_what_has_controls(cell: Any) -> None:
    """What they change is computed by a kernel."""
    if cell.outputs and HAS_CONTROLS.search(cell.source):
        make: Any = nbformat.v4
        said = {"text/html": "<p>In JupyterLab, this figure has controls. Here you see it for one choice.</p>"}
        cell.outputs.append(make.new_output("display_data", said))


def leave_out_widgets(cell: Any) -> None:
    """Remove widgets; each comes with a picture or a text that needs no kernel."""
    for output in cell.outputs:
        output.get("data", {}).pop(OF_A_KERNEL, None)
