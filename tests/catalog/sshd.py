"""Machines that a real sshd reaches: simulated nodes, each with one, for `launch(..., on=Hosts(...))`."""

import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ddp_lessons import Hosts
from ddp_lessons.machines import Machines

SSHD = Path("/usr/sbin/sshd")
_SECONDS_TO_LISTEN = 20.0
_CLIENT = """\
#!/bin/sh
exec {enter} /usr/bin/ssh -F /dev/null "$@"
"""


@contextmanager
def reached_by_ssh(machines: Machines, folder: Path) -> Iterator[Hosts]:
    """ssh starts in the first node's network, where it reaches all of them. `folder` gets the keys.

    It has the key "mine", which the nodes accept, and "strange", which they don't.
    """
    for name in ("host", "mine", "strange"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "authorized").write_text((folder / "mine.pub").read_text())
    (folder / "authorized").chmod(0o600)
    Path("/run/sshd").mkdir(exist_ok=True)
    settings = [f"HostKey={folder}/host", f"AuthorizedKeysFile={folder}/authorized", "StrictModes=no", "UsePAM=no"]
    options = " ".join(f"-o {setting}" for setting in settings)
    daemon = machines.start(f"{SSHD} -D -e -f /dev/null {options}")
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known").write_text("".join(f"{name} {key}\n" for name in machines.names))
    client = folder / "bin" / "ssh"
    client.parent.mkdir()
    client.write_text(_CLIENT.format(enter=shlex.join(machines.command(0, []))))
    client.chmod(0o755)
    _wait_until_it_listens(machines)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{client.parent}:{path}"
    try:
        yield Hosts(*machines.names, through=f"{client} -T {' '.join(own_key(folder))} -- {{host}}")
    finally:
        os.environ["PATH"] = path
        daemon.end()


def own_key(folder: Path) -> tuple[str, ...]:
    """The options of ssh by which it is let in."""
    return f"-oUserKnownHostsFile={folder}/known", f"-oIdentityFile={folder}/mine", "-oIdentitiesOnly=yes"


def _wait_until_it_listens(machines: Machines) -> None:
    end = time.monotonic() + _SECONDS_TO_LISTEN
    for address in machines.addresses:
        while machines.run(0, ["bash", "-c", f"exec 3<>/dev/tcp/{address}/22"]).returncode:
            assert time.monotonic() < end, "sshd does not listen"
