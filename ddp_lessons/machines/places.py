"""Places for attempts, and the reasons why a place can't be made here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from types import TracebackType
from typing import Protocol, TypeVar

P = TypeVar("P", covariant=True)


class NotHere(RuntimeError):
    """This machine can't make such a place; the message says what is missing and how to get it."""


class Place(Protocol[P]):
    """Nodes or a cluster: made by `with`, and removed afterwards. Its repr says what it is and how large."""

    def why_not(self) -> str:
        """Why it can't be made here, or ""."""

    def __enter__(self) -> P: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def missing_commands(packages: dict[str, str]) -> str:
    """Which of these commands are missing, with Debian's names of their packages, or ""."""
    missing = {command: package for command, package in packages.items() if not find(command)}
    if not missing:
        return ""
    wanted = " ".join(sorted(set(missing.values())))
    return f"this machine has no {', '.join(sorted(missing))}; on Debian and Ubuntu: apt-get install {wanted}"


def find(command: str) -> str | None:
    """The path of a command, even if only administrators have it on their PATH."""
    return shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def said_by(command: list[str], stdin: str = "", environment: dict[str, str] | None = None) -> str:
    """Run a small command and return its output.

    Raises:
        NotHere: it failed; the message contains its output.
    """
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise NotHere(f"{os.path.basename(command[0])} refused: {words[-1] if words else f'status {done.returncode}'}")
    return done.stdout


def environment_of_jobs() -> dict[str, str]:
    """Our environment, but with this Python's commands first.

    Programs that need their lines at once must flush them. Unbuffered, print() writes a line in pieces, and the lines
    of the ranks of one torchrun mix.
    """
    path = f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    own = {"PATH": path, "PYTHONUNBUFFERED": "", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    return {"OMP_NUM_THREADS": "1", **os.environ, **own}
