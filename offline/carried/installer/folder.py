"""The packed folder: for which machines it has wheels, and whether this copy is complete."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import struct
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
SUMS = "SHA256SUMS"
_SHOWN = 10


class Refused(Exception):
    """The lessons can't be installed this way; the message says why, and what to do."""


@dataclass(frozen=True)
class Contents:
    """The content of contents.json, which was written during packing."""

    words: dict[str, str]  # the name of each system
    sets: dict[str, list[str]]  # "linux 3.11" and its wheels
    pins: dict[str, list[str]]
    installed_bytes: dict[str, int]
    without: dict[str, str]  # "torch" and the required versions, which this machine must have already


def read() -> Contents:
    return Contents(**json.loads((HERE / "contents.json").read_text(encoding="utf-8")))


def set_for_this_machine(contents: Contents) -> str:
    """The set of wheels for this machine. Raise Refused if there is none."""
    system, machine, python = (
        platform.system(),
        platform.machine().lower(),
        f"{sys.version_info[0]}.{sys.version_info[1]}",
    )
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    kinds = {
        ("Linux", "x86_64"): "linux",
        ("Linux", "aarch64"): "linux-arm",
        ("Darwin", "aarch64"): "macos",
    }
    kind = kinds.get((system, machine), "")
    there = ", ".join(contents.words[name] for name in sorted({name.split()[0] for name in contents.sets}))
    if kind not in {name.split()[0] for name in contents.sets}:
        this = {"Darwin": "macOS"}.get(system, system)
        raise Refused(f"This machine is {this} {platform.machine()}, but this folder has wheels for: {there}.")
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8 or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise Refused("The wheels are for the usual 64-bit Python from python.org or your system, but this is not one.")
    if f"{kind} {python}" not in contents.sets:
        fitting = ", ".join(name.split()[1] for name in contents.sets if name.startswith(f"{kind} "))
        raise Refused(f"For {contents.words[kind]} this folder has wheels for Python {fitting}, but this is {python}.")
    _look_at_the_systems_age(contents.sets[f"{kind} {python}"])
    return f"{kind} {python}"


def _look_at_the_systems_age(wheels: Iterable[str]) -> None:
    """A wheel's name contains the oldest C library, or macOS, that it supports; of several, the oldest applies."""
    if platform.system() == "Linux":
        library, release = platform.libc_ver()
        if library != "glibc":
            raise Refused("The wheels need a Linux with glibc (Debian, Ubuntu, Fedora and most others; not Alpine).")
        pattern, here, what = r"manylinux_(\d+)_(\d+)", release, "glibc"
    elif platform.system() == "Darwin":
        pattern, here, what = r"macosx_(\d+)_(\d+)", platform.mac_ver()[0], "macOS"
    else:
        return
    oldest = [min(_two_numbers(found)) for wheel in wheels if (found := re.findall(pattern, wheel))]
    needed = max(oldest, default=(0, 0))
    if tuple(map(int, here.split(".")[:2])) < needed:
        raise Refused(f"The wheels need {what} {needed[0]}.{needed[1]} or newer, but this machine has {here}.")


def _two_numbers(found: Iterable[tuple[str, str]]) -> list[tuple[int, int]]:
    return [(int(first), int(second)) for first, second in found]


def check_copy(contents: Contents, chosen: str) -> None:
    """Raise Refused if a file that is needed here has changed. Wheels for other machines are not checked."""
    others = {wheel for name, wheels in contents.sets.items() if name != chosen for wheel in wheels}
    not_needed = {f"wheels/{wheel}" for wheel in others - set(contents.sets[chosen])}
    sums = read_sums()
    expected = {f"wheels/{wheel}" for wheel in contents.sets[chosen]} | {"contents.json"}
    if not expected <= set(sums):
        raise Refused(f"The list of checksums, {SUMS}, is missing or incomplete: copy the whole folder again.")
    faults = [f"  {name} {fault}" for name in sorted(set(sums) - not_needed) if (fault := _fault(name, sums[name]))]
    if faults:
        more = [f"  and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
        raise Refused("\n".join(["This copy is incomplete or damaged. Copy again:", *faults[:_SHOWN], *more]))
    if strangers := sorted(_files() - set(sums)):
        more = [f"  and {len(strangers) - _SHOWN} more"] if len(strangers) > _SHOWN else []
        listed = [f"  {name!a}" for name in strangers[:_SHOWN]]
        raise Refused(
            "\n".join(["These files are not part of this folder. Remove them, or copy again:", *listed, *more])
        )


def read_sums() -> dict[str, str]:
    """The SHA-256 of each file that was packed, by its name in this folder."""
    lines = (HERE / SUMS).read_text(encoding="utf-8").splitlines() if (HERE / SUMS).is_file() else []
    return {name: total for total, _, name in (line.partition("  ") for line in lines)}


def _files() -> set[str]:
    """The files to install or copy, without files that operating systems leave on a stick."""
    found = [file for part in ("wheels", "project") for file in (HERE / part).rglob("*") if file.is_file()]
    left_behind = {"Thumbs.db", "desktop.ini"}
    return {
        file.relative_to(HERE).as_posix()
        for file in found
        if file.name not in left_behind and not file.name.startswith((".DS_Store", "._"))
    }


def _fault(name: str, expected: str) -> str:
    total = hashlib.sha256()
    try:
        with (HERE / name).open("rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return "" if total.hexdigest() == expected else "is damaged or incomplete"
