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

from ddp_lessons.run.diagnosis.wording import number_of_ranks
from ddp_lessons.run.scripts.torchrun_here import torchrun_here
from ddp_lessons.sameness import RANDOM
from ddp_lessons.sameness.fresh_folder import copy_of_folder

if TYPE_CHECKING:
    from ddp_lessons.sameness.run_records import Run
    from ddp_lessons.sameness.sameness_report import SamenessReport

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

SAME, NOT_THE_SAME, COULD_NOT_TELL = 0, 1, 2
_LAST_LINES = 15


class ScriptFailed(RuntimeError):
    """The script did not run to its end: why, and what to do."""

    def __init__(self, reason: str, advice: str, last_lines: str = "") -> None:
        super().__init__(reason)
        self.advice, self.last_lines = advice, last_lines


def add_same_as_one(commands: Commands) -> None:
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--ranks", default="2", metavar="N,N", help="the numbers of ranks to compare with one (2)")
    options.add_argument(
        "--steps", type=int, default=20, metavar="N", help="compare the first N optimizer steps in full (20)"
    )
    options.add_argument("--dtype", choices=("float64",), help="the default dtype while the script trains")
    options.add_argument(
        "--random", action="append", choices=RANDOM, metavar="WHAT", help="random by design: dropout, augmentation"
    )
    options.add_argument("--timeout", type=float, metavar="SECONDS", help="end each run after this time")
    parser = commands.add_parser(
        "same-as-one",
        parents=[options],
        help="run a training script on one rank and on several, and say whether it is the same training",
        usage=f"{commands._prog_prefix} same-as-one SCRIPT [options] [-- its arguments]",
        description="Run a training script under torchrun on one rank and on several, and compare samples, gradients "
        "and parameters step by step. The script needs no change. Exit status 0: the same training; 1: not the same; "
        "2: could not tell.",
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="SCRIPT", help="the script; torchrun starts it")
    parser.set_defaults(run=lambda chosen: same_script(_with_the_rest(chosen, options, parser)))


def _with_the_rest(
    chosen: argparse.Namespace, options: argparse.ArgumentParser, parser: argparse.ArgumentParser
) -> argparse.Namespace:
    """Options may come after the script, too; what follows two dashes belongs to the script."""
    at = chosen.rest.index("--") if "--" in chosen.rest else len(chosen.rest)
    mine, chosen.arguments = chosen.rest[:at], chosen.rest[at + 1 :]
    scripts = [*mine[:1], *options.parse_known_args(mine[1:], namespace=chosen)[1]]
    if len(scripts) != 1:
        extra = " ".join(scripts[1:])
        parser.error(f"{extra} belongs after two dashes: SCRIPT -- {extra}" if extra else "which script?")
    try:
        chosen.sizes = sorted({1, *map(int, chosen.ranks.split(","))})
    except ValueError:
        chosen.sizes = []
    if len(chosen.sizes) < 2 or chosen.sizes[0] < 1:
        parser.error("--ranks needs the numbers of ranks to compare with one rank, such as --ranks 2,4")
    if chosen.steps < 1:
        parser.error("--steps must be at least 1")
    chosen.script, chosen.random = _seen_from_here(scripts[0]), chosen.random or []
    return chosen


def _seen_from_here(script: str) -> str:
    """Each run has a copy of this folder, with its own copy of a script that lies in it."""
    relative = os.path.relpath(script)
    return os.path.abspath(script) if relative.startswith(os.pardir) else relative


def same_script(chosen: argparse.Namespace) -> int:
    """Print the report and return the exit status."""
    from ddp_lessons.sameness.sameness_report import could_not_tell, judged

    report: SamenessReport
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
    from ddp_lessons.sameness.run_records import CannotRead, Run, file_of, read_record

    folder = Path(tempfile.mkdtemp(prefix="ddp-lessons-"))  # readable by its owner only
    try:
        _follow(_command(size, chosen, folder, in_float64), folder, size, chosen)
        return Run(tuple(read_record(file_of(folder, rank)) for rank in range(size)))
    except CannotRead as missing:
        raise ScriptFailed(f"on {number_of_ranks(size)}, {missing}", _run_it_alone(size, chosen)) from missing
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _command(size: int, chosen: argparse.Namespace, folder: Path, in_float64: bool) -> list[str]:
    settings = json.dumps({"steps": chosen.steps, "random": chosen.random, "dtype": "float64" if in_float64 else None})
    rank = ["-m", "ddp_lessons.sameness.watched_script", str(folder), settings, chosen.script, *chosen.arguments]
    return [sys.executable, *torchrun_here(size, folder), *rank]


def _follow(command: list[str], folder: Path, size: int, chosen: argparse.Namespace) -> None:
    """Wait until it ends. What the script prints goes into a file; if it fails, the end of its traceback is shown."""
    from ddp_lessons.sameness.run_records import failure_in

    here, printed = copy_of_folder(Path.cwd(), folder / "here"), folder / "printed"
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    with printed.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=here)
        try:
            status = process.wait(chosen.timeout)
        except subprocess.TimeoutExpired:
            raise ScriptFailed(
                f"on {number_of_ranks(size)} the script did not end within {chosen.timeout:g} seconds",
                f"raise --timeout, or see where each rank waits: python -m ddp_lessons explain --nproc-per-node {size} "
                f"{chosen.script}",
            ) from None
        finally:
            _end(process)
    if status:
        told = failure_in(folder) if failure_in(folder).exists() else printed
        last = told.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
        raise ScriptFailed(
            f"on {number_of_ranks(size)} the script failed with exit status {status}; see its last lines above",
            _run_it_alone(size, chosen),
            "\n".join(last),
        )


def _run_it_alone(size: int, chosen: argparse.Namespace) -> str:
    its_own = shlex.join([chosen.script, *chosen.arguments])
    return f"make the script run on its own first: torchrun --standalone --nproc-per-node={size} {its_own}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """And all that it has started, if it still runs."""
    import psutil

    if process.poll() is not None:
        return
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    for child in children:
        if child.is_running():
            child.kill()
