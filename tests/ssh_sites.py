"""Two simulated nodes that a real sshd reaches, and the `ssh` that reaches them."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from catalog.sshd import SSHD, own_key, reached_by_ssh
from places import here, leave_out

from ddp_lessons import Hosts
from ddp_lessons.machines import Machines


@contextlib.contextmanager
def reached_by_real_ssh(folder: Path) -> Iterator[Hosts]:
    """ssh starts in the first node's network, where it reaches both. The folder has the keys: host, mine, strange."""
    if not SSHD.exists():
        leave_out("openssh-server is missing", can_be_installed=True)
    with here(Machines(2)) as machines, reached_by_ssh(machines, folder) as hosts:
        with_keys = folder / "bin-with-keys" / "ssh"
        with_keys.parent.mkdir()
        command = shlex.join([str(folder / "bin" / "ssh"), *own_key(folder)])
        with_keys.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        with_keys.chmod(0o755)
        yield hosts


def path_with_keys(folder: Path) -> str:
    """The PATH of a user whose ssh needs no options."""
    return f"{folder / 'bin-with-keys'}:{os.environ['PATH']}"
