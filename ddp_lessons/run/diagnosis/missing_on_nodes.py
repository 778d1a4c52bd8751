"""What to do next if a rank on another node lacks what this machine has: a package, or a file."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Mapping

from ddp_lessons.run.diagnosis.wording import joined
from ddp_lessons.run.wire.messages import Raised

_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(\w+)")


def what_is_missing_there(how: Raised, nodes: Mapping[str, str]) -> str:
    """The next step; "" if nothing is missing. `nodes`: where it failed, and the command that runs Python there."""
    if not nodes:
        return ""
    if how.kind == "FileNotFoundError":
        return (
            f"pass the data as an argument of launch, or use a folder that all nodes share: files of this machine do "
            f"not travel to {joined(list(nodes))}."
        )
    found = _NO_MODULE.search(f"{how.kind}: {how.message}")
    return _about_a_package(found[1], nodes) if found else ""


def install_command(node: str, python: str, requirement: str) -> str:
    """To copy, if it is known how to run Python there."""
    return f"`{python} -m pip install {requirement}`" if python else f"`pip install {requirement}` on {node}"


def command_there(node: str, python: str, module: str) -> str:
    """To copy. A module, because a shell on the node would take the quotes of `-c "..."` away."""
    return f"`{python} -m {module}`" if python else f"`python -m {module}` on {node}"


def version_here(distribution: str) -> str:
    """Without the part after the +, which only the package's own index knows."""
    return importlib.metadata.version(distribution).partition("+")[0]


def _about_a_package(name: str, nodes: Mapping[str, str]) -> str:
    where = joined(list(nodes))
    try:
        is_here = importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # not made from a file
        is_here = False
    if not is_here:
        return ""
    requirements = importlib.metadata.packages_distributions().get(name, [])
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        requirements = [f"{one}=={version_here(one)}" for one in requirements]
    if not requirements:
        return (
            f"install {name} on {where}. Of what is not installed, only Python files travel to nodes, and {name} is "
            "something else."
        )
    requirement = requirements[0]
    commands = [install_command(node, python, requirement) for node, python in nodes.items()]
    return f"install {requirement} on {where}, as on this machine: {joined(commands)}."
