"""Programs under mpirun, if it is installed; otherwise, the recorded output of the same program.

Only programs of the lessons were recorded, each with its exact source. Any other program needs a real mpirun, and never
gets the output of another program.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddp_lessons.record import recordings

RECORDINGS = pathlib.Path(__file__).with_name("recordings")
HOW_TO_GET_IT = (
    "to have one, install Open MPI (on Debian and Ubuntu `apt-get install openmpi-bin`, on a Mac `brew install "
    "open-mpi`) and mpi4py (`python -m pip install mpi4py`)"
)
# Open MPI's settings, which mpirun reads from the environment: more ranks than cores, not bound to cores, as root if
# the notebook runs as root, and over loopback and shared memory only. Other MPIs ignore them.
_SETTINGS = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_oob_tcp_if_include": "lo0" if sys.platform == "darwin" else "lo",
    "OMPI_MCA_btl": "self,vader",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_plm_rsh_agent": "",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PYTHONUNBUFFERED": "",
}
# a line of a traceback; once a process has joined, torch starts each with the rank
_SAID = re.compile(r"(?:\[rank(?P<rank>\d+)\]:)?\s*(?P<words>.*?)\s*")
_RAISED = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception)\b")


class NoMPI(RuntimeError):
    """A program needs mpirun, and this machine has none."""


@dataclass(frozen=True)
class Ended:
    """The output of a program under mpirun, line by line, sorted because the ranks print in any order."""

    command: str  # as typed in a terminal
    lines: tuple[str, ...]
    is_live: bool  # otherwise recorded on another machine

    @property
    def origin(self) -> str:
        return "run on this machine" if self.is_live else "recorded: this machine has no MPI"


def mpirun(program: str | os.PathLike[str], ranks: int = 4, timeout_seconds: float = 180.0) -> Ended:
    """Run a Python file on so many ranks under mpirun; without mpirun, return its recorded output.

    Raises:
        NoMPI: this machine has no MPI, and there is no recording of this program.
        RuntimeError: the program failed; the message contains its last lines.
    """
    path = pathlib.Path(program)
    command = f"mpirun -n {ranks} python {path.name}"
    why_not = why_no_mpi()
    if not why_not:
        printed = run_under_mpirun([os.fspath(path)], ranks, timeout_seconds)
        return Ended(command, tuple(sorted(printed.splitlines())), is_live=True)
    told = recordings.recall(RECORDINGS / f"{path.stem}_{ranks}.json")
    if told is None or told["of"] != recordings.digest(path.read_text(encoding="utf-8").strip()):
        raise NoMPI(f"{why_not}, and there is no recording of this program, because it is not one of the lesson")
    return Ended(command, tuple(told["lines"]), is_live=False)


@functools.cache
def why_no_mpi() -> str:
    """Why no Python program can run under mpirun here, or ""."""
    if shutil.which("mpirun") is None:
        return f"this machine has no mpirun; {HOW_TO_GET_IT}"
    if importlib.util.find_spec("mpi4py") is None:
        return f"this Python has no mpi4py; {HOW_TO_GET_IT}"
    try:
        run_under_mpirun(["-c", "from mpi4py import MPI"], 1, 180.0)
    except RuntimeError as error:
        return f"MPI does not work here ({str(error).splitlines()[0]}); {HOW_TO_GET_IT}"
    return ""


def run_under_mpirun(
    arguments: Sequence[str], ranks: int, timeout_seconds: float, settings: Mapping[str, str] | None = None
) -> str:
    """Return what Python with these arguments prints on so many ranks. All ranks have ended when this returns."""
    command = ["mpirun", "-n", str(ranks), sys.executable, *arguments]
    # one thread for each rank, because they share the cores
    surroundings = {"OMP_NUM_THREADS": "1", **os.environ, **_SETTINGS, **(settings or {})}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=surroundings,
        start_new_session=True,
    ) as process:
        try:
            printed, complained = process.communicate(timeout=timeout_seconds)
        except BaseException as reason:
            _end(process)
            if isinstance(reason, subprocess.TimeoutExpired):
                raise RuntimeError(f"mpirun had not ended after {timeout_seconds:g} seconds, and was stopped") from None
            raise
    if process.returncode:
        raise RuntimeError(_why_it_failed(complained, process.returncode, arguments[0]))
    return printed


def _end(process: subprocess.Popen[str]) -> None:
    """mpirun ends its ranks when it is terminated. It is killed only if that does not work."""
    process.terminate()
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _why_it_failed(complained: str, code: int, program: str) -> str:
    """The exception from Python's output, with its rank and its line in the program."""
    lines = [match for line in complained.splitlines() if (match := _SAID.fullmatch(line)) and match["words"]]
    raised = next((line for line in lines if _RAISED.match(line["words"])), None)
    if raised is None:
        return [*(line["words"] for line in lines), f"mpirun ended with code {code}, and said nothing"][0]
    who = "a rank" if raised["rank"] is None else f"rank {raised['rank']}"
    own = [line["words"] for line in lines[: lines.index(raised)] if line["rank"] == raised["rank"]]
    places = [number for number, words in enumerate(own) if words.startswith(f'File "{program}", line ')]
    told = f"{who} raised {raised['words']}"
    if places:
        line_number = own[places[-1]].split(", line ")[1].partition(",")[0]
        told += f"\n    {os.path.basename(program)} line {line_number}:   {''.join(own[places[-1] + 1 :][:1])}"
    return told
