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
        if entry.is_dir() and not entry.is_symlink() and not _is_left_as_it_is(entry):
            copy_of_folder(entry, copy / entry.name)
        elif entry.is_file() and entry.stat().st_size <= _MOST_BYTES:
            shutil.copy2(entry, copy / entry.name)
        else:
            (copy / entry.name).symlink_to(entry.absolute())
    return copy


def _is_left_as_it_is(folder: Path) -> bool:
    if folder.name.startswith(".") or (folder / "pyvenv.cfg").exists() or not os.access(folder, os.R_OK | os.X_OK):
        return True
    return len(os.listdir(folder)) > _MOST_ENTRIES
