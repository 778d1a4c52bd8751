"""Run pip as if on another system: python -m tools.offline.pip_for macos 3.12 download ...

pip's --platform chooses wheels for another system. But with `appnope; sys_platform == "darwin"` and `pyinotify;
sys_platform == "linux"`, pip chooses the requirement of the machine that it runs on, so we replace these markers, too.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def _manylinux(machine: str) -> tuple[str, ...]:
    """The tags of wheels built for this system's C library or an older one. torch needs glibc 2.28 (2018)."""
    years = (f"manylinux{year}_{machine}" for year in ("1", "2010", "2014"))
    return (*(f"manylinux_2_{minor}_{machine}" for minor in range(28, 4, -1)), *years, f"linux_{machine}")


@dataclass(frozen=True)
class System:
    """What pip would see on such a machine: wheel tags and the values of requirement markers."""

    words: str
    platforms: tuple[str, ...]
    markers: dict[str, str]

    def options(self, python: str) -> list[str]:
        platforms = [option for platform in self.platforms for option in ("--platform", platform)]
        return ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *platforms]

    def answers(self, python: str) -> dict[str, str]:
        """The markers for the first release of each Python version, so that all needed backports are included."""
        return {
            **self.markers,
            "os_name": "posix",
            "python_version": python,
            "python_full_version": f"{python}.0",
            "implementation_version": f"{python}.0",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_version": "",
        }


def _markers(sys_platform: str, system: str, machine: str) -> dict[str, str]:
    return {"sys_platform": sys_platform, "platform_system": system, "platform_machine": machine}


SYSTEMS = {
    "linux": System("Linux x86_64", _manylinux("x86_64"), _markers("linux", "Linux", "x86_64")),
    "linux-arm": System("Linux aarch64", _manylinux("aarch64"), _markers("linux", "Linux", "aarch64")),
    "macos": System("macOS arm64", ("macosx_14_0_arm64",), _markers("darwin", "Darwin", "arm64")),
}


def main() -> int:
    from pip._internal.cli.main import main as pip
    from pip._vendor.packaging import markers

    system, python, command, *options = sys.argv[1:]
    answers = SYSTEMS[system].answers(python)
    markers.default_environment = lambda: dict(answers)
    for name, answer in answers.items():
        if not markers.Marker(f'{name} == "{answer}"').evaluate():  # another pip version may look elsewhere
            print(f"This version of pip ignores our marker {name} = {answer!r}.", file=sys.stderr)
            return 3
    status: int = pip([command, *SYSTEMS[system].options(python), *options])
    return status


if __name__ == "__main__":
    sys.exit(main())
