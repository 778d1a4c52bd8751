"""`ddp-lessons start`: write the learner's copy of the lessons, and open it in JupyterLab."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ddp_lessons.own_files import NOTEBOOKS
from ddp_lessons.workshop.remedies import pip, type_these
from ddp_lessons.workshop.working_copy import LESSONS, copy_lessons

# By default JupyterLab saves notebooks without the state of widgets, and shows "model not found" instead of their
# pictures when they are opened again. It also asks whether to show news. Learners can change these settings.
SETTINGS = Path(__file__).parent / "jupyter"
JUPYTERLAB = "jupyterlab>=4.2,<5"  # the extra [lab] in pyproject.toml says the same


def start_lessons(folder: Path, options: Sequence[str] = (), no_open: bool = False) -> int:
    """Replace this process by JupyterLab. Return an exit status only if it isn't opened."""
    try:
        news = copy_lessons(NOTEBOOKS, folder)
    except OSError as error:
        print(f"The lessons could not be copied to {folder}: {error.strerror or error}", file=sys.stderr)
        return 1
    for line in news:
        print(line, file=sys.stderr)
    first = folder / min(lesson.name for lesson in NOTEBOOKS.glob(LESSONS))
    if no_open:
        print(first)
        return 0
    if importlib.util.find_spec("jupyterlab") is None and not _install_jupyterlab():
        print(f"The lessons are in {folder}. Open them with your own Jupyter in this environment.")
        return 1
    opened = [f"--ServerApp.root_dir={folder.absolute()}", f"--LabApp.default_url=/lab/tree/{first.name}"]
    root = ["--allow-root"] if os.geteuid() == 0 else []
    command = [sys.executable, "-m", "jupyterlab", *opened, *options, *root]
    sys.stdout.flush()
    return os.execve(sys.executable, command, environment_of_jupyter())  # so that only JupyterLab gets Ctrl-C


def environment_of_jupyter(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """With our settings, and with this environment's torchrun and pip first for a cell's `!` and Jupyter's terminal."""
    first = {"PATH": Path(sys.executable).parent, "JUPYTER_CONFIG_PATH": SETTINGS}
    added = {name: [str(place), *filter(None, [environment.get(name)])] for name, place in first.items()}
    return {**environment, **{name: os.pathsep.join(places) for name, places in added.items()}}


def _install_jupyterlab() -> bool:
    """Ask first, because this may be an environment that the learner uses for something else, too."""
    command = pip("install", JUPYTERLAB)
    print(f"JupyterLab is not installed in {sys.prefix}. {type_these(command)}", file=sys.stderr)
    if not sys.stdin.isatty() or input("Run it now? [Y/n] ").strip().lower() not in ("", "y", "yes"):
        return False
    return subprocess.run(command).returncode == 0
