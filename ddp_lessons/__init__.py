"""Learn distributed training in notebooks: run a function on many ranks and see what each of them did.

Names are loaded on first use, so that a rank that imports one part of this package doesn't load the others.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if sys.platform == "win32":
    raise ImportError("ddp_lessons needs Linux or macOS. Next: install WSL (wsl --install), and work there")

if TYPE_CHECKING:
    from ddp_lessons.record.results import Results as Results
    from ddp_lessons.run.diagnosis.failures import WorkerFailed as WorkerFailed, WorkersStuck as WorkersStuck
    from ddp_lessons.run.launch import launch as launch
    from ddp_lessons.run.nodes.hosts import Hosts as Hosts
    from ddp_lessons.run.nodes.slurm import Slurm as Slurm
    from ddp_lessons.run.rank.tell import tell as tell
    from ddp_lessons.run.workers import Workers as Workers
    from ddp_lessons.sameness.same_training import same_as_one as same_as_one

__version__ = "0.1.0"
__all__ = ["Hosts", "Results", "Slurm", "WorkerFailed", "Workers", "WorkersStuck", "launch", "same_as_one", "tell"]

_HOME = {
    "Hosts": "ddp_lessons.run.nodes.hosts",
    "Results": "ddp_lessons.record.results",
    "Slurm": "ddp_lessons.run.nodes.slurm",
    "WorkerFailed": "ddp_lessons.run.diagnosis.failures",
    "Workers": "ddp_lessons.run.workers",
    "WorkersStuck": "ddp_lessons.run.diagnosis.failures",
    "launch": "ddp_lessons.run.launch",
    "same_as_one": "ddp_lessons.sameness.same_training",
    "tell": "ddp_lessons.run.rank.tell",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        home = import_module(_HOME[name])
    except AttributeError as error:  # `from ddp_lessons import` would hide it
        raise ImportError(f"{_HOME[name]} cannot be imported: {error}") from error
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])


def load_ipython_extension(ipython: object) -> None:
    """Called by `%load_ext ddp_lessons`."""
    from ddp_lessons.run.persistent import ranks_magic
    from ddp_lessons.script import script_files

    ranks_magic.load(ipython)
    script_files.load(ipython)


def unload_ipython_extension(ipython: object) -> None:
    """Called by `%unload_ext ddp_lessons` and `%reload_ext ddp_lessons`."""
    from ddp_lessons.run.persistent import ranks_magic
    from ddp_lessons.script import script_files

    ranks_magic.unload(ipython)
    script_files.unload(ipython)
