"""The same lines in every front that a learner may have: a script, two prompts, and a notebook without a browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nights import nightly

pytestmark = nightly

LINES = """
import torch, torch.distributed as dist
from ddp_lessons import launch, show

def run(rank, world_size):
    tensor = torch.ones(1) * rank
    dist.all_reduce(tensor)
    print("sum", tensor.item())
    return tensor.item()

results = launch(run, 2)
print(list(results))
show.timeline(results)
"""
CELLS = [
    LINES,
    "%load_ext ddp_lessons",
    "%%ranks 2\nprint('rank', rank)",
    "from ddp_lessons import quiz\nquiz.questions(1)",
]


def said(command: list[str], folder: Path, typed: str | None = None) -> str:
    done = subprocess.run(command, cwd=folder, input=typed, text=True, stdout=-1, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    "options", [["script.py"], ["-i", "-q"], ["-m", "IPython", "--simple-prompt", "--no-banner"]], ids=" ".join
)
def test_a_script_and_a_prompt(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"{LINES}\nprint(show.timeline(results))")
    told = said([sys.executable, *options], tmp_path, LINES)
    assert "[1.0, 1.0]" in told
    assert "all_reduce" in told  # the timeline as text


def test_a_notebook_that_is_run_without_a_browser(tmp_path: Path) -> None:
    make: Any = nbformat.v4
    notebook = make.new_notebook(cells=[make.new_code_cell(source) for source in CELLS])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "one.ipynb")  # type: ignore[no-untyped-call]
    said([sys.executable, "-m", "jupyter", "execute", "--output=done", "one.ipynb"], tmp_path)
    done = nbformat.read(tmp_path / "done.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    told = [str(cell.outputs) for cell in done.cells]
    assert "[1.0, 1.0]" in told[0]
    assert "image/" in told[0]  # the timeline, for who opens the file later
    assert "rank 1" in told[2] or "[1]" in told[2]
    assert "text/html" in told[3]
