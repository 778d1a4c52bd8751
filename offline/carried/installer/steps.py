"""The steps from the folder to JupyterLab: verify, copy, install, verify again, and say how to start.

Each step checks whether it is already done, so a second run continues where the first one ended.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import already, folder  # in the repository it has a longer name than in the packed folder
from .folder import HERE, Refused

MARK = ".ddp-lessons-offline"
_ROOM_TO_WORK = 100_000_000
_DIGITS = 290_000_000  # unpacked and preprocessed


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python install.py", description="Install the lessons, without a network.")
    parser.add_argument("--to", metavar="FOLDER", default="~/ddp-lessons", help="where to (default: ~/ddp-lessons)")
    parser.add_argument("--check", action="store_true", help="only check whether this copy is complete and fits")
    chosen = parser.parse_args(arguments)
    try:
        return _install(Path(chosen.to).expanduser().absolute(), chosen.check)
    except Refused as refusal:
        print(f"\n{refusal}", file=sys.stderr)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(f"\nThe disk is full. Free some space and start again; finished steps stay. ({error})", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nStopped. Start again to continue.", file=sys.stderr)
    return 1


def _install(target: Path, only_look: bool) -> int:
    contents = folder.read()
    chosen = folder.set_for_this_machine(contents)
    print(f"Verifying this copy ({len(contents.sets[chosen])} wheels)...", flush=True)
    folder.check_copy(contents, chosen)
    already.look_for(contents.without)
    if only_look:
        print(f"It is complete and fits this machine: {contents.words[chosen.split()[0]]}, Python {chosen.split()[1]}.")
        return 0
    _prepare(target)
    done = target / ".venv" / ".installed"
    if not _is(done, contents.pins[chosen]):
        _look_for_room(target, contents.installed_bytes[chosen] + _DIGITS)
    _copy_lessons(target)
    if not _is(done, contents.pins[chosen]):
        _install_wheels(target, contents.pins[chosen], contents.sets[chosen])
        done.write_text("\n".join(contents.pins[chosen]), encoding="utf-8")
    _settle(target)
    if contents.without:
        already.lend_to(_packages(target))
    whose = f" of {sys.prefix}" if contents.without else ""
    _run(target, "-m", "ddp_lessons", "pair", refuse=f"torch and torchvision{whose} do not match: see above.")
    print("\nThe doctor checks this machine:", flush=True)
    well = _call(target, "-m", "ddp_lessons", "doctor") == 0
    _say_how_to_begin(target, well)
    return 0 if well else 1


def _is(done: Path, pins: list[str]) -> bool:
    return done.is_file() and done.read_text(encoding="utf-8") == "\n".join(pins) and python_of(done.parent).exists()


def _prepare(target: Path) -> None:
    if target.is_dir() and any(target.iterdir()) and not (target / MARK).is_file():
        raise Refused(
            f"{target} exists already and was not made by this installer. It stays unchanged.\n"
            f'Choose another folder: python install.py --to "{target.with_name(target.name + "-offline")}"'
        )
    try:
        target.mkdir(parents=True, exist_ok=True)
        (target / MARK).write_text("made by install.py\n", encoding="utf-8")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Refused(f"{target} is not writable ({error.strerror}). Choose another folder with --to.") from None


def _look_for_room(target: Path, needed: int) -> None:
    there = sum(file.lstat().st_size for file in (target / ".venv").rglob("*") if file.is_file())
    free, needed = shutil.disk_usage(target).free, max(0, needed - there) + _ROOM_TO_WORK
    if free < needed:
        raise Refused(
            f"{target} has {free / 1e9:.1f} GB of free space, but {needed / 1e9:.1f} GB are needed.\n"
            "Free some space, or choose a folder on another disk: python install.py --to FOLDER"
        )
    print(f"Installing into {target}: {needed / 1e9:.1f} GB, some minutes.", flush=True)


def _copy_lessons(target: Path) -> None:
    """Copy the package of this folder. Lessons that a participant has changed stay."""
    kept = []
    for source in sorted((HERE / "project").rglob("*")):
        place = target / source.relative_to(HERE / "project")
        if source.is_dir():
            place.mkdir(exist_ok=True)
        elif not place.exists() or source.suffix != ".ipynb":
            _copy_whole(source, place)
        elif source.read_bytes() != place.read_bytes():
            kept.append(place.name)
    if kept:
        print(f"Unchanged, because you have worked in them: {', '.join(kept)}", flush=True)


def _copy_whole(source: Path, place: Path) -> None:
    """If it is interrupted or the disk is full, no partial lesson remains, which would look like a changed one."""
    unfinished = place.with_name(f"{place.name}.unfinished")
    shutil.copyfile(source, unfinished)
    unfinished.replace(place)


def python_of(venv: Path) -> Path:
    return venv / "bin" / "python"


def _install_wheels(target: Path, pins: list[str], wheels: list[str]) -> None:
    venv = target / ".venv"
    # --clear: after an interruption pip would take half a package for a whole one
    # --without-pip: Debian's Python may lack it, and the wheels include it
    command = [sys.executable, "-m", "venv", "--clear", "--without-pip", str(venv)]
    if subprocess.run(command, env=_plain_environment()).returncode:
        _refuse_if_full(target)
        raise Refused("This Python cannot make a virtual environment: see above. On Debian: install python3-venv.")
    wanted = target / MARK.replace("offline", "wheels")
    wanted.write_text("\n".join(_with_sums(pins, wheels)) + "\n", encoding="utf-8")
    pip = (
        HERE / "wheels" / next(name for name in wheels if name.startswith("pip-")) / "pip"
    )  # a zip file that Python can run
    offline = [
        "--isolated",
        "--no-index",
        "--require-hashes",
        "--no-deps",
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--quiet",
    ]
    words = [str(pip), "install", *offline, "--require-hashes", "--find-links", str(HERE / "wheels")]
    if _call(target, *words, "-r", str(wanted)):
        _refuse_if_full(target)
        raise Refused("pip could not install the wheels: see above. Show it to your instructor.")


def _with_sums(pins: list[str], wheels: list[str]) -> list[str]:
    """Each line of requirements with the checksums of its packed wheels, so that pip accepts no other."""
    sums, of_package = folder.read_sums(), dict[str, list[str]]()
    for wheel in wheels:
        of_package.setdefault(_normal(wheel.partition("-")[0]), []).append(f"--hash=sha256:{sums[f'wheels/{wheel}']}")
    return [" ".join([pin, *of_package.get(_normal(re.split(r"[^\w.-]", pin)[0]), [])]) for pin in pins]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _refuse_if_full(target: Path) -> None:
    if shutil.disk_usage(target).free < _ROOM_TO_WORK:
        raise Refused("The disk is full. Free some space and start again; finished steps stay.")


def _settle(target: Path) -> None:
    """Make the package importable, and write the script that opens the lessons."""
    site = _packages(target)
    (site / "ddp_lessons.pth").write_text(os.path.relpath(target, site) + "\n", encoding="ascii")
    shutil.copyfile(HERE / "installer" / "lessons.py", target / "lessons.py")


def _packages(target: Path) -> Path:
    return next((target / ".venv").glob("lib/python3*/site-packages"))


def _run(target: Path, *words: str, refuse: str) -> None:
    if _call(target, *words):
        raise Refused(refuse)


def _call(target: Path, *words: str) -> int:
    return subprocess.run([str(python_of(target / ".venv")), *words], cwd=target, env=_plain_environment()).returncode


def _plain_environment() -> dict[str, str]:
    """The environment without variables that are meant for another Python, and without settings of pip."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "PIP_CONFIG_FILE": os.devnull}  # or pip would also take the wheels of a folder named there


def _say_how_to_begin(target: Path, well: bool) -> None:
    script = target / "lessons.py"
    typed = f'"{script}"' if " " in str(script) else str(script)
    if not well:
        print("\nThere is a problem: see PROBLEM above, and show it to your instructor. The lessons would open with:")
    print(f"\nReady. This opens the first lesson:\n\n    python3 {typed}\n" if well else f"\n    python3 {typed}\n")
