"""`python -m ddp_lessons same-as-one train.py --ranks 2 -- --epochs 1`: the same question about a script."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.run.scripts.torchrun_here import torchrun_here
from ddp_lessons.sameness import RANDOM

if TYPE_CHECKING:
    from ddp_lessons.sameness.run_records import Run

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

SAME, NOT_THE_SAME, COULD_NOT_TELL = 0, 1, 2
_LAST_LINES = 15
_MOST_BYTES, _MOST_ENTRIES = 20_000_000, 1000  # of what is copied


class ScriptFailed(RuntimeError):
    """The script did not run to its end: why, and what to do."""

    def __init__(self, reason: str, advice: str, last_lines: str = "") -> None:
        super().__init__(reason)
        self.advice, self.last_lines = advice, last_lines


def add_same_as_one(commands: Commands) -> None:
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument(
        "--ranks", default="2", metavar="N,N", help="the world sizes to compare with one rank, such as 2,4 (default: 2)"
    )
    options.add_argument(
        "--steps", type=int, default=20, metavar="N", help="compare the first N optimizer steps in full (20)"
    )
    options.add_argument("--dtype", choices=("float64",), help="the default dtype while the script trains")
    options.add_argument(
        "--random", action="append", choices=RANDOM, metavar="WHAT", help="random by design: dropout, augmentation"
    )
    options.add_argument("--timeout", type=float, metavar="SECONDS", help="stop each run after this time")
    parser = commands.add_parser(
        "same-as-one",
        parents=[options],
        help="run a training script on one rank and on several, and say whether the training is the same",
        usage=f"{commands._prog_prefix} same-as-one SCRIPT [options] [-- its arguments]",
        description="Run a training script under torchrun on one rank and on several, and compare samples, gradients "
        "and parameters step by step. The script needs no changes. Exit status: 0 if the training is the same, 1 if "
        "it is not, 2 if the command could not tell.",
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="SCRIPT", help="the script; torchrun starts it")
    parser.set_defaults(run=lambda chosen: same_script(_with_the_rest(chosen, options, parser)))


def _with_the_rest(
    chosen: argparse.Namespace, options: argparse.ArgumentParser, parser: argparse.ArgumentParser
) -> argparse.Namespace:
    """Options may come after the script, too; what follows two dashes belongs to the script."""
    at = chosen.rest.index("--") if "--" in chosen.rest else len(chosen.rest)
    mine, chosen.arguments = chosen.rest[:at], chosen.rest[at + 1 :]
    if not mine:
        parser.error("which script?")
    if extra := " ".join(options.parse_known_args(mine[1:], namespace=chosen)[1]):
        parser.error(f"{extra} belongs after two dashes: SCRIPT -- {extra}")
    try:
        chosen.sizes = sorted({1, *map(int, chosen.ranks.split(","))})
    except ValueError:
        chosen.sizes = []
    if len(chosen.sizes) < 2 or chosen.sizes[0] < 1:
        parser.error("--ranks needs the numbers of ranks to compare with one rank, such as --ranks 2,4")
    if chosen.steps < 1:
        parser.error("--steps must be at least 1")
    relative = os.path.relpath(mine[0])  # each run has a copy of this folder, with its own copy of a script in it
    chosen.script = os.path.abspath(mine[0]) if relative.startswith(os.pardir) else relative
    chosen.random = chosen.random or []
    return chosen


def same_script(chosen: argparse.Namespace) -> int:
    """Print the report and return the exit status."""
    from ddp_lessons.sameness.sameness_report import could_not_tell, judged

    if not os.path.isfile(chosen.script):
        print(f"there is no script {chosen.script}", file=sys.stderr)
        return COULD_NOT_TELL
    try:
        report = judged(partial(_run, chosen), chosen.sizes, chosen.random, bool(chosen.dtype))
    except ScriptFailed as failure:
        print(failure.last_lines, end="\n" * bool(failure.last_lines), file=sys.stderr)
        report = could_not_tell(str(failure), failure.advice)
    print(report)
    return COULD_NOT_TELL if report.same is None else SAME if report.same else NOT_THE_SAME


def _run(chosen: argparse.Namespace, size: int, in_float64: bool) -> Run:
    """Run the script on so many ranks. What it prints goes into a file; if it fails, the end of that is shown."""
    from ddp_lessons.sameness.run_records import CannotRead, Run, failure_in, file_of, read_record

    ranks, its_own = count(size, "rank"), shlex.join([chosen.script, *chosen.arguments])
    advice = f"get the script to run on its own first: torchrun --standalone --nproc-per-node={size} {its_own}"
    folder = Path(tempfile.mkdtemp(prefix="ddp-lessons-"))  # readable by its owner only
    watch = json.dumps({"steps": chosen.steps, "random": chosen.random, "dtype": "float64" if in_float64 else None})
    rank = ["-m", "ddp_lessons.sameness.watched_script", str(folder), watch, chosen.script, *chosen.arguments]
    try:
        here, printed = copy_of_folder(Path.cwd(), folder / "here"), folder / "printed"
        status = _status([sys.executable, *torchrun_here(size, folder), *rank], here, printed, chosen.timeout)
        if status is None:
            raise ScriptFailed(
                f"on {ranks}, the script did not end within {chosen.timeout:g} seconds",
                "raise --timeout, or see where each rank waits: python -m ddp_lessons explain "
                f"--nproc-per-node {size} {chosen.script}",
            )
        if status:
            told = failure_in(folder) if failure_in(folder).exists() else printed
            last = told.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
            reason = f"on {ranks}, the script failed with exit status {status}; see its last lines above"
            raise ScriptFailed(reason, advice, "\n".join(last))
        return Run(tuple(read_record(file_of(folder, rank)) for rank in range(size)))
    except CannotRead as missing:
        raise ScriptFailed(f"on {ranks}, {missing}", advice) from missing
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _status(command: list[str], here: Path, printed: Path, timeout: float | None) -> int | None:
    """The exit status of the command, or None if it did not end in time. Nothing of it is left."""
    import psutil

    with printed.open("wb") as file:
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=here)
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                ranks = psutil.Process(process.pid).children(recursive=True)
                process.kill()
                process.wait()
                for rank in ranks:
                    if rank.is_running():
                        rank.kill()


def copy_of_folder(folder: Path, copy: Path) -> Path:
    """So that no run goes on from what another has saved.

    Hidden folders, virtual environments, and data (large files, folders of many) are linked, not copied.
    """
    copy.mkdir()
    for entry in folder.iterdir():
        there = copy / entry.name
        if _is_linked(entry, copy):
            there.symlink_to(entry.absolute())
        elif entry.is_dir():
            copy_of_folder(entry, there)
        else:
            shutil.copy2(entry, there)
    return copy


def _is_linked(entry: Path, copy: Path) -> bool:
    if entry.is_file():
        return entry.stat().st_size > _MOST_BYTES or not os.access(entry, os.R_OK)
    if not entry.is_dir() or entry.is_symlink() or not os.access(entry, os.R_OK | os.X_OK):
        return True
    if entry.name.startswith(".") or (entry / "pyvenv.cfg").exists() or len(os.listdir(entry)) > _MOST_ENTRIES:
        return True
    return copy.resolve().is_relative_to(entry.resolve())  # the folder of temporary files may lie in this one
