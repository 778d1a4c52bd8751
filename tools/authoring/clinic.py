"""Run the broken jobs of the clinic, and store the files that they leave: `python -m tools.authoring clinic`.

A job is `train.py.txt` in its case's folder. Paths of this machine are replaced in all stored files.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from ddp_lessons.clinic.clinic_cases import CASES, PROGRAM, Case, case_of

JOB, PACKAGES = "/job", "/usr/lib/python3/site-packages"  # replaces this machine's folders in the stored files
_LONGEST_SECONDS = 120.0


def main(cases: Sequence[int]) -> int:
    """Run the cases with these numbers (none: all), and store their files."""
    for case in [case_of(number) for number in cases or CASES]:
        target = case.folder
        with tempfile.TemporaryDirectory() as place:
            left = make(case, Path(place))
            for old in target.iterdir():
                if old.name != PROGRAM:
                    shutil.rmtree(old) if old.is_dir() else old.unlink()
            for file in left:
                (target / file.parent).mkdir(exist_ok=True)
                shutil.copyfile(Path(place, file), target / file)
        print(f"case {case.number}: {', '.join(map(str, left))}")
    return 0


def make(case: Case, place: Path) -> list[Path]:
    """Run one job in an empty folder, and return the files that it leaves there, with neutral paths."""
    shutil.copyfile(case.folder / PROGRAM, place / "train.py")
    _KINDS[case.leaves](case, place)
    left = sorted(path.relative_to(place) for path in place.rglob("*") if _is_kept(path.relative_to(place)))
    for file in left:
        _make_neutral(place / file, place)
    return left


def _is_kept(file: Path) -> bool:
    return file.name == "job.log" or file.name.startswith("stacks") or file.parent.name == "dumps"


def _start(case: Case, place: Path, *options: str) -> subprocess.Popen[str]:
    """Start the job with its command and this Python's torchrun; its output goes into a file."""
    words = case.command.split()
    variables = dict(word.split("=", 1) for word in words[: words.index("torchrun")])
    arguments = words[words.index("torchrun") + 1 :]
    command = [sys.executable, "-m", "torch.distributed.run", *options, *arguments]
    ours = {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    environment = {**os.environ, **ours, **variables}
    with open(place / "output.txt", "w", encoding="utf-8") as output:
        return subprocess.Popen(command, cwd=place, env=environment, stdout=output, stderr=output, text=True)


def _leave_dumps(case: Case, place: Path) -> None:
    """Wait until each rank has dumped its calls: some jobs end at a timeout, and others would wait longer."""
    (place / "dumps").mkdir()
    job = _start(case, place)
    until = time.monotonic() + _LONGEST_SECONDS
    while sum(map(_has_calls, place.glob("dumps/rank_?"))) < case.world_size and time.monotonic() < until:
        time.sleep(0.5)
    job.terminate()
    job.wait(_LONGEST_SECONDS)


def _has_calls(dump: Path) -> bool:
    """Whether the dump has calls. It has none if a rank took ten seconds to join; its next dump replaces this one."""
    try:
        return bool(pickle.loads(dump.read_bytes())["entries"])
    except (EOFError, pickle.UnpicklingError):  # it is still being written
        return False


def _leave_log(case: Case, place: Path) -> None:
    _start(case, place).wait(_LONGEST_SECONDS)
    shutil.copyfile(place / "output.txt", place / "job.log")


def _leave_stacks(case: Case, place: Path) -> None:
    """Ask each rank for its stack, as `kill -USR1` does, once for each stack file of the case."""
    job = _start(case, place, "--log-dir=logs", "--redirects=3")
    try:
        earlier: list[dict[int, str]] = []
        for number in range(1, case.looks + 1):
            stacks = _settled(job, case, place, earlier)
            earlier.append(stacks)
            name = f"stacks_{number}.txt" if case.looks > 1 else "stacks.txt"
            (place / name).write_text("\n".join(f"rank {rank}\n{stacks[rank]}" for rank in stacks), encoding="utf-8")
    finally:
        job.terminate()
        job.wait(_LONGEST_SECONDS)


def _settled(job: subprocess.Popen[str], case: Case, place: Path, earlier: Sequence[dict[int, str]]) -> dict[int, str]:
    """Return the stacks once the same ranks have waited for two seconds; other ranks must be in another function."""
    before: set[int] = set()
    until = time.monotonic() + _LONGEST_SECONDS
    while time.monotonic() < until:
        stacks = _look(job, case.world_size, place)
        waiting = {rank for rank, stack in stacks.items() if _COLLECTIVE in stack}
        others = [_functions(stacks[rank]) for rank in set(stacks) - waiting]
        has_moved = not any(_functions(stack) in others for one in earlier for stack in one.values())
        if len(waiting) == case.waiting and waiting == before and all(others) and has_moved:
            return stacks
        before = waiting
        time.sleep(2)
    raise ValueError(f"the ranks of {case.title!r} never waited as expected. Next: check its train.py.txt")


def _look(job: subprocess.Popen[str], world_size: int, place: Path) -> dict[int, str]:
    """Get a new stack of each rank; none before all have printed a line, because the signal would kill them."""
    said = [file for file in place.glob("logs/*/attempt_0/*/stdout.log") if file.stat().st_size]
    if len(said) < world_size:
        return {}
    files = {int(file.parent.name): file.with_name("stderr.log") for file in sorted(said)}
    sizes = {rank: file.stat().st_size for rank, file in files.items()}
    for process in psutil.Process(job.pid).children():
        process.send_signal(signal.SIGUSR1)
    time.sleep(1)  # a stack is written in several pieces
    return {rank: file.read_text(encoding="utf-8")[sizes[rank] :] for rank, file in files.items()}


def _functions(stack: str) -> str:
    """The innermost functions of the job's own code."""
    return next(iter(re.findall(r'train\.py", line \d+ in (\w+)', stack)), "")


def _make_neutral(file: Path, place: Path) -> None:
    data = file.read_bytes()
    if data.startswith(b"\x80"):
        file.write_bytes(pickle.dumps(_neutral(pickle.loads(data), place), protocol=2))
    else:
        file.write_text(_neutral(data.decode(), place), encoding="utf-8")


def _neutral(thing: Any, place: Path) -> Any:
    """Remove this machine's folders and names from the text."""
    if isinstance(thing, dict):
        return {_neutral(key, place): _neutral(value, place) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return type(thing)(_neutral(one, place) for one in thing)
    if not isinstance(thing, str):
        return thing
    for path in (place, place.resolve()):
        thing = thing.replace(str(path), JOB)
    thing = thing.replace(str(Path(__file__).parents[2]), "/usr/lib/course")
    thing = re.sub(r"[\w/.+-]*/site-packages/", f"{PACKAGES}/", thing)
    thing = re.sub(r"[\w/.+-]*/bin/python[\d.]*", "/usr/bin/python3", thing)
    thing = re.sub(r"[\w/.+-]*/lib/python3[\d.]*/(?!site-packages)", "/usr/lib/python3/", thing)
    return re.sub(r"(?<=host      : ).*", "node1", thing)


_COLLECTIVE = "torch/distributed/distributed_c10d.py"
_KINDS: dict[str, Callable[[Case, Path], None]] = {
    "dumps": _leave_dumps,
    "log": _leave_log,
    "stacks": _leave_stacks,
}
