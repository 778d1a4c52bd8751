"""Simulated nodes that a real sshd reaches, and the `ssh` of a user whose keys they accept."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from places import leave_out
from processes import eventually

from ddp_lessons import Hosts
from ddp_lessons.machines import Machines

SSHD = Path("/usr/sbin/sshd")


@contextmanager
def reached_by_ssh(machines: Machines, folder: Path) -> Iterator[Hosts]:
    """`ssh` starts in the first node's network, where it reaches all of them. `folder` gets it and its keys."""
    if not SSHD.exists():
        leave_out("openssh-server is missing", can_be_installed=True)
    for name in ("host", "mine"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    settings = [f"HostKey={folder}/host", f"AuthorizedKeysFile={folder}/mine.pub", "StrictModes=no", "UsePAM=no"]
    daemon = machines.start(f"{SSHD} -D -e -f /dev/null {' '.join(f'-o {setting}' for setting in settings)}")
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known").write_text("".join(f"{name} {key}\n" for name in machines.names))
    client = folder / "bin" / "ssh"
    client.parent.mkdir()
    enter = shlex.join(machines.command(0, []))
    keys = f"-oUserKnownHostsFile={folder}/known -oIdentityFile={folder}/mine -oIdentitiesOnly=yes"
    client.write_text(f'#!/bin/sh\nexec {enter} /usr/bin/ssh -F /dev/null {keys} "$@"\n')
    client.chmod(0o755)
    for address in machines.addresses:
        knock = ["bash", "-c", f"exec 3<>/dev/tcp/{address}/22"]
        assert eventually(lambda: not machines.run(0, knock).returncode)  # noqa: B023  called at once
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{client.parent}:{path}"
    try:
        yield Hosts(*machines.names)
    finally:
        os.environ["PATH"] = path
        daemon.end()
