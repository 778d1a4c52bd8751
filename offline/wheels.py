"""The wheels of one system and Python: which ones pip chooses, their sizes, and downloading the missing ones."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from offline.systems import NotPacked, System

PROJECT = Path(__file__).parent.parent
_EXTRAS = ("lab", "test")
_TESTED = PROJECT / "requirements.txt"

# pip keeps downloads only when the whole call succeeds, so large wheels are downloaded one by one.
LARGE = 20_000_000
_ANSWER_SECONDS = 20
_ASK_AGAIN_SECONDS = 24 * 3600

# What `--without torch` leaves out, with everything that only these two need.
PAIR = ("torch", "torchvision")


@dataclass(frozen=True)
class Wheel:
    name: str
    version: str
    file: str
    sha256: str
    size: int | None  # None if the index does not say

    @property
    def pin(self) -> str:
        return f"{self.name}=={self.version}"

    @property
    def is_large(self) -> bool:
        return self.size is None or self.size > LARGE

    def is_in(self, folder: Path) -> bool:
        path = folder / self.file
        return path.is_file() and sha256_of(path) == self.sha256


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if sys.version_info >= (3, 11) else _sum_of(path)


def _sum_of(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def requirements(without: Iterable[str] = ()) -> dict[str, str]:
    """What pyproject.toml asks for, by package name: the ranges, of which requirements.txt has the tested versions."""
    asked = map(Requirement, metadata.requires("ddp-lessons") or [])
    needed = (one for one in asked if one.marker is None or any(one.marker.evaluate({"extra": of}) for of in _EXTRAS))
    return {one.name: f"{one.name}{one.specifier}" for one in needed if one.name not in without}


def pins() -> dict[str, str]:
    """The lines of requirements.txt that hold for every Python and system, by package name."""
    lines = _TESTED.read_text(encoding="utf-8").splitlines()
    return {line.partition("==")[0]: line for line in lines if line[:1].isalpha() and ";" not in line}


def choose(
    system: System, python: str, notes: Path, index: str | None = None, without: Sequence[str] = ()
) -> list[Wheel]:
    """The wheels that pip would install there. A second run reuses answers from the last day."""
    asked = [*requirements(without).values(), "pip"]  # with pip, so that a Python without it (Debian's) is enough
    question = "; ".join([*asked, sha256_of(_TESTED), f"torch from {index}" if index else "torch as configured"])
    note = notes / f"{system.name}-{python}{'-without' * bool(without)}.json"
    if note.is_file() and time.time() - note.stat().st_mtime < _ASK_AGAIN_SECONDS:
        known = json.loads(note.read_text(encoding="utf-8"))
        if known["question"] == question:
            return [Wheel(**wheel) for wheel in known["wheels"]]
    notes.mkdir(parents=True, exist_ok=True)
    wheels = _ask_pip(system, python, asked, index, _newest_pip(notes))
    known = {"question": question, "wheels": [asdict(wheel) for wheel in wheels]}
    note.write_text(json.dumps(known, indent=1), encoding="utf-8")
    return wheels


def _newest_pip(notes: Path) -> Path:
    """A dry run of an old pip downloads everything; the newest one downloads only the metadata."""
    known = [path for path in notes.glob("pip-*.whl") if time.time() - path.stat().st_mtime < _ASK_AGAIN_SECONDS]
    if not known:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(notes), "pip"]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            raise NotPacked(f"pip can't download anything here:\n{ended.stderr[-2000:]}")
        known = sorted(notes.glob("pip-*.whl"), key=lambda path: path.stat().st_mtime)
    return known[-1]


def _ask_pip(system: System, python: str, asked: Sequence[str], index: str | None, pip: Path) -> list[Wheel]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        options = ["--dry-run", "--ignore-installed", "--target", folder, "--report", str(report)]
        options += ["--constraint", str(_TESTED)]
        options += ["--extra-index-url", index] if index else []
        words = ["install", *options, *asked]
        try:
            # downloads only the needed part of each wheel
            _pip(system, python, [*words, "--use-feature=fast-deps"], pip)
        except NotPacked as refusal:
            if "fast-deps" not in str(refusal):
                raise
            _pip(system, python, words, pip)  # a pip without this feature
        chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
    with ThreadPoolExecutor(8) as pool:
        wheels = list(pool.map(_as_wheel, chosen))
    if index and system.name.startswith("linux"):
        other = [wheel.pin for wheel in wheels if wheel.name in ("torch", "torchvision") and "+" not in wheel.version]
        if other:
            raise NotPacked(f"For {system.words} and Python {python} that index has no {' and no '.join(other)}.")
    return wheels


def _as_wheel(item: dict[str, Any]) -> Wheel:
    url, archive = item["download_info"]["url"], item["download_info"].get("archive_info", {})
    file = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
    sums = archive.get("hashes", {})
    if "sha256" not in sums:
        raise NotPacked(f"The index has no sha256 for {file}, so the download can't be verified.")
    return Wheel(item["metadata"]["name"], item["metadata"]["version"], file, sums["sha256"], _size_of(url))


def _size_of(url: str) -> int | None:
    try:
        if url.startswith("file:"):
            return Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path)).stat().st_size
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=_ANSWER_SECONDS) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError):  # only for the estimate, so not needed
        return None


def fetch(system: System, python: str, wheels: Iterable[Wheel], folder: Path, index: str | None = None) -> None:
    """Download these wheels into the folder and verify them; complete ones are not downloaded again."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [wheel for wheel in wheels if not wheel.is_in(folder)]
    small = [wheel for wheel in missing if not wheel.is_large]
    for some in [small, *([wheel] for wheel in missing if wheel.is_large)]:
        if not some:
            continue
        size = sum(wheel.size or 0 for wheel in some)
        what = some[0].file if len(some) == 1 else f"{len(some)} wheels"
        print(f"  {what}, {in_words(size) if size else 'size not known'}", flush=True)
        for wheel in some:
            (folder / wheel.file).unlink(missing_ok=True)  # pip would treat a partial file as complete
        options = ["--dest", str(folder), "--no-deps", *(["--extra-index-url", index] if index else [])]
        _pip(system, python, ["download", *options, *(wheel.pin for wheel in some)])
        for wheel in some:
            if not wheel.is_in(folder):
                (folder / wheel.file).unlink(missing_ok=True)
                raise NotPacked(f"{wheel.file} was not downloaded completely. Run it again; complete files are kept.")


def _pip(system: System, python: str, command: Sequence[str], pip: Path | None = None) -> None:
    """Run pip with the user's settings for the package index (a configuration file, PIP_...)."""
    platforms = [option for platform in system.platforms for option in ("--platform", platform)]
    fitting = ["--only-binary=:all:", "--python-version", python, "--implementation", "cp", *platforms]
    words = [sys.executable, "-m", "offline.pip_for", json.dumps(system.answers(python)), command[0]]
    words += ["--disable-pip-version-check", "--no-input", "--quiet", *fitting, *command[1:]]
    first = {"PYTHONPATH": os.pathsep.join(filter(None, [str(pip), os.environ.get("PYTHONPATH")]))} if pip else {}
    ended = subprocess.run(words, cwd=PROJECT, env=os.environ | first, capture_output=True, text=True)
    if ended.returncode:
        last = "\n".join(line for line in ended.stderr.splitlines() if "is ignored: it is neither" not in line)
        raise NotPacked(f"pip failed for {system.words} and Python {python}:\n{last[-2000:]}")


def in_words(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 0.1):.{0 if size >= 1e6 else 1}f} MB"
