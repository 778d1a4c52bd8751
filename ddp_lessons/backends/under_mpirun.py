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
from collections.abc import Sequence
from dataclasses import dataclass

from ddp_lessons.record import recordings

RECORDINGS = pathlib.Path(__file__).with_name("recordings")
HOW_TO_GET_IT = (
    "to get it, install Open MPI (on Debian and Ubuntu `apt-get install openmpi-bin`, on a Mac `brew install "
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
# once a process has joined, torch puts its rank before each line of a traceback
_RANK = r"(?:\[rank(\d+)\]:)? *"
_RAISED = re.compile(rf"^{_RANK}((?:\w+\.)*\w*(?:Error|Exception)\b.*)", re.MULTILINE)


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
    """Run a Python file under mpirun on this many ranks; without mpirun, return its recorded output.

    Raises:
        NotHere: this machine has no MPI, and there is no recording of this program.
        RuntimeError: the program failed; the message says what a rank raised, and where.
    """
    path = pathlib.Path(program)
    command = f"mpirun -n {ranks} python {path.name}"

    def live() -> Ended:
        printed = _run_under_mpirun([os.fspath(path)], ranks, timeout_seconds)
        return Ended(command, tuple(sorted(printed.splitlines())), is_live=True)

    return recordings.live_or_recorded(
        RECORDINGS / f"{path.stem}_{ranks}.json",
        recordings.digest(path.read_text(encoding="utf-8").strip()),
        why_no_mpi,
        live,
        as_plain=lambda ended: {"lines": ended.lines},
        from_plain=lambda told: Ended(command, tuple(told["lines"]), is_live=False),
    )


@functools.cache
def why_no_mpi() -> str:
    """Why no Python program can run under mpirun here, or ""."""
    if shutil.which("mpirun") is None:
        return f"this machine has no mpirun; {HOW_TO_GET_IT}"
    if importlib.util.find_spec("mpi4py") is None:
        return f"this Python has no mpi4py; {HOW_TO_GET_IT}"
    try:
        _run_under_mpirun(["-c", "from mpi4py import MPI"], 1, 180.0)
    except RuntimeError as error:
        return f"MPI does not work here ({str(error).splitlines()[0]}); {HOW_TO_GET_IT}"
    return ""


def _run_under_mpirun(arguments: Sequence[str], ranks: int, timeout_seconds: float) -> str:
    """Return what Python with these arguments prints on so many ranks. All ranks have ended when this returns."""
    command = ["mpirun", "-n", str(ranks), sys.executable, *arguments]
    # one thread for each rank, because they share the cores
    surroundings = {"OMP_NUM_THREADS": "1", **os.environ, **_SETTINGS}
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
                raise RuntimeError(f"mpirun took longer than {timeout_seconds:g} seconds and was stopped") from None
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
    """The first exception, and the line of the program that the traceback before it names last."""
    raised, name = _RAISED.search(complained), os.path.basename(program)
    if raised is None:
        words = [line.strip() for line in complained.splitlines() if re.search(r"\w", line)]
        return "\n    ".join([f"mpirun exited with code {code}", *words[-5:]])
    who = "a rank" if raised[1] is None else f"rank {raised[1]}"
    # Python writes the path as a whole, however the program was given
    places = re.findall(rf'File ".*{re.escape(name)}", line (\d+).*\n{_RANK}(.*)', complained[: raised.start()])
    where = [f"\n    {name} line {line}:   {source}" for line, _, source in places[-1:]]
    return "".join([f"{who} raised {raised[2]}", *where])
