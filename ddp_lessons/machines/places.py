"""What a simulated node is made of: commands of the system, and processes that hold namespaces.

The first process of a node holds its namespaces, and ends when its parent does.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

import psutil

from ddp_lessons.record.recordings import NotHere

P = TypeVar("P", covariant=True)
_SECONDS_TO_BEGIN = 10.0
_SYS_ADMIN = 1 << 21  # the kernel's number of this capability

# Reports that the node is ready, then waits for the end of its parent. As the node's first process it inherits all
# orphans, so it has to wait for these too. Otherwise they would stay as zombies, and Slurm would think that they run.
# (Status 137: its helper was killed, with all that ran on the machine.)
ANCHOR = "echo; exec 3<&0; while cat <&3 & wait $!; [ $? = 137 ]; do :; done"


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
    path = environment_of_jobs()["PATH"]  # some commands only administrators have on theirs
    missing = {command: package for command, package in packages.items() if not shutil.which(command, path=path)}
    if not missing:
        return ""
    wanted = " ".join(sorted(set(missing.values())))
    return f"this machine has no {', '.join(sorted(missing))}; on Debian and Ubuntu, run `apt-get install {wanted}`"


def said_by(command: list[str], stdin: str = "") -> str:
    """Run a small command and return its output.

    Raises:
        NotHere: it failed; the message contains its output.
    """
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise NotHere(f"{os.path.basename(command[0])} failed: {words[-1] if words else f'status {done.returncode}'}")
    return done.stdout


def environment_of_jobs() -> dict[str, str]:
    """Our environment, but with this Python's commands first.

    Programs that need their lines at once must flush them. Unbuffered, print() writes a line in pieces, and the lines
    of the ranks of one torchrun mix.
    """
    path = f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    own = {"PATH": path, "PYTHONUNBUFFERED": "", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    return {"OMP_NUM_THREADS": "1", **os.environ, **own}


class Anchor:
    """The process that holds namespaces. `pid` is the one inside them."""

    def __init__(self, command: list[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=environment_of_jobs(),
            start_new_session=True,  # the stop button must not end nodes
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            _, words = self._process.communicate()
            reason = words.decode(errors="replace").strip().splitlines()
            raise NotHere(f"no machine could be created: {reason[-1] if reason else 'no reason was given'}")
        self.pid = self._pid_inside()

    def is_there(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """It ends when our pipe to it is closed, so close it."""
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._process.wait()

    def enter(self, *kinds: str) -> list[str]:
        """The words before a command that runs in its namespaces."""
        user = () if rules_here() else ("--user", "--preserve-credentials")
        return ["nsenter", "--target", str(self.pid), *user, *kinds, "--"]

    def _pid_inside(self) -> int:
        """The process that creates a process namespace stays outside it."""
        deadline = time.monotonic() + _SECONDS_TO_BEGIN
        while time.monotonic() < deadline:
            begun = psutil.Process(self._process.pid)
            for process in [begun, *begun.children(recursive=True)]:
                if process.name() == "sh":
                    return process.pid
            time.sleep(0.01)
        raise NotHere("no machine could be created: its first process did not start")


def in_new_user_space() -> tuple[str, ...]:
    """On many systems, a user without root rights can have them in a user namespace."""
    return () if rules_here() else ("unshare", "--user", "--map-root-user", "--")


@functools.cache
def rules_here() -> bool:
    """May we make and enter network namespaces? Root may, unless this capability was removed, as in many containers."""
    rights = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.M)
    return bool(rights and int(rights[1], 16) & _SYS_ADMIN)
