"""The folder's content besides the wheels: the lessons, the package, MNIST, the installer, the checksums."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from offline.systems import SYSTEMS
from offline.wheels import PROJECT, Wheel, sha256_of

CARRIED = Path(__file__).parent / "carried"
_FOLDERS = ("ddp_lessons", "notebooks", "scripts", "docs", "data")
_FILES = ("README.md", "CHANGELOG.md", "LICENSE", "requirements.txt", "pyproject.toml")
_NOT_THESE = shutil.ignore_patterns(
    "__pycache__", ".*", "Untitled*", "*.egg-info", "preprocessed", "*-ubyte", "*.lock", "*.part"
)
_BYTECODE = 1.05  # the factor by which pip's compiled files add to the wheels' content: measured, 6.03 GB for 5.79


def write_lessons(folder: Path) -> None:
    """Write the current lessons, MNIST and the installer; those of an earlier run are removed."""
    for name in ("project", "installer", "data"):
        shutil.rmtree(folder / name, ignore_errors=True)
    shutil.copytree(CARRIED, folder, dirs_exist_ok=True, ignore=_NOT_THESE)
    for name in _FOLDERS:
        shutil.copytree(PROJECT / name, folder / "project" / name, ignore=_NOT_THESE)
    for name in _FILES:
        shutil.copyfile(PROJECT / name, folder / "project" / name)


def missing_of_mnist() -> list[str]:
    from ddp_lessons.train.mnist import RAW, SUMS

    return [name for name in SUMS if not (PROJECT / "data" / RAW / f"{name}.gz").is_file()]


def changed_lessons() -> list[str]:
    """Lessons with uncommitted changes, because an instructor may not want to hand out their own answers."""
    try:
        asked = ["git", "status", "--porcelain", "--", "notebooks"]
        said = subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # no git, or not a clone
        return []
    return [line[3:] for line in said.splitlines()]


def remove_other_wheels(folder: Path, wheels: Iterable[Wheel]) -> None:
    """Remove wheels of an earlier run for other machines; pip may still have them in its cache."""
    wanted = {wheel.file for wheel in wheels}
    for path in (folder / "wheels").iterdir():
        if path.name not in wanted:
            path.unlink()


def write_contents(folder: Path, sets: Mapping[str, Sequence[Wheel]], without: Mapping[str, str]) -> None:
    """Write contents.json for the installer, and SHA256SUMS, which `sha256sum --check` can read too."""
    contents = {
        "words": {name: system.words for name, system in SYSTEMS.items()},
        "sets": {name: [wheel.file for wheel in wheels] for name, wheels in sets.items()},
        "pins": {name: [wheel.pin for wheel in wheels] for name, wheels in sets.items()},
        "installed_bytes": {name: _installed_bytes(folder, wheels) for name, wheels in sets.items()},
        "without": dict(without),
    }
    (folder / "contents.json").write_text(json.dumps(contents, indent=1), encoding="utf-8")
    known = {f"wheels/{wheel.file}": wheel.sha256 for wheels in sets.values() for wheel in wheels}
    lines = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name != "SHA256SUMS":
            lines.append(f"{known.get(name) or sha256_of(path)}  {name}\n")
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8", newline="\n")


def _installed_bytes(folder: Path, wheels: Sequence[Wheel]) -> int:
    total = 0
    for wheel in wheels:
        with zipfile.ZipFile(folder / "wheels" / wheel.file) as packed:
            total += sum(file.file_size for file in packed.infolist())
    return int(total * _BYTECODE)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
