"""This package's own files: the course, the modules that contain no learner's code, and how to write a file atomically.

It needs only the standard library, because the setup imports it.
"""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path
from typing import Any

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
RUN = os.path.join(PACKAGE, "run", "")
RECORDING = os.path.join(RUN, "recording", "")
IMPORTED_FROM = os.path.dirname(os.path.dirname(PACKAGE))

# A wheel has the course inside the package; in a clone its folders are next to the package.
INSTALLED = Path(PACKAGE, "course")
COURSE = INSTALLED if INSTALLED.is_dir() else Path(IMPORTED_FROM)
NOTEBOOKS, SCRIPTS = COURSE / "notebooks", COURSE / "scripts"
DATA = COURSE / "data"  # MNIST


def read_toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(path.read_text(encoding="utf-8"))


def write_whole(path: Path, text: str, mode: int) -> None:
    """Write a file atomically: whatever happens, it has either the old content or the new one, and never a part."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
