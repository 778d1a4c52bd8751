"""Lessons for Colab and Kaggle: a form that installs the package, and the links that open it there (on the site).

The links need the repository's address, which is `Repository` under [project.urls] in pyproject.toml. Without it there
are no links.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

from ddp_lessons import __version__
from ddp_lessons.workshop.working_copy import LESSONS, without_outputs

BRANCH = "hosted"  # it has the forms of the last release and nothing else
INSTALL = f"""\
# Installs the course's package if it is missing. On Colab it changes no package that is already here. On Kaggle, first
# turn on "Internet" in the settings of the notebook; a newer torch is installed, too, which takes minutes. Files that
# you write here are deleted when the session ends.
import importlib.util
import sys

if importlib.util.find_spec("ddp_lessons") is None:
    !{{sys.executable}} -m pip install --quiet ddp-lessons=={__version__}
"""
_LINK = re.compile(r"(?<=\]\()(?![a-z][a-z0-9+.-]*:|#)([^)\s]+)(?=\))")


def repository(project: Path) -> str | None:
    """The address without a slash at its end, such as https://github.com/owner/name."""
    found = re.search(r'^Repository = "(.+?)/?"$', (project / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    return found[1] if found else None


def links(address: str | None, file: str) -> dict[str, str]:
    """Where to open that lesson, by host."""
    if address is None:
        return {}
    place = f"{urlsplit(address).path.strip('/')}/blob/{BRANCH}/{file}"
    return {
        "Colab": f"https://colab.research.google.com/github/{place}",
        "Kaggle": f"https://www.kaggle.com/kernels/welcome?src=https://github.com/{place}",
    }


def hosted_form(lesson: Path, address: str | None) -> str:
    """The lesson without outputs, with a cell that installs the package, and with links that lead to the repository."""
    notebook = json.loads(without_outputs(lesson))
    code: dict[str, object] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"].insert(1, {**code, "id": "install", "source": INSTALL.splitlines(keepends=True)})
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown" and address:
            cell["source"] = [_led_outside(line, address) for line in cell["source"]]
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _led_outside(text: str, address: str) -> str:
    def outside(link: re.Match[str]) -> str:
        inside = link[1].removeprefix("../") if link[1].startswith("../") else f"notebooks/{link[1]}"
        return f"{address}/blob/main/{inside}"

    return _LINK.sub(outside, text)


def write_all(project: Path) -> list[str]:
    """Write the forms into build/hosted. Return what to tell the author."""
    folder, address = project / "build" / "hosted", repository(project)
    folder.mkdir(parents=True, exist_ok=True)
    lessons = sorted((project / "notebooks").glob(LESSONS))
    for lesson in lessons:
        (folder / lesson.name).write_text(hosted_form(lesson, address), encoding="utf-8")
    written = [f"{len(lessons)} lessons written to {folder}"]
    if address is None:
        return [*written, 'No links: set "Repository" under [project.urls] in pyproject.toml.']
    return [*written, f"Next: commit the files as the only ones of the branch {BRANCH}."]
