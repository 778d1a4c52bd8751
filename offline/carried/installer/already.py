"""Packages that the folder leaves out because participants have them: find them in the Python that installs."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping
from pathlib import Path

from .folder import HERE, Refused


def look_for(without: Mapping[str, str]) -> None:
    """Raise Refused if this Python lacks one of these packages, or has a version that the lessons don't support."""
    faults = [fault for name, line in without.items() if (fault := _fault(name, line))]
    if faults:
        both = " and ".join(without)
        raise Refused(
            f"This folder comes without {both}, since you should have them already. In {sys.executable}\n"
            + "\n".join(faults)
            + f"\nStart install.py with the Python that has {both}, or ask for a folder with all wheels."
        )


def _fault(name: str, line: str) -> str:
    version = next((one.version for one in importlib.metadata.distributions(name=name, path=_folders())), None)
    if version is None:
        return f"  {name} is not installed."
    sys.path.insert(0, str(next((HERE / "wheels").glob("pip-*.whl"))))  # pip can read a requirement
    try:
        from pip._vendor.packaging.requirements import Requirement

        fits = Requirement(line).specifier.contains(version, prereleases=True)
    finally:
        del sys.path[0]
    return "" if fits else f"  {name} is {version}, and the lessons need {line}."


def _folders() -> list[str]:
    """The package folders of this Python: its own, the user's, and Debian's."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def lend_to(packages: Path) -> None:
    """Let the environment also find the packages of this Python, after its own."""
    # an import line in ASCII, because Pythons differ in how they read a plain path with an accent
    line = f"import sys; sys.path.extend({_folders()!a})\n"
    (packages / "already_here.pth").write_text(line, encoding="ascii")
