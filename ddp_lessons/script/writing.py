"""A script gets to the disk, and nobody's own work is lost by it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ddp_lessons.script.composing import Script

_written: dict[Path, str] = {}  # the digest of what this process wrote


class WouldOverwrite(FileExistsError):
    """There is such a file, and somebody may have worked on it."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


def write(script: Script, file: Path, force: bool = False) -> None:
    """Write it, unless the file holds something that this process did not write."""
    new, path = script.text.encode(), file.absolute()
    if path.exists() and not force:
        old = path.read_bytes()
        if old != new and _written.get(path) != hashlib.sha256(old).hexdigest():
            raise WouldOverwrite(
                f"{file} is there already with another content, and nothing was written. "
                "Next: choose another name, or, if nobody needs what it holds, say --force (force=True)."
            )
    path.write_bytes(new)
    _written[path] = hashlib.sha256(new).hexdigest()


def told(script: Script, file: Path) -> str:
    """What to know of a script that was written."""
    lines = [f"{file} is written. Start it with: {script.command}"]
    lines += [
        f"It imports {name}, which lies beside the notebook: keep it beside the script."
        for name in script.must_go_along
    ]
    return "\n".join(lines)
