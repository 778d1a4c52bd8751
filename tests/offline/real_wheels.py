"""The packages of the environment that runs the tests, as the wheels that they came from; and a Python with torch only.

So real packages are packed and installed without fetching them, whatever `make test` finds of a network. What an index
answers, and what arrives from it, is left to `make test-offline`.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, PackagePath, distribution
from pathlib import Path

from packaging.requirements import Requirement

from offline.wheels import requirements

PROJECT = Path(__file__).parent.parent.parent
TORCH = ("torch", "torchvision")
_MADE_BY_THE_INSTALLER = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")


def required(names: Iterable[str]) -> dict[str, Distribution]:
    """These packages and all that they need here, by name."""
    found: dict[str, Distribution] = {}
    asked, seen = [Requirement(name) for name in names], set[str]()
    while asked:
        one = asked.pop()
        if str(one) in seen:
            continue
        seen.add(str(one))
        package = distribution(one.name)
        found[package.metadata["Name"].lower().replace("_", "-")] = package
        for line in package.requires or []:
            need = Requirement(line)
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ["", *one.extras]):
                asked.append(need)
    return found


def lessons_packages() -> dict[str, Distribution]:
    """All that the lessons need, and pip, without torch and what only torch needs."""
    return required([*requirements(TORCH).values(), "pip"])


def write_index(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for package in lessons_packages().values():
        write_wheel(folder, package)
    return folder


def write_wheel(folder: Path, package: Distribution) -> None:
    """One package. It was built for this machine, whatever older ones its wheel may have named, too."""
    info = next(file.parent for file in package.files or [] if file.name == "METADATA")
    lines = (package.read_text("WHEEL") or "").splitlines()
    tags = [line.removeprefix("Tag: ").split("-") for line in lines if line.startswith("Tag: ")]
    pythons, abis, platforms = (list(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    if platforms != ["any"]:
        platforms.append(f"linux_{platform.machine()}")
    tag = "-".join(".".join(part) for part in (pythons, abis, platforms))
    path = folder / f"{str(info).removesuffix('.dist-info')}-{tag}.whl"
    record = []
    with zipfile.ZipFile(path, "w") as packed:
        for file in package.files or []:
            place = _place_in_wheel(file, str(info), package)
            if not place or file.suffix == ".pyc" or (file.name in _MADE_BY_THE_INSTALLER and file.parent == info):
                continue
            content = Path(str(file.locate())).read_bytes()
            if (
                file.name == "METADATA" and file.parent == info
            ):  # a folder is made for the first release of this Python,
                content = re.sub(rb"^Requires-Python:.*\n", b"", content, flags=re.MULTILINE)  # and this may be a later
            packed.writestr(place, content)
            record.append(f'"{place}",,{len(content)}\n')
        packed.writestr(f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n")


def _place_in_wheel(file: PackagePath, info: str, package: Distribution) -> str:
    """Beside the packages: programs, which pip makes anew where a wheel only names them, and data (share, etc)."""
    if file.parts[0] != "..":
        return str(file)
    top, *rest = [part for part in file.parts if part != ".."]
    data = info.replace(".dist-info", ".data")
    if top != "bin":
        return f"{data}/data/{'/'.join([top, *rest])}"
    named = {entry.name for entry in package.entry_points if entry.group in ("console_scripts", "gui_scripts")}
    by_pip = {"pip3", f"pip3.{sys.version_info[1]}"}
    return "" if rest[-1] in named | by_pip else f"{data}/scripts/{rest[-1]}"


def python_with_torch(folder: Path) -> Path:
    """What a participant may have already: a Python with torch, torchvision and what they need, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    for package in required(TORCH).values():
        for top in sorted({file.parts[0] for file in package.files or []} - {"..", "__pycache__"}):
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(package.locate_file(top))))
    return folder / "bin" / "python"
