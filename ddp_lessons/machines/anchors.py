"""The first process of a node: it holds the node's namespaces, and ends when its parent does."""

from __future__ import annotations

import functools
import re
import subprocess
import time
from pathlib import Path

import psutil

from ddp_lessons.machines.places import NotHere, environment_of_jobs

_SECONDS_TO_BEGIN = 10.0
_SYS_ADMIN = 1 << 21  # the kernel's number of this capability

# Reports that the node is ready, then waits for the end of its parent. As the node's first process it inherits all
# orphans, so it has to wait for these too. Otherwise they would stay as zombies, and Slurm would think that they run.
# (Status 137: its helper was killed, with all that ran on the machine.)
ANCHOR = "echo; exec 3<&0; while cat <&3 & wait $!; [ $? = 137 ]; do :; done"


def anchor(command: list[str]) -> subprocess.Popen[bytes]:
    anchor = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment_of_jobs(),
        start_new_session=True,  # the stop button must not end nodes
    )
    assert anchor.stdout is not None
    if not anchor.stdout.readline():
        _, words = anchor.communicate()
        reason = words.decode(errors="replace").strip().splitlines()
        raise NotHere(f"no machine could be made: {reason[-1] if reason else 'no reason was given'}")
    return anchor


def pid_inside(anchor: subprocess.Popen[bytes]) -> int:
    """The process that waits in the namespace. (The process that creates a process namespace stays outside it.)"""
    deadline = time.monotonic() + _SECONDS_TO_BEGIN
    while time.monotonic() < deadline:
        for process in [psutil.Process(anchor.pid), *psutil.Process(anchor.pid).children(recursive=True)]:
            if process.name() == "sh":
                return process.pid
        time.sleep(0.01)
    raise NotHere("no machine could be made: its first process did not come up")


def end_anchor(anchor: subprocess.Popen[bytes]) -> None:
    """It ends when our pipe to it is closed, so close it."""
    for stream in (anchor.stdin, anchor.stdout, anchor.stderr):
        if stream is not None:
            stream.close()
    anchor.wait()


def enter(pid: int, *kinds: str) -> list[str]:
    return ["nsenter", "--target", str(pid), *_user_options(), *kinds, "--"]


def _user_options() -> tuple[str, ...]:
    return () if rules_here() else ("--user", "--preserve-credentials")


def in_new_user_space() -> tuple[str, ...]:
    """On many systems, a user without root rights can have them in a user namespace."""
    return () if rules_here() else ("unshare", "--user", "--map-root-user", "--")


@functools.cache
def rules_here() -> bool:
    """May we make and enter network namespaces? Root may, unless this capability was removed, as in many containers."""
    rights = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.M)
    return bool(rights and int(rights[1], 16) & _SYS_ADMIN)
