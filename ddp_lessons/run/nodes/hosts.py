"""Machines that ssh reaches."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence

from ddp_lessons.run.nodes.node_commands import NodeCommand, NodeLost, agent_command

_OPTIONS = ("BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=5", "ServerAliveCountMax=3")


class Hosts:
    """Machines that ssh reaches without asking for a password: `launch(train, 4, on=Hosts("alpha", "beta"))`.

    The names are those that you give to ssh, so ~/.ssh/config applies. Each machine needs the same Python and the same
    version of this package. `python` is the path of the Python there; by default the same as here.
    """

    def __init__(self, *names: str, python: str = sys.executable, options: Sequence[str] = ()) -> None:
        if not names:
            raise ValueError('Hosts needs the names of the machines, such as Hosts("alpha", "beta")')
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"each machine can be named once, but these are named twice: {', '.join(sorted(twice))}")
        if wrong := [name for name in names if not isinstance(name, str) or not name or name.startswith("-")]:
            raise ValueError(f"{wrong[0]!r} is no name of a machine")
        self._names, self._python, self._options = names, python, tuple(options)

    def __repr__(self) -> str:
        return f"Hosts({', '.join(map(repr, self._names))})"

    def commands(self) -> list[NodeCommand]:
        if shutil.which("ssh") is None:
            raise NodeLost(
                "this machine has no ssh. Next: install it; on Debian and Ubuntu: apt-get install openssh-client"
            )
        agent = shlex.join(agent_command(self._python))
        settings = [word for option in _OPTIONS for word in ("-o", option)]
        return [
            NodeCommand(
                name,
                ["ssh", "-T", *self._options, *settings, "--", name, agent],
                python=shlex.join(["ssh", *self._options, name, shlex.quote(self._python)]),
            )
            for name in self._names
        ]
