"""Make lessons for Colab and Kaggle, without outputs and with a cell that installs the package."""

from __future__ import annotations

import json
from pathlib import Path

from ddp_lessons import __version__
from ddp_lessons.workshop.working_copy import LESSONS, without_outputs

INSTALL = f"""\
# Installs the course's package if it is missing. On Colab, no installed package is changed. On Kaggle, first turn on
# "Internet" in the notebook's settings; a newer torch is installed, too, which takes minutes. Files that you write here
# are deleted when the session ends.
import importlib.util
import sys

if importlib.util.find_spec("ddp_lessons") is None:
    !{{sys.executable}} -m pip install --quiet ddp-lessons=={__version__}
"""


def main() -> int:
    """Write all lessons into build/hosted."""
    folder = Path("build", "hosted")
    folder.mkdir(parents=True, exist_ok=True)
    lessons = sorted(Path("notebooks").glob(LESSONS))
    for lesson in lessons:
        (folder / lesson.name).write_text(hosted_form(lesson), encoding="utf-8")
    print(f"{len(lessons)} lessons written to {folder}")
    return 0


def hosted_form(lesson: Path) -> str:
    notebook = json.loads(without_outputs(lesson))
    code: dict[str, object] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"].insert(1, {**code, "id": "install", "source": INSTALL.splitlines(keepends=True)})
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
