"""A copy of the current folder for each run of a script, so that none goes on from what another has saved there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_MOST_BYTES, _MOST_ENTRIES = 20_000_000, 1000


def copy_of_folder(folder: Path, copy: Path) -> Path:
    """Hidden folders, virtual environments, and data (large files, folders of many) are linked, not copied."""
    copy.mkdir()
    for entry in folder.iterdir():
        there = copy / entry.name
        if _is_linked(entry, copy):
            there.symlink_to(entry.absolute())
        elif entry.is_dir():
            copy_of_folder(entry, there)
        else:
            shutil.copy2(entry, there)
    return copy


def _is_linked(entry: Path, copy: Path) -> bool:
    if entry.is_file():
        return entry.stat().st_size > _MOST_BYTES or not os.access(entry, os.R_OK)
    if not entry.is_dir() or entry.is_symlink() or not os.access(entry, os.R_OK | os.X_OK):
        return True
    if entry.name.startswith(".") or (entry / "pyvenv.cfg").exists() or len(os.listdir(entry)) > _MOST_ENTRIES:
        return True
    return copy.resolve().is_relative_to(entry.resolve())  # the folder of temporary files may lie in this one
