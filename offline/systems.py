"""The systems that a folder can be built for: their names, their wheels, and the values that pip uses for them."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass

PYTHONS = ("3.10", "3.11", "3.12", "3.13")

# A wheel names its C library; a system accepts all versions up to its own. torch itself needs 2.28 (2018).
_GLIBC = 28
_MANYLINUX = {"1": 5, "2010": 12, "2014": 17}


class NotPacked(Exception):
    """The folder could not be built; the message says why, and what to do."""


@dataclass(frozen=True)
class System:
    """What pip would see on such a machine: the tags of wheels, and the values of requirement markers."""

    name: str
    words: str
    platforms: tuple[str, ...]
    markers: tuple[str, str, str, str]  # os_name, sys_platform, platform_system, platform_machine

    def answers(self, python: str) -> dict[str, str]:
        """The markers for the first release of each Python, so that every needed backport is included."""
        names = ("os_name", "sys_platform", "platform_system", "platform_machine")
        return {
            **dict(zip(names, self.markers, strict=True)),
            "python_version": python,
            "python_full_version": f"{python}.0",
            "implementation_version": f"{python}.0",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_version": "",
        }


def _manylinux(machine: str) -> tuple[str, ...]:
    named = [f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC, 4, -1)]
    return (*named, *(f"manylinux{year}_{machine}" for year in _MANYLINUX), f"linux_{machine}")


SYSTEMS = {
    system.name: system
    for system in (
        System("linux", "Linux x86_64", _manylinux("x86_64"), ("posix", "linux", "Linux", "x86_64")),
        System("linux-arm", "Linux aarch64", _manylinux("aarch64"), ("posix", "linux", "Linux", "aarch64")),
        System("macos", "macOS arm64", ("macosx_14_0_arm64",), ("posix", "darwin", "Darwin", "arm64")),
    )
}


def asked_for(systems: Sequence[str], pythons: Sequence[str]) -> list[tuple[System, str]]:
    """Every pair of system and Python; by default this machine and this Python."""
    systems = systems or [this_system()]
    pythons = pythons or [f"{sys.version_info.major}.{sys.version_info.minor}"]
    for what, given, known in (("system", systems, SYSTEMS), ("Python", pythons, PYTHONS)):
        if unknown := [name for name in given if name not in known]:
            raise NotPacked(f"No {what} {', '.join(unknown)} is known here. There are: {', '.join(known)}.")
    return [(SYSTEMS[system], python) for system in dict.fromkeys(systems) for python in dict.fromkeys(pythons)]


def this_system() -> str:
    for system in SYSTEMS.values():
        if system.markers[2:] == (platform.system(), platform.machine()):
            return system.name
    raise NotPacked(
        f"This machine is {platform.system()} {platform.machine()}, for which no wheels are packed. "
        f"Say for which: make offline FOR=linux (there are: {', '.join(SYSTEMS)})."
    )
