"""What the folder comes without, because participants have it: find it in the Python that installs, and lend it."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping
from pathlib import Path

from .folder import HERE, Refused


def look_for(without: Mapping[str, str]) -> None:
    """Raise Refused where this Python has none of these packages, or another version than the lessons require."""
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
    sys.path.insert(0, str(next((HERE / "wheels").glob("pip-*.whl"))))  # pip knows how to read a requirement
    try:
        from pip._vendor.packaging.requirements import Requirement

        fits = Requirement(line).specifier.contains(version, prereleases=True)
    finally:
        del sys.path[0]
    return "" if fits else f"  {name} is {version}, and the lessons need {line}."


def _folders() -> list[str]:
    """Where this Python has its packages: its own, the user's, and Debian's."""
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]


def lend_to(packages: Path) -> None:
    """After its own packages, which come first, the environment finds those of this Python."""
    # a line that is run, of ASCII only: a plain path with an accent would be read differently by different Pythons
    line = f"import sys; sys.path.extend({_folders()!a})\n"
    (packages / "already_here.pth").write_text(line, encoding="ascii")
