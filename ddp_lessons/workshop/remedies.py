"""What a learner would type on this machine to repair it, and which release of a package is there."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from ddp_lessons.own_files import COURSE


def how_to_take_both_from_one_place(torch: str | None, torchvision: str | None) -> str:
    """A version such as "2.13.0+cpu" is not from PyPI: uv knows where to find that kind of torch."""
    kind = (torch or torchvision or "").partition("+")[2]
    if kind:
        both = f"--torch-backend {kind} --reinstall-package torch --reinstall-package torchvision {_the_course()}"
        if not _has_pip() and find_uv():
            return f"Install both from the same index. Type: {pip('install')} {both}"
        first, then = pip("install uv"), f"{python_as_typed()} -m uv pip install {both}"
    elif torch and torchvision:
        first, then = f"{pip('uninstall')} --yes torch torchvision", install()
    else:
        return f"Type: {install()}"
    return f"Install both from the same index. Type: {first}\nand then: {then}"


def two_numbers(release: str) -> str:
    return ".".join(release.split(".")[:2])


def version(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def install() -> str:
    return f"{pip('install')} {_the_course()}"


def pip(command: str) -> str:
    """pip for this Python, as a learner would type it here; uvx and pipx make environments without pip."""
    if not _has_pip() and (uv := find_uv()):
        return f"{uv} pip {command} --python {python_as_typed()}"
    return f"{python_as_typed()} -m pip {command}"


def find_uv() -> str | None:
    return "uv" if shutil.which("uv") else os.environ.get("UV") or None


def _has_pip() -> bool:
    return importlib.util.find_spec("pip") is not None


def python_as_typed() -> str:
    """This Python, as a learner would type it here."""
    return _as_typed(Path(sys.executable))


def _the_course() -> str:
    """What pip installs: the packages of a clone, or the package with what it needs."""
    listed = COURSE / "requirements.txt"
    return f"-r {_as_typed(listed)}" if listed.is_file() else "ddp-lessons"


def _as_typed(path: Path) -> str:
    """The path as a learner would type it here."""
    path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f'"{path}"' if " " in str(path) else str(path)
