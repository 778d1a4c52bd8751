"""Start a learner's script under torchrun, wait for its end within a limit, and read what its ranks left behind.

No process outlives its run: each carries a mark in its environment, by which it is found and killed at the end, also
when the learner presses stop.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pickle
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil

from ddp_lessons.own_files import IMPORTED_FROM
from ddp_lessons.run.scripts.torchrun_here import torchrun_here

_MARK = "DDP_LESSONS_CAPSTONE"
_TICK_SECONDS, _END_SECONDS = 0.05, 5.0
_MOST_PRINTED = 20 << 20  # bytes
_LAST_LINES = 12
_ERROR = re.compile(r"[\w.]+(Error|Exception|Exit|Interrupt)\b(:|$)|[\w.]+: error: ")  # of Python, of argparse
TORCHRUN = "torch.distributed.run"
# runs the learner's script with the fault of the settings; lines and file names in messages are the learner's
_COPY = """import sys
sys.argv[1:1] = {!r}
from ddp_lessons.capstone.observed_rank import main
main()
"""


class CannotJudge(RuntimeError):
    """Something that every part needs is missing; the message says what, and what to do."""


@dataclass(frozen=True)
class Program:
    """What to start: a script on so many ranks (0: without torchrun), with its arguments."""

    script: Path
    ranks: int
    arguments: Sequence[str]
    settings: dict[str, Any] = field(default_factory=dict)  # of the observer
    watches: bool = False  # step by step, for the comparison with one process
    explains: bool = False  # under `python -m ddp_lessons explain`

    def command(self, folder: Path) -> list[str]:
        if self.explains:
            copy = folder / self.script.name
            copy.write_text(_COPY.format([str(folder), json.dumps(self.settings), str(self.script)]), encoding="utf-8")
            explain = ["-m", "ddp_lessons", "explain", f"--nproc-per-node={self.ranks}", str(copy)]
            return [sys.executable, *explain, *self.arguments]
        module = "ddp_lessons.sameness.watched_script" if self.watches else "ddp_lessons.capstone.observed_rank"
        rank = ["-m", module, str(folder), json.dumps(self.settings), str(self.script), *self.arguments]
        return [sys.executable, *(torchrun_here(self.ranks, folder) if self.ranks else []), *rank]


@dataclass(frozen=True)
class Outcome:
    """How a program ended, and what it left in its folder."""

    folder: Path
    status: int | None  # None: it was ended at the limit
    seconds: float
    limit: float
    printed: str

    @property
    def has_ended(self) -> bool:
        return self.status == 0

    @cached_property
    def noted(self) -> dict[int, dict[str, Any]]:
        """By rank, as far as they came to their end."""
        files = {int(path.stem.rpartition("-")[2]): path for path in self.folder.glob("noted-*.json")}
        return {rank: json.loads(files[rank].read_text(encoding="utf-8")) for rank in sorted(files)}

    def weights(self, rank: int) -> Any:
        import numpy as np

        return np.load(self.folder / f"weights-{rank}.npy")

    def steps(self, rank: int) -> int:
        return int(self.noted.get(rank, {}).get("steps", 0))

    def calls(self) -> Any:
        """The calls of torch.distributed of each rank, as `launch` returns them."""
        from ddp_lessons.record.events import Events
        from ddp_lessons.record.results import NO_VALUE, Results

        files = [self.folder / f"calls-{rank}.pickle" for rank in self.noted]
        recorded = [
            pickle.loads(file.read_bytes()) if file.exists() else None  # noqa: S301  in a private folder
            for file in files
        ]
        lines: tuple[list[str], ...] = tuple([] for _ in recorded)
        return Results((NO_VALUE,) * len(recorded), lines, self.seconds, Events(recorded))

    @property
    def last_line(self) -> str:
        """Of what it printed: the exception, if there is one."""
        lines = [re.sub(r"^\[rank\d+\]:", "", line).strip() for line in self.printed.splitlines()]
        lines = [line for line in lines if line]
        errors = [line for line in lines if _ERROR.match(line) and not line.startswith("torch.distributed.elastic")]
        return (errors or lines[-1:] or ["it printed nothing"])[0][:400]


def require_torchrun() -> None:
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec(TORCHRUN) is None:
        raise CannotJudge(
            "torchrun is missing: Python finds no module torch.distributed.run.\n"
            "Next: run `python -m ddp_lessons doctor`, which says how to install torch."
        )


@contextlib.contextmanager
def running(program: Program, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The process that starts a program; at the end, none is left of it."""
    mark = uuid.uuid4().hex
    outside = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    outside["PYTHONPATH"] = os.pathsep.join([IMPORTED_FROM, *filter(None, [os.environ.get("PYTHONPATH")])])
    outside |= {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", _MARK: mark}
    alone = {} if program.ranks else {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with (folder / "printed").open("wb") as file:
            process = subprocess.Popen(
                program.command(folder),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=outside | alone,
                start_new_session=True,  # stop in a notebook is for us, who then end them
            )
        yield process
    finally:
        _end(mark)


def run_program(program: Program, folder: Path, limit: float, tick: Callable[[], None]) -> Outcome:
    """Run a program until its end or the limit."""
    began = time.monotonic()
    with running(program, folder) as process:
        while (status := process.poll()) is None:
            if time.monotonic() - began > limit or (folder / "printed").stat().st_size > _MOST_PRINTED:
                break
            tick()
            time.sleep(_TICK_SECONDS)
        seconds = time.monotonic() - began
    return Outcome(folder, status, seconds, limit, _printed(folder / "printed"))


def _printed(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 200_000))
        return file.read().decode("utf-8", errors="replace")


def _end(mark: str) -> None:
    for _ in range(3):  # one that is just being started may be missed at first
        found = [process for process in psutil.process_iter() if _has(process, mark)]
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if not found:
            break
        psutil.wait_procs(found, timeout=_END_SECONDS)


def _has(process: psutil.Process, mark: str) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_MARK) == mark
    except (psutil.Error, OSError):
        return False
