"""Machines that can be reached by a command such as ssh, and what every node needs."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import resource
import shlex
import sys
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ddp_lessons import __version__

SECONDS_TO_START = 120.0  # for the agent on a node, which imports torch first
_SSH = "ssh -T -oBatchMode=yes -oConnectTimeout=15 -oServerAliveInterval=5 -oServerAliveCountMax=3 -- {host}"


class NodeLost(RuntimeError):
    """A node can't be reached or was lost; the message says which one and why."""

    @property
    def headline(self) -> str:
        """Its first sentence."""
        return str(self).partition("\n")[0].removesuffix(".")

    def _render_traceback_(self) -> list[str]:
        return [f"NodeLost: {self}"]


class WaitStopped(KeyboardInterrupt):
    """The stop button was pressed while a launch waited for nodes."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


class NodeCommand(NamedTuple):
    """The command that gives a shell on a node. An agent starts there, and communicates over stdin and stdout."""

    node: str
    command: Sequence[str]
    python: str = sys.executable  # the path of the Python there
    shown: str = ""  # for messages: the words by which you run a command there


class Nodes(Protocol):
    """Anything that `launch(..., on=...)` takes."""

    def commands(self) -> Sequence[NodeCommand]: ...


class Hosts:
    """Machines that ssh reaches without asking for a password: `launch(train, 4, on=Hosts("alpha", "beta"))`.

    The names are those that you give to ssh, so ~/.ssh/config applies. Each machine needs the same Python, and the same
    versions of torch and this package. `python` is the path of Python there, by default the same as here.

    `through` is the command to use instead of ssh, such as "docker exec -i {host}" for containers,
    "kubectl exec -i {host} --" for the pods of a Kubernetes cluster, or ssh with your own options.
    """

    def __init__(self, *names: str, python: str = sys.executable, through: str = _SSH) -> None:
        if wrong := [name for name in names if not isinstance(name, str) or not name or name.startswith("-")]:
            raise ValueError(f"{wrong[0]!r} is not the name of a machine")
        if not names or len(set(names)) < len(names):
            raise ValueError('Hosts needs the name of each machine once, as in Hosts("alpha", "beta")')
        self._names, self._python, self._through = names, python, shlex.split(through)

    def __repr__(self) -> str:
        return f"Hosts({', '.join(map(repr, self._names))})"

    def commands(self) -> list[NodeCommand]:
        ways = [(name, [word.replace("{host}", name) for word in self._through]) for name in self._names]
        return [NodeCommand(name, [*way, "sh"], self._python, shlex.join(way)) for name, way in ways]


def versions() -> dict[str, str]:
    """What a node needs as the notebook has it, because functions and tensors travel as pickles."""
    torch = importlib.metadata.version("torch")
    return {"Python": platform.python_version(), "torch": torch, "ddp-lessons": __version__}


def allow_open_files() -> None:
    """As many as the system lets this process have: each rank needs some."""
    with contextlib.suppress(OSError, ValueError):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
