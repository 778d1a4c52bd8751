"""The private folder of this notebook's process: its ranks join there, and long output goes there."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import weakref

_LONGEST_SOCKET = 103
_folders: dict[int, str] = {}


def session_folder() -> str:
    """One folder for this process, readable by its owner only. It is removed when the process exits, or, if it is
    killed, by the template."""
    process = os.getpid()
    if process not in _folders or not os.path.isdir(_folders[process]):
        # mode 0700; the name is no longer than that of multiprocessing's folder, as its sockets lie here, too
        _folders[process] = tempfile.mkdtemp(prefix="ddp-")
        weakref.finalize(session_folder, _remove, _folders[process], process)
    return _folders[process]


def short_private_folder(prefix: str, letters: int) -> str:
    """A new folder, readable by its owner only, with a path short enough for a socket with a name of this length.

    Linux allows 107 characters for the path of a Unix socket, macOS 103.
    """
    for place in (tempfile.gettempdir(), "/tmp"):
        if len(os.fsencode(place)) + 1 + len(prefix) + 8 + letters <= _LONGEST_SOCKET:
            with contextlib.suppress(OSError):
                return tempfile.mkdtemp(prefix=prefix, dir=place)
    raise ValueError(
        f"the path of the temporary folder, {tempfile.gettempdir()}, is too long for a Unix socket, and /tmp is not "
        "writable. Next: set the environment variable TMPDIR to a folder with a short path"
    )


def current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was deleted
        return ""


def open_standard_descriptors() -> None:
    """Open /dev/null for closed standard streams. Otherwise the next file or socket gets such a number, and a child
    process uses it as its standard stream."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            os.set_inheritable(opened, True)


def module_path() -> list[str]:
    """Where ranks look for modules: sys.path of the notebook, and the folders of the modules that it has imported."""
    own_modules = [module for name, module in list(sys.modules.items()) if "." not in name]
    files = [file for module in own_modules if (file := getattr(module, "__file__", None)) is not None]
    folders = dict.fromkeys(_folder_that_holds(file) for file in files if not file.startswith(sys.prefix))
    return [*sys.path, *(folder for folder in folders if folder not in sys.path and os.path.isdir(folder))]


def _folder_that_holds(file: str) -> str:
    folder, name = os.path.split(os.path.abspath(file))
    return os.path.dirname(folder) if name.startswith("__init__.") else folder


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a child that it forked
        shutil.rmtree(folder, ignore_errors=True)
