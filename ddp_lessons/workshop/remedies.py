"""Commands that install something into this Python, to run or to show as a learner would type them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ddp_lessons.own_files import COURSE

_THEN = "\nand then: "


def version(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def pip(command: str, *words: str) -> list[str]:
    """pip for this Python, or uv where pip is missing: uvx and pipx make such environments."""
    if uv := _uv_instead_of_pip():
        return [uv, "pip", command, "--python", sys.executable, *words]
    return [sys.executable, "-m", "pip", command, *words]


def install_the_course() -> str:
    return type_these(pip("install", *_the_course()))


def take_both_from_one_index(torch: str | None, torchvision: str | None) -> str:
    """A version such as "2.13.0+cpu" is not from PyPI: uv knows where to find that kind of torch."""
    kind = (torch or torchvision or "").partition("+")[2]
    if kind:
        both = ["--reinstall-package", "torch", "--reinstall-package", "torchvision"]
        words = ["--torch-backend", kind, *both, *_the_course()]
        with_uv = [pip("install", "uv"), [sys.executable, "-m", "uv", "pip", "install", *words]]
        commands = [pip("install", *words)] if _uv_instead_of_pip() else with_uv
    elif torch and torchvision:
        commands = [pip("uninstall", "--yes", "torch", "torchvision"), pip("install", *_the_course())]
    else:
        return install_the_course()
    return f"Install both from the same index. {type_these(*commands)}"


def type_these(*commands: Sequence[str]) -> str:
    """As a learner would type it in this folder."""
    here = f"{Path.cwd()}{os.sep}"
    typed = [shlex.join(word.removeprefix(here) for word in command) for command in commands]
    return f"Run: {_THEN.join(typed)}"


def _uv_instead_of_pip() -> str | None:
    if importlib.util.find_spec("pip") is not None:
        return None
    return "uv" if shutil.which("uv") else os.environ.get("UV") or None


def _the_course() -> list[str]:
    """What pip installs: the packages of a clone, or the package with what it needs."""
    listed = COURSE / "requirements.txt"
    return ["-r", str(listed)] if listed.is_file() else ["ddp-lessons"]
