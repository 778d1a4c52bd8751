"""`make offline`: download the wheels for each system and Python version into a folder that installs them."""

from __future__ import annotations

import argparse
import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from itertools import product
from pathlib import Path

from packaging.requirements import Requirement

from tools.offline.pip_for import PYTHONS, SYSTEMS

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
TESTED = PROJECT / "requirements.txt"
EXTRAS = ("lab", "test")
PAIR = ("torch", "torchvision")  # what `--without torch` leaves out, with their own dependencies
TORCH_INDEX = "https://download.pytorch.org/whl/"  # followed by the kind of build: cpu, cu130, ...


class NotPacked(Exception):
    """The folder could not be built; the message says why and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.offline", description=__doc__)
    parser.add_argument(
        "--for",
        dest="systems",
        action="append",
        choices=SYSTEMS,
        help="system, repeatable (default: this one)",
    )
    parser.add_argument(
        "--python", dest="pythons", action="append", choices=PYTHONS, help="version, repeatable (default: this one)"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--torch", metavar="KIND", help="kind of torch build from PyTorch's server, such as cpu")
    which.add_argument("--without", choices=["torch"], help="torch: leave out torch and torchvision")
    parser.add_argument("--tar", choices=["yes"], help="yes: also pack the folder into one .tar file")
    parser.add_argument("--folder", type=Path, default=PROJECT / "dist" / "ddp-lessons-offline", help="target folder")
    chosen = parser.parse_args(arguments)
    try:
        machines = [*product(chosen.systems or [this_system()], chosen.pythons or [this_python()])]
        write_folder(chosen.folder.absolute(), machines, chosen.torch, PAIR if chosen.without else ())
    except NotPacked as refusal:
        print(f"\n{refusal}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Run it again: pip's cache keeps what was downloaded.", file=sys.stderr)
        return 1
    if chosen.tar:
        print(f"Packing the folder into {chosen.folder}.tar...", flush=True)
        shutil.make_archive(str(chosen.folder), "tar", chosen.folder.parent, chosen.folder.name)
    return 0


def write_folder(folder: Path, machines: list[tuple[str, str]], kind: str | None, without: Sequence[str]) -> None:
    wheels = folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.txt"):
        old.unlink()
    with tempfile.TemporaryDirectory(dir=folder) as built:
        own = take(build_own(Path(built)), wheels)
    left_out = [f"# without {line}" for name, line in requirements().items() if name in without]
    wanted = {own}
    for system, python in machines:
        print(f"\nDownloading the wheels for {SYSTEMS[system].words}, Python {python}...", flush=True)
        with tempfile.TemporaryDirectory(dir=folder) as fetched:
            fetch(system, python, [line for name, line in requirements().items() if name not in without], kind, fetched)
            files = [own, *(take(file, wheels) for file in sorted(Path(fetched).iterdir()))]
        wanted |= set(files)
        lines = [*left_out, *map(line_of, files)]
        (folder / f"{system}-{python}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for other in set(wheels.iterdir()) - wanted:
        other.unlink()
    for name in ("install.py", "READ-ME.txt"):
        shutil.copyfile(HERE / name, folder / name)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"\n{folder}: {size / 1e9:.1f} GB, with the lessons and MNIST, for")
    for system, python in machines:
        print(f"  {SYSTEMS[system].words}, Python {python}")
    if changed := changed_lessons():
        print("These lessons include your uncommitted changes, perhaps your answers:", *changed, sep="\n  ")
    print("Next: copy the folder to a USB stick. In it, each participant runs: python3 install.py")
    if without:
        print(f"Their Python must have {' and '.join(without)}, which this folder leaves out.")


def this_system() -> str:
    for name, system in SYSTEMS.items():
        if system.words.split() == [platform.system().replace("Darwin", "macOS"), platform.machine()]:
            return name
    raise NotPacked(
        "The course has no wheels for this machine's system.\n"
        f"Fix: name another one: make offline FOR=linux ({', '.join(SYSTEMS)})"
    )


def this_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def requirements() -> dict[str, str]:
    """The requirements of pyproject.toml, by package name. They are ranges; requirements.txt pins tested versions."""
    asked = map(Requirement, metadata.requires("ddp-lessons") or [])
    needed = (one for one in asked if one.marker is None or any(one.marker.evaluate({"extra": of}) for of in EXTRAS))
    return {one.name: f"{one.name}{one.specifier}" for one in needed}


def build_own(folder: Path) -> Path:
    """Build the course's wheel, with the lessons, the scripts and MNIST, from a copy without older builds."""
    others = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "preprocessed", "*-ubyte")
    copy = shutil.copytree(PROJECT, folder / "course", ignore=others)
    pip([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(copy)])
    return next(folder.glob("*.whl"))


def fetch(system: str, python: str, asked: Sequence[str], kind: str | None, folder: str) -> None:
    """Let pip download what it would install there; earlier downloads come from its cache."""
    command = [sys.executable, "-m", "tools.offline.pip_for", system, python, "download", "--dest", folder]
    index = ["--extra-index-url", TORCH_INDEX + kind] if kind else []
    # with pip itself, because a Python may lack it (Debian's)
    pip([*command, *index, "--constraint", str(TESTED), *asked, "pip"])
    if kind and system.startswith("linux") and not list(Path(folder).glob("torch-*+*.whl")):
        raise NotPacked(f"{TORCH_INDEX}{kind} is unreachable, or has no torch for {system} and Python {python}.")


def pip(command: Sequence[str]) -> None:
    """Run pip, with the user's settings for the package index (a configuration file, PIP_...)."""
    if subprocess.run([*command, "--disable-pip-version-check", "--no-input"], cwd=PROJECT).returncode:
        raise NotPacked("pip failed; see its messages above.")


def take(wheel: Path, folder: Path) -> Path:
    return wheel.replace(folder / wheel.name)


def line_of(wheel: Path) -> str:
    """A requirement with its wheel's checksum, so that pip accepts no other file, and the file's name."""
    name, version, *_ = wheel.name.split("-")
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}  # {wheel.name}"


def changed_lessons() -> list[str]:
    """The lessons with uncommitted changes: instructors may not want to hand out their own answers."""
    asked = ["git", "status", "--porcelain", "--", "notebooks"]
    try:
        status = subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True)
    except FileNotFoundError:
        return []
    return [line[3:] for line in status.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
