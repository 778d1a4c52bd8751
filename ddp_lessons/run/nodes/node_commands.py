"""What starts an agent on a node, and whether the node has the same Python, torch and package as the notebook."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ddp_lessons import __version__
from ddp_lessons.own_files import IMPORTED_FROM
from ddp_lessons.run.diagnosis.missing_on_nodes import install_command, version_here
from ddp_lessons.run.wire.relayed import Hello


class NodeLost(RuntimeError):
    """A node could not be reached, or is gone; the message says which one and why."""

    @property
    def headline(self) -> str:
        """Its first sentence."""
        return str(self).partition("\n")[0].removesuffix(".")

    def _render_traceback_(self) -> list[str]:
        return [f"NodeLost: {self}"]


class WaitStopped(KeyboardInterrupt):
    """You stopped the cell before the nodes were ready; the message says what was undone."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


class NodeCommand(NamedTuple):
    """The command that starts an agent on a node. The agent talks through the command's stdin and stdout."""

    node: str
    command: Sequence[str]
    python: str = ""  # for messages: the command by which you run Python there, if that is known
    why_ended: Callable[[], str] = str  # asked when the connection is lost; "" if the command's last line says why


class Nodes(Protocol):
    """Anything that `launch(..., on=...)` takes."""

    def commands(self) -> Sequence[NodeCommand]: ...


def agent_command(python: str = sys.executable) -> list[str]:
    """The command for the node itself. The package is installed there, or in the same place as here."""
    code = f"import sys; sys.path.append({IMPORTED_FROM!a}); from ddp_lessons.run.nodes import agent; agent.serve()"
    return [python, "-u", "-c", code]


def check_same(node: str, python_there: str, hello: Hello) -> None:
    """Functions and tensors travel as pickles, so the node needs what the notebook has.

    Raises:
        NodeLost: it has something else.
    """
    python, torch = ".".join(map(str, sys.version_info[:2])), importlib.metadata.version("torch")
    needed = f"torch=={version_here('torch')}"
    if hello.version != __version__:
        raise NodeLost(
            f"{node} has ddp-lessons {hello.version}, and this notebook {__version__}. "
            f"Next: install the same version: {install_command(node, python_there, f'ddp-lessons=={__version__}')}"
        )
    if not hello.python.startswith(f"{python}."):
        raise NodeLost(
            f"{node} runs Python {hello.python}, and this notebook {python}: functions can't be sent between them. "
            f"Next: install Python {python} there, and pass its path"
        )
    if _release(hello.torch) != _release(torch):
        raise NodeLost(
            f"{node} has torch {hello.torch}, and this notebook {torch}: tensors can't be sent between them safely. "
            f"Next: install the same release: {install_command(node, python_there, needed)}"
        )


def _release(version: str) -> str:
    """Its first two numbers: what follows fixes mistakes, or names the build."""
    return ".".join(version.split(".")[:2])
