"""Install the lessons from this folder, without a network: python3 install.py

Everything is a wheel, also the lessons. The list for this machine, such as linux-3.11.txt, names each wheel with its
checksum; pip reads the same list. Standard library only, for old Pythons too, so that they can say that they are old.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SYSTEMS = {"Linux x86_64": "linux", "Linux aarch64": "linux-arm", "Darwin arm64": "macos"}
MARK = ".ddp-lessons-offline"
BYTECODE = 1.05  # the factor by which pip's compiled files add to the wheels' content
DIGITS_BYTES = 300_000_000  # unpacked and preprocessed
NEEDS = "a 64-bit Python from python.org or your system, and Linux with glibc 2.28 or newer, or macOS 14 or newer"


class Refused(Exception):
    """The lessons can't be installed this way; the message says why, and what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Install the lessons, without a network.")
    parser.add_argument("--to", metavar="FOLDER", default="~/ddp-lessons", help="where to (default: ~/ddp-lessons)")
    parser.add_argument("--check", action="store_true", help="only check whether this copy is complete")
    chosen = parser.parse_args()
    try:
        listed = list_for_this_machine()
        verify(listed)
        if chosen.check:
            print(f"It is complete for {listed.stem}.")
            return 0
        return install(listed, Path(chosen.to).expanduser().absolute())
    except Refused as refusal:
        print(f"\n{refusal}", file=sys.stderr)
    except OSError as error:
        print(f"\n{error}\nSolve this and start again.", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nStopped. Start it again.", file=sys.stderr)
    return 1


def list_for_this_machine() -> Path:
    machine = f"{platform.system()} {platform.machine()}"
    listed = HERE / f"{SYSTEMS.get(machine)}-{sys.version_info[0]}.{sys.version_info[1]}.txt"
    if not listed.is_file():
        there = (
            ", ".join(sorted(path.stem for path in HERE.glob("*-3.*.txt"))) or "nothing: copy the whole folder again"
        )
        raise Refused(
            f"This is {machine} with Python {platform.python_version()}, but this folder has wheels for {there}.\n"
            "If another Python is installed, name it, such as: python3.12 install.py"
        )
    return listed


def wheels_in(listed: Path) -> dict[Path, str]:
    """Each wheel with its checksum."""
    lines = [line.split() for line in listed.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {HERE / "wheels" / file: hash_of.rpartition(":")[2] for _, hash_of, _, file in lines}


def verify(listed: Path) -> None:
    """A copy may be damaged, or a stick may fail."""
    wheels = wheels_in(listed)
    print(f"Verifying this copy ({len(wheels)} wheels)...", flush=True)
    damaged = [wheel.name for wheel, expected in wheels.items() if not wheel.is_file() or sha256(wheel) != expected]
    if damaged:
        raise Refused("\n  ".join(["This copy is incomplete or damaged. Copy these files in wheels/ again:", *damaged]))


def sha256(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            total.update(block)
    return total.hexdigest()


def install(listed: Path, target: Path) -> int:
    without = [line.split()[-1] for line in listed.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    pip = next(str(wheel / "pip") for wheel in wheels_in(listed) if wheel.name.startswith("pip-"))  # Python runs a zip
    if without and run(sys.executable, pip, "install", "--isolated", "--dry-run", "--no-index", *without):
        raise Refused(
            f"This folder comes without {' and '.join(without)}, since you should have them already.\n"
            "Start install.py with the Python that has them, or ask for a folder with all wheels."
        )
    if target.is_dir() and any(target.iterdir()) and not (target / MARK).is_file():
        raise Refused(
            f"{target} exists already and was not made by this installer. It stays unchanged.\n"
            f'Choose another folder: python3 install.py --to "{target}-offline"'
        )
    target.mkdir(parents=True, exist_ok=True)
    (target / MARK).touch()
    python, done = str(target / ".venv" / "bin" / "python"), target / ".venv" / ".installed"
    if not done.is_file() or done.read_bytes() != listed.read_bytes():
        look_for_room(target, listed)
        # anew, because pip takes a package for complete that it had only begun; without pip, which Debian's may lack
        if run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(target / ".venv")):
            raise Refused("This Python cannot make a virtual environment: see above. On Debian: install python3-venv.")
        options = ["--isolated", "--no-index", "--no-deps", "--require-hashes", "--no-cache-dir", "--quiet"]
        options += ["--disable-pip-version-check", "--find-links", str(HERE / "wheels"), "-r", str(listed)]
        if run(python, pip, "install", *options):
            raise Refused(f"pip could not install the wheels: see above. They need {NEEDS}. Then start it again.")
        if without:
            lend(target)
        shutil.copyfile(listed, done)
    if run(python, "-m", "ddp_lessons", "pair", cwd=target):
        raise Refused(f"torch and torchvision do not match: see above. This is {sys.executable}.")
    print("\nThe doctor checks this machine:", flush=True)
    problems = run(python, "-m", "ddp_lessons", "doctor", cwd=target)
    well = "Ready. This opens the first lesson:"
    print("\nThere is a PROBLEM: show it to your instructor. The lessons would open with:" if problems else f"\n{well}")
    print(f'\n    cd "{target}" && .venv/bin/ddp-lessons start\n')
    return int(bool(problems))


def look_for_room(target: Path, listed: Path) -> None:
    content = sum(file.file_size for wheel in wheels_in(listed) for file in zipfile.ZipFile(wheel).infolist())
    shutil.rmtree(target / ".venv", ignore_errors=True)
    free, needed = shutil.disk_usage(target).free, content * BYTECODE + DIGITS_BYTES
    if free < needed:
        raise Refused(
            f"{target} has {free / 1e9:.1f} GB of free space, but {needed / 1e9:.1f} GB are needed.\n"
            "Free some space, or choose a folder on another disk: python3 install.py --to FOLDER"
        )
    print(f"Installing into {target}: {needed / 1e9:.1f} GB, some minutes.", flush=True)


def lend(target: Path) -> None:
    """Let the environment also find the packages of this Python, such as torch, after its own."""
    folders = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    # an import line in ASCII, because Pythons differ in how they read a plain path with an accent
    line = f"import sys; sys.path.extend({folders!a})\n"
    next(target.glob(".venv/lib/python3*/site-packages")).joinpath("already_here.pth").write_text(
        line, encoding="ascii"
    )


def run(*words: str, cwd: Path | None = None) -> int:
    """The exit status. Variables that are meant for another Python, and settings of pip, stay away."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "VIRTUAL_ENV"))}
    kept["PIP_CONFIG_FILE"] = os.devnull  # or pip would also take the wheels of a folder that is named there
    return subprocess.run(words, cwd=cwd, env=kept).returncode


if __name__ == "__main__":
    sys.exit(main())
