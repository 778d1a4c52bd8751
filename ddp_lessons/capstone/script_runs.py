"""Run a learner's script under torchrun, undisturbed or disturbed, and read what its ranks left behind.

No process outlives its run: each carries a mark in its environment, by which it is found and killed at the end, also
when the learner presses stop.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ddp_lessons.capstone.verdicts import NotYet, part_of, refuse
from ddp_lessons.own_files import IMPORTED_FROM
from ddp_lessons.record.events import Events
from ddp_lessons.record.results import NO_VALUE, Results
from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.run.output.progress_line import ProgressLine
from ddp_lessons.run.scripts.torchrun_here import torchrun_here
from ddp_lessons.sameness.run_records import Run, file_of, read_record
from ddp_lessons.train.mnist import mnist_folder

EPOCHS = 3
RESULTS = ("train_loss", "test_loss", "correct", "tested")
_PLAIN = Path(__file__).with_name("plain_training.py")
_MARK = "DDP_LESSONS_CAPSTONE"
_TICK_SECONDS = 0.05
_MOST_PRINTED, _READ = 20 << 20, 200_000  # bytes
_ERROR = re.compile(r"[\w.]+(Error|Exception|Exit|Interrupt)\b(:|$)|[\w.]+: error: ")  # of Python, of argparse
# of a file next to the checkpoint that another rank has renamed, or that two ranks write at the same time
_SEVERAL_SAVED = re.compile(r"FileNotFoundError: .*(->|FILE\.\w+[^'\"\w])|PytorchStreamWriter|unexpected pos")
# runs the learner's script with the fault of the settings; lines and file names in messages are the learner's
_COPY = """import sys
sys.argv[1:1] = {!r}
from ddp_lessons.capstone.observed_rank import main
main()
"""


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and what it left in its folder."""

    folder: Path
    files: Path  # where its FILE.pt and FILE.json are
    ranks: int  # 0: without torchrun
    script: str
    arguments: str  # as in a command; FILE and DATA stand for files of this machine
    status: int | None  # None: it was ended at the limit
    seconds: float
    limit: float
    printed: str

    @cached_property
    def noted(self) -> list[dict[str, Any]]:
        """Of each rank: the number of its steps, and the files that it wrote."""
        return [json.loads(file_of(self.folder, rank).read_text(encoding="utf-8")) for rank in range(self.ranks)]

    @cached_property
    def record(self) -> Run:
        """Of a run that was watched step by step."""
        return Run(tuple(read_record(file_of(self.folder, rank)) for rank in range(self.ranks or 1)))

    def weights(self, rank: int) -> Any:
        return np.load(self.folder / f"weights-{rank}.npy")

    def calls(self) -> Results[Any]:
        """The calls of torch.distributed of each rank, as `launch` returns them."""
        files = [self.folder / f"calls-{rank}.pickle" for rank in range(self.ranks)]
        recorded = [pickle.loads(file.read_bytes()) for file in files]  # noqa: S301  in a private folder
        return Results((NO_VALUE,) * self.ranks, tuple([] for _ in files), self.seconds, Events(recorded))

    def result(self) -> dict[str, float]:
        """What the script wrote to --out, if it takes that argument."""
        if "--out" not in self.arguments:
            return {}
        try:
            found = json.loads((self.files / "FILE.json").read_text(encoding="utf-8"))
            return {key: float(found[key]) for key in RESULTS}
        except (OSError, ValueError, TypeError, KeyError) as error:
            told = self._with_short_names(f"{type(error).__name__}: {error}")
            raise NotYet(part_of("no_results", False, on=count(self.ranks, "rank"), error=told)) from None

    def _with_short_names(self, failure: str) -> str:
        return failure.replace(f"{self.files}{os.sep}", "")

    @property
    def last_line(self) -> str:
        """Of what it printed: the exception, if there is one."""
        lines = re.sub(r"^\[rank\d+\]:", "", self.printed, flags=re.MULTILINE).split("\n")
        lines = [line.strip() for line in lines if line.strip()]
        errors = [line for line in lines if _ERROR.match(line) and not line.startswith("torch.distributed.elastic")]
        return (errors or lines[-1:] or ["it printed nothing"])[0]

    def require_end(self) -> Outcome:
        """Refuse a run that did not come to its end. The same failure reads the same in each run."""
        failure = self._with_short_names(self.last_line)[:200].rstrip(".")
        rows = {
            "too_much_output": self.status is None and self.seconds < self.limit,
            "timeout": self.status is None,
            "several_ranks_save": self.status and self.ranks > 1 and _SEVERAL_SAVED.search(failure),
            "failed": self.status,
            "no_record": not all(file_of(self.folder, rank).exists() for rank in range(self.ranks)),
        }
        explain = f"`python -m ddp_lessons explain --nproc-per-node {self.ranks} {self.script} {self.arguments}`"
        refuse(rows, on=count(self.ranks, "rank"), limit=self.limit, failure=failure, command=explain)
        return self


@dataclass
class Trials:
    """Runs of a script. Each is made when a part first asks for it, and kept."""

    script: Path
    folder: Path
    arguments: str  # of a whole training
    steps_per_epoch: int
    show: Callable[[str], None] = lambda words: None
    part: str = ""  # of the judgment, in front of what is shown
    limit: float = 120.0  # seconds for a run
    kept: dict[tuple[str, int, str], Outcome] = field(default_factory=dict)

    def run(
        self, name: str, ranks: int, arguments: str = "", resumes: Outcome | None = None, **disturbed: Any
    ) -> Outcome:
        """Run the script (on 0 ranks: the plain program). A run that resumes another goes on from its files."""
        key = name, ranks, arguments or self.arguments
        if key not in self.kept:
            folder = self.folder / str(len(self.kept))
            folder.mkdir()
            files = resumes.files if resumes else folder
            given = [word.replace("FILE", str(files / "FILE")) for word in key[2].split()]
            given = [mnist_folder() if word == "DATA" else word for word in given]
            command = [sys.executable, *self._command(folder, ranks, **disturbed), *given]
            words = f"{self.part}{count(ranks, 'rank') if ranks else 'the plain program'}, {name}"
            status, seconds, printed = run_command(
                command, folder, {} if ranks else {"RANK": "0"}, self.limit, lambda: self.show(words)
            )
            self.kept[key] = Outcome(
                folder, files, ranks, self.script.name, key[2], status, seconds, self.limit, printed
            )
        return self.kept[key]

    def _command(self, folder: Path, ranks: int, watch: int = 0, explains: bool = False, **settings: Any) -> list[str]:
        script = self.script if ranks else _PLAIN
        observed = [str(folder), json.dumps(settings), str(script)]
        if explains:
            copy = folder / self.script.name
            copy.write_text(_COPY.format(observed), encoding="utf-8")
            return ["-m", "ddp_lessons", "explain", f"--nproc-per-node={ranks}", str(copy)]
        module = "ddp_lessons.capstone.observed_rank"
        if watch:
            module = "ddp_lessons.sameness.watched_script"
            observed[1] = json.dumps({"steps": watch, "random": [], "dtype": None})
        return [*(torchrun_here(ranks, folder) if ranks else []), "-m", module, *observed]


@contextlib.contextmanager
def trials_of(script: Path, arguments: str, steps_per_epoch: int) -> Iterator[Trials]:
    """In a folder of their own, with a line that says what runs, and for how long."""
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="ddp-lessons-", ignore_cleanup_errors=True) as folder,
        ProgressLine() as line,
    ):
        trials = Trials(script, Path(folder), arguments, steps_per_epoch)
        trials.show = lambda words: line.show(f"{words} ({time.monotonic() - began:.0f} s so far)")
        yield trials


def run_command(
    command: list[str], folder: Path, variables: dict[str, str], limit: float, tick: Callable[[], None]
) -> tuple[int | None, float, str]:
    """Return the exit status (None: ended by us), the seconds, and what was printed. No process of it is left."""
    mark, began, printed = uuid.uuid4().hex, time.monotonic(), folder / "printed"
    path = os.pathsep.join([IMPORTED_FROM, *filter(None, [os.environ.get("PYTHONPATH")])])
    ours = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", _MARK: mark}
    with printed.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ours, **variables},
            start_new_session=True,  # a notebook's stop button interrupts only us, and we end them
        )
    try:
        while (status := process.poll()) is None:
            if time.monotonic() - began > limit or printed.stat().st_size > _MOST_PRINTED:
                break
            tick()
            time.sleep(_TICK_SECONDS)
        seconds = time.monotonic() - began
    finally:
        for _ in range(3):  # one that is just being started may be missed at first
            _kill_all(mark)
        process.wait()
    return status, seconds, printed.read_bytes()[-_READ:].decode("utf-8", errors="replace")


def _kill_all(mark: str) -> None:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark:
                process.kill()
                found.append(process)
    psutil.wait_procs(found, timeout=5)
