"""What a learner would type on this machine to repair it, and which release of a package is there."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

from ddp_lessons.own_files import IMPORTED_FROM

PROJECT = Path(IMPORTED_FROM)


def how_to_take_both_from_one_place(torch: str | None, torchvision: str | None) -> str:
    """A version such as "2.13.0+cpu" is not from PyPI: uv knows where to find that kind of torch."""
    kind = (torch or torchvision or "").partition("+")[2]
    if kind:
        both = f"--torch-backend {kind} --reinstall-package torch --reinstall-package torchvision"
        first, then = (
            f"{python_as_typed()} -m pip install uv",
            f"{python_as_typed()} -m uv pip install {both} -r {_requirements()}",
        )
    elif torch and torchvision:
        first, then = f"{python_as_typed()} -m pip uninstall --yes torch torchvision", install()
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
    return f"{python_as_typed()} -m pip install -r {_requirements()}"


def python_as_typed() -> str:
    """This Python, as a learner would type it here."""
    return _as_typed(Path(sys.executable))


def _requirements() -> str:
    return _as_typed(PROJECT / "requirements.txt")


def _as_typed(path: Path) -> str:
    """The path as a learner would type it here."""
    path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f'"{path}"' if " " in str(path) else str(path)
