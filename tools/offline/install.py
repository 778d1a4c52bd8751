"""Install the lessons from this folder, without a network: python3 install.py

Everything is a wheel, also the lessons. The list for this machine, such as linux-3.11.txt, names each wheel with its
checksum, and pip reads the same list. This script uses only the standard library and also runs on old Python versions,
so that it can report that they are too old.
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
BYTECODE = 1.05  # the wheels' content, with pip's compiled files
DIGITS_BYTES = 300_000_000  # unpacked and preprocessed
NEEDS = "a 64-bit Python from python.org or your system, and Linux with glibc 2.28 or newer, or macOS 14 or newer"


class Refused(Exception):
    """The lessons can't be installed this way; the message says why and what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Install the lessons, without a network.")
    parser.add_argument("--to", metavar="FOLDER", default="~/ddp-lessons", help="target (default: ~/ddp-lessons)")
    parser.add_argument("--check", action="store_true", help="only check that this copy is complete")
    chosen = parser.parse_args()
    try:
        listed = list_for_this_machine()
        verify(listed)
        if chosen.check:
            print(f"The copy is complete for {listed.stem}.")
            return 0
        return install(listed, Path(chosen.to).expanduser().absolute())
    except Refused as refusal:
        print(f"\n{refusal}", file=sys.stderr)
    except OSError as error:
        print(f"\n{error}\nSolve this problem and run install.py again.", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nStopped. Run install.py again.", file=sys.stderr)
    return 1


def list_for_this_machine() -> Path:
    machine = f"{platform.system()} {platform.machine()}"
    listed = HERE / f"{SYSTEMS.get(machine)}-{sys.version_info[0]}.{sys.version_info[1]}.txt"
    if not listed.is_file():
        there = (
            ", ".join(sorted(path.stem for path in HERE.glob("*-3.*.txt"))) or "no system; copy the whole folder again"
        )
        raise Refused(
            f"This is {machine} with Python {platform.python_version()}, but this folder has wheels for {there}.\n"
            "Fix: use another installed Python, for example: python3.12 install.py"
        )
    return listed


def wheels_in(listed: Path) -> dict[Path, str]:
    """The wheels with their checksums."""
    lines = [line.split() for line in listed.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {HERE / "wheels" / file: hash_of.rpartition(":")[2] for _, hash_of, _, file in lines}


def verify(listed: Path) -> None:
    """Verify the wheels, because a copy may be damaged and a USB stick may fail."""
    wheels = wheels_in(listed)
    print(f"Verifying this copy ({len(wheels)} wheels)...", flush=True)
    damaged = [wheel.name for wheel, expected in wheels.items() if not wheel.is_file() or sha256(wheel) != expected]
    if damaged:
        first = "This copy is incomplete or damaged.\nFix: copy these files in wheels/ again:"
        raise Refused("\n  ".join([first, *damaged]))


def sha256(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            total.update(block)
    return total.hexdigest()


def install(listed: Path, target: Path) -> int:
    without = [line.split()[-1] for line in listed.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    pip = next(str(wheel / "pip") for wheel in wheels_in(listed) if wheel.name.startswith("pip-"))
    if without and run(sys.executable, pip, "install", "--isolated", "--dry-run", "--no-index", *without):
        raise Refused(
            f"This folder comes without {' and '.join(without)}, because you should already have them.\n"
            "Fix: run install.py with the Python that has them, or ask for a folder with all wheels."
        )
    if target.is_dir() and any(target.iterdir()) and not (target / MARK).is_file():
        raise Refused(
            f"{target} already exists and was not created by this installer, so it was left unchanged.\n"
            f'Fix: choose another folder: python3 install.py --to "{target}-offline"'
        )
    target.mkdir(parents=True, exist_ok=True)
    (target / MARK).touch()
    python, done = str(target / ".venv" / "bin" / "python"), target / ".venv" / ".installed"
    if not done.is_file() or done.read_bytes() != listed.read_bytes():
        look_for_room(target, listed)
        # a new one, because pip skips packages that it installed only in part; without pip, which Debian may lack
        if run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(target / ".venv")):
            raise Refused("This Python can't create a virtual environment.\nFix: on Debian, install python3-venv.")
        options = ["--isolated", "--no-index", "--no-deps", "--require-hashes", "--no-cache-dir", "--quiet"]
        options += ["--disable-pip-version-check", "--find-links", str(HERE / "wheels"), "-r", str(listed)]
        if run(python, pip, "install", *options):
            raise Refused(f"pip could not install the wheels; see above.\nFix: they need {NEEDS}.")
        if without:
            lend(target)
        shutil.copyfile(listed, done)
    if run(python, "-m", "ddp_lessons", "pair", cwd=target):
        raise Refused(f"torch and torchvision of {sys.executable} do not match; see above.")
    print("\nThe doctor checks this machine:", flush=True)
    problems = run(python, "-m", "ddp_lessons", "doctor", cwd=target)
    well = "Ready. To open the first lesson, run:"
    ill = "There is a PROBLEM: show it to your instructor. To open the lessons anyway, run:"
    print(f"\n{ill if problems else well}")
    print(f'\n    cd "{target}" && .venv/bin/ddp-lessons start\n')
    return int(bool(problems))


def look_for_room(target: Path, listed: Path) -> None:
    content = sum(file.file_size for wheel in wheels_in(listed) for file in zipfile.ZipFile(wheel).infolist())
    shutil.rmtree(target / ".venv", ignore_errors=True)
    free, needed = shutil.disk_usage(target).free, content * BYTECODE + DIGITS_BYTES
    if free < needed:
        raise Refused(
            f"{target} has {free / 1e9:.1f} GB of free space, but {needed / 1e9:.1f} GB are needed.\n"
            "Fix: free some space, or choose a folder on another disk: python3 install.py --to FOLDER"
        )
    print(f"Installing into {target} ({needed / 1e9:.1f} GB), which takes some minutes.", flush=True)


def lend(target: Path) -> None:
    """Let the environment also find this Python's packages, such as torch, after its own."""
    folders = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    # an import line in ASCII, because Python versions differ in how they read a path with an accent
    line = f"import sys; sys.path.extend({folders!a})\n"
    next(target.glob(".venv/lib/python3*/site-packages")).joinpath("already_here.pth").write_text(
        line, encoding="ascii"
    )


def run(*words: str, cwd: Path | None = None) -> int:
    """Run a command without variables for other Pythons and pip's settings, and return its exit status."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "VIRTUAL_ENV"))}
    kept["PIP_CONFIG_FILE"] = os.devnull  # which could add another folder of wheels
    return subprocess.run(words, cwd=cwd, env=kept).returncode


if __name__ == "__main__":
    sys.exit(main())
