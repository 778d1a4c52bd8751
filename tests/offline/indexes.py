"""Folders that pip takes for its only index, of real and of empty packages; a machine without a network.

So wheels are packed and installed without fetching them. pip is the real one, and so are its answers to requirements,
names of wheels and markers.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, PackagePath, distribution
from pathlib import Path

from packaging.requirements import Requirement
from places import leave_out

from tools.offline.__main__ import PAIR, TESTED, requirements, this_python

PROJECT = Path(__file__).parent.parent.parent
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
NO_NETWORK = ["unshare", "--map-root-user", "--net"]
TO_BUILD = "setuptools"  # the course's own wheel
PINS = [Requirement(line) for line in TESTED.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
VERSIONS = [(one.name, str(one.specifier)[2:]) for one in PINS if one.name in requirements()]
# a folder is made for the first release of this Python; the packages here are those of a later one
FIRST = {"python_full_version": f"{this_python()}.0"}
PINNED = {one.name: str(one.specifier)[2:] for one in PINS if one.marker is None or one.marker.evaluate(FIRST)}
TORCH, TORCHVISION = (dict(VERSIONS)[name] for name in PAIR)

_MADE_BY_THE_INSTALLER = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
_TORCH_TAGS = (f"{TAG}-{TAG}-manylinux_2_28_x86_64", "cp310-cp310-macosx_11_0_arm64")
_CODE = {
    "torch": "def ones(*shape): pass",
    "torchvision": "class ops:\n    nms = print",
}  # `ddp-lessons pair` calls these
_NEEDS = {
    "torch": ["only-on-linux; sys_platform == 'linux'", "only-on-macos; sys_platform == 'darwin'"],
    "torchvision": ["torch"],
    "jupyterlab": ["backport; python_version < '3.11'"],
}


def needs_a_namespace() -> None:
    """A machine without a network is made of a namespace: where there can be none, this test is left out."""
    if sys.platform != "linux":
        leave_out("network namespaces are Linux's", can_be_installed=False)
    for command in ("unshare", "ip"):
        if shutil.which(command) is None:
            leave_out(f"there is no command {command}")
    trial = subprocess.run([*NO_NETWORK, "true"], capture_output=True, text=True)
    if trial.returncode:
        leave_out(f"this system lets nobody make a network of their own: {trial.stderr}", can_be_installed=False)


def pack(index: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`make offline`, with that folder as all that pip knows of."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment |= {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": index.as_uri(),
        "PIP_RETRIES": "0",
    }
    command = [sys.executable, "-m", "tools.offline", "--folder", str(folder), *options]
    return subprocess.run(command, cwd=PROJECT, env=environment, text=True, stdout=-1, stderr=subprocess.STDOUT)


def install(folder: Path, home: Path, *options: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """install.py, in a network namespace of its own, in which not even loopback is up.

    `before` is Python code: something that has happened to the machine.
    """
    start = ["-c", f"{before}\nimport runpy; runpy.run_path('install.py', run_name='__main__')"]
    command = [*NO_NETWORK, sys.executable, *(start if before else ["install.py"]), *options]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    return subprocess.run(command, cwd=folder, env=environment, text=True, stdout=-1, stderr=subprocess.STDOUT)


def small_index(folder: Path) -> Path:
    """Empty packages, called as the real ones."""
    folder.mkdir(parents=True)
    for name, version in [
        *VERSIONS,
        *((name, "1.0") for name in ("only-on-linux", "only-on-macos", "backport")),
    ]:
        for tag in _TORCH_TAGS if name == "torch" else ("py3-none-any",):
            _write_small_wheel(folder, name, version, tag)
    for name in ("pip", TO_BUILD):
        _write_real_wheel(folder, distribution(name))
    return folder


def _write_small_wheel(folder: Path, name: str, version: str, tag: str) -> None:
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {need}\n" for need in _NEEDS.get(name, []))
    files = {
        f"{module}/__init__.py": _CODE.get(name, ""),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{file},,{len(text)}\n" for file, text in files.items()) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{module}-{version}-{tag}.whl", "w") as packed:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            packed.writestr(file, text)


def real_index(folder: Path) -> Path:
    """The packages of the environment that runs the tests, without torch and what only torch needs."""
    folder.mkdir(parents=True)
    for package in required(line for name, line in requirements().items() if name not in PAIR):
        _write_real_wheel(folder, package)
    for name in ("pip", TO_BUILD):
        _write_real_wheel(folder, distribution(name))
    return folder


def python_with_torch(folder: Path) -> Path:
    """What a participant may have already: a Python with torch, torchvision and what they need, and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    for package in required(PAIR):
        for top in sorted({file.parts[0] for file in package.files or []} - {"..", "__pycache__"}):
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(package.locate_file(top))))
    return folder / "bin" / "python"


def required(lines: Iterable[str]) -> list[Distribution]:
    """These packages and all that they need here."""
    found: dict[str, Distribution] = {}
    asked, seen = [Requirement(line) for line in lines], set[str]()
    while asked:
        one = asked.pop()
        if str(one) not in seen:
            seen.add(str(one))
            found[one.name.lower().replace("_", "-")] = package = distribution(one.name)
            needs = map(Requirement, package.requires or [])
            extras = ["", *one.extras]
            asked += [
                need for need in needs if not need.marker or any(need.marker.evaluate({"extra": of}) for of in extras)
            ]
    return list(found.values())


def _write_real_wheel(folder: Path, package: Distribution) -> None:
    """The wheel that a package came from. It was built for this machine, whatever older ones it may have named, too."""
    info = next(file.parent for file in package.files or [] if file.name == "METADATA")
    name, here = str(info).removesuffix(".dist-info").split("-")
    version = PINNED.get(package.metadata["Name"].lower(), here)
    new_info = f"{name}-{version}.dist-info"
    tags = [line[5:].split("-") for line in (package.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    pythons, abis, platforms = (list(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    if platforms != ["any"]:
        platforms.append(f"linux_{platform.machine()}")
    tag = "-".join(".".join(part) for part in (pythons, abis, platforms))
    record = []
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as packed:
        for file in package.files or []:
            place = _place_in_wheel(file, str(info), package)
            if not place or file.suffix == ".pyc" or (file.name in _MADE_BY_THE_INSTALLER and file.parent == info):
                continue
            content = Path(str(file.locate())).read_bytes()
            if file.name == "METADATA" and file.parent == info:
                content = re.sub(rb"^Requires-Python:.*\n", b"", content, flags=re.MULTILINE)
                content = content.replace(f"\nVersion: {here}\n".encode(), f"\nVersion: {version}\n".encode())
            place = place.replace(str(info), new_info)
            packed.writestr(place, content)
            record.append(f'"{place}",,{len(content)}\n')
        packed.writestr(f"{new_info}/RECORD", "".join(record) + f"{new_info}/RECORD,,\n")


def _place_in_wheel(file: PackagePath, info: str, package: Distribution) -> str:
    """Outside the packages: programs, which pip makes anew where a wheel only names them, and data (share, etc)."""
    if file.parts[0] != "..":
        return str(file)
    top, *rest = [part for part in file.parts if part != ".."]
    data = info.replace(".dist-info", ".data")
    if top != "bin":
        return f"{data}/data/{'/'.join([top, *rest])}"
    named = {entry.name for entry in package.entry_points if entry.group in ("console_scripts", "gui_scripts")}
    by_pip = {"pip3", f"pip{this_python()}"}
    return "" if rest[-1] in named | by_pip else f"{data}/scripts/{rest[-1]}"
