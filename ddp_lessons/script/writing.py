"""Write a script to disk without losing changes that you made to it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ddp_lessons.script.composing import Script

_written: dict[Path, str] = {}  # digests of what this process wrote


class WouldOverwrite(FileExistsError):
    """The file exists, and may contain your own changes."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


def write(script: Script, file: Path, force: bool = False) -> None:
    """Write it, unless the file has content that this process did not write."""
    new, path = script.text.encode(), file.absolute()
    if path.exists() and not force:
        old = path.read_bytes()
        if old != new and _written.get(path) != hashlib.sha256(old).hexdigest():
            raise WouldOverwrite(
                f"{file} exists with different content, so nothing was written. "
                "Next: choose another name, or overwrite it with --force (force=True)."
            )
    path.write_bytes(new)
    _written[path] = hashlib.sha256(new).hexdigest()


def told(script: Script, file: Path) -> str:
    """How to start the script, and what it needs."""
    lines = [f"wrote {file}. Start it with: {script.command}"]
    lines += [
        f"It imports {name} from the notebook's folder: keep it in the folder of the script."
        for name in script.must_go_along
    ]
    return "\n".join(lines)
