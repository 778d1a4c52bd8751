"""Write a file so that a reader never sees a part of it. Standard library only, because the set-up imports it."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_whole(path: Path, text: str, mode: int) -> None:
    """Whatever happens, the file has either the old content or the new one."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
