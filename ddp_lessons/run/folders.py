"""The private folder of this notebook's process: where its ranks meet, and where overlong output goes."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref

_folders: dict[int, str] = {}


def session_folder() -> str:
    """One folder for this process, readable by its owner only. It goes when the process ends; if that is killed, the
    template removes it."""
    process = os.getpid()
    if process not in _folders or not os.path.isdir(_folders[process]):
        _folders[process] = tempfile.mkdtemp(prefix="ddp_lessons-")  # mode 0700
        weakref.finalize(session_folder, _remove, _folders[process], process)
    return _folders[process]


def current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # somebody deleted it
        return ""


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a child that it forked
        shutil.rmtree(folder, ignore_errors=True)
