"""Wheels of a few bytes, called torch, jupyterlab and so on, in a folder that pip takes for its only index.

pip is the real one, and so are its answers to requirements, wheels' names and markers; only what it installs is empty.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import real_wheels
from packaging.requirements import Requirement
from places import leave_out

from offline.wheels import requirements

PROJECT = Path(__file__).parent.parent.parent
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"

# a package that the installer runs says so; torchvision has what the pair is tried with
MAIN = "import sys; print('{name} runs', *sys.argv[1:])"
CODE = {"torch": "def ones(*shape): pass", "torchvision": "class ops:\n    nms = print"}
NEEDS = {
    "torch": ["only-on-linux; sys_platform == 'linux'", "only-on-macos; sys_platform == 'darwin'"],
    "torchvision": ["torch"],
    "jupyterlab": ["backport; python_version < '3.11'"],
}
PINS = [Requirement(line) for line in (PROJECT / "requirements.txt").read_text().splitlines() if line[0] != "#"]
VERSIONS = [(one.name, str(one.specifier)[2:]) for one in PINS if one.name in requirements()]
VERSIONS += [(name, "1.0") for name in ("only-on-linux", "only-on-macos", "backport")]
TORCH, TORCHVISION = (dict(VERSIONS)[name] for name in ("torch", "torchvision"))
NO_NETWORK = ["unshare", "--map-root-user", "--net"]
TORCH_TAGS = (f"{TAG}-{TAG}-manylinux_2_28_x86_64", "cp310-cp310-macosx_11_0_arm64", f"{TAG}-{TAG}-macosx_11_0_arm64")


def write_wheel(
    folder: Path, name: str, version: str, tag: str = "py3-none-any", code: str = "", needs: str = ""
) -> Path:
    """A wheel as pip wants it: code, METADATA, WHEEL and RECORD."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        f"{module}/__init__.py": code,
        f"{module}/__main__.py": MAIN.format(name=name),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(f"{file},,{len(text)}\n" for file, text in files.items()) + f"{info}/RECORD,,\n"
    path = folder / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            packed.writestr(file, text)
    return path


def write_index(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, version in VERSIONS:
        needs = "".join(f"Requires-Dist: {need}\n" for need in NEEDS.get(name, []))
        for tag in TORCH_TAGS if name == "torch" else ("py3-none-any",):
            write_wheel(folder, name, version, tag, CODE.get(name, ""), needs)
    real_wheels.write_wheel(folder, distribution("pip"))
    return folder


def pack(index: Path, folder: Path, *options: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """`make offline`, with that folder as all that pip knows of."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": index.as_uri()} | changes
    command = [sys.executable, "-m", "offline", "--folder", str(folder), *options]
    return subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True)


def install(
    folder: Path, home: Path, *options: str, before: str = "", **changes: str
) -> subprocess.CompletedProcess[str]:
    """install.py as a participant starts it, in a network namespace of its own, in which not even loopback is up."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"} | changes
    command = [*NO_NETWORK, sys.executable, "install.py", *options]
    if before:  # something that has happened to the machine
        command[-len(options) - 1 :] = [
            "-c",
            f"{before}\nimport runpy; runpy.run_path('install.py', run_name='__main__')",
            *options,
        ]
    return subprocess.run(command, cwd=folder, env=environment, text=True, stdout=-1, stderr=subprocess.STDOUT)


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
