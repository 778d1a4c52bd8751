"""A file written so that a reader never meets a part of it. The set-up imports it, too: standard library only."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_whole(path: Path, text: str, mode: int) -> None:
    """The file has the old content or the new one, whatever happens meanwhile."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
