"""The nodes that Slurm has given to a notebook, and the request for them."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Sequence
from typing import IO

from ddp_lessons.run.launcher.private_folders import open_standard_descriptors, session_folder
from ddp_lessons.run.nodes.node_commands import WaitStopped
from ddp_lessons.run.nodes.slurm_commands import NoAllocation, SlurmCommands, Waiting
from ddp_lessons.run.nodes.slurm_troubles import CAN_NEVER_START, why_refused
from ddp_lessons.run.output.progress_line import ProgressLine
from ddp_lessons.run.processes.process_sources import end_within, opened
from ddp_lessons.run.wire.channel import Channel

# Runs salloc until the notebook closes our stdin, by whatever end. SIGHUP then cancels a request that still waits, and
# ends an allocation. The watcher goes as soon as salloc has ended, so it can't signal another process of that number.
_HOLD = """\
exec 3<&0
"$@" </dev/null 3<&- &
salloc=$!
{ cat <&3; kill -HUP $salloc; } >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait $salloc
status=$?
kill $watcher 2>/dev/null
exit $status
"""
_SAY_NODES = """\
echo "ddp-lessons: job $SLURM_JOB_ID" $(scontrol show hostnames "$SLURM_JOB_NODELIST")
exec sleep infinity
"""
_NODES = re.compile(r"^ddp-lessons: job (\d+) (.+)$", re.M)
_PENDING = re.compile(r"Pending job allocation (\d+)")
_TICK_SECONDS = 0.05
_SECONDS_TO_END = 10.0
_SECONDS_BETWEEN_LOOKS = (2.0, 10.0)  # at the queue: first, and then, as squeue is work for the controller


class Allocation:
    """A job that holds nodes."""

    def __init__(self, commands: SlurmCommands, job: str, nodes: Sequence[str]) -> None:
        self.job, self.nodes, self._commands = job, tuple(nodes), commands

    def agent(self, node: str, command: Sequence[str]) -> list[str]:
        """The command that starts an agent on this node, with all CPUs and GPUs that the job has there."""
        share = ("--overlap", "--nodes=1", "--ntasks=1", "--cpu-bind=none", "--mpi=none", "--export=ALL")
        # slurmstepd would keep output in a buffer; and a step that can't start now would wait without a word
        speak = ("--unbuffered", "--immediate=30")
        return self._commands.words("srun", f"--jobid={self.job}", f"--nodelist={node}", *share, *speak, *command)

    def why_ended(self) -> str:
        return self._commands.why_ended(self.job)

    def is_held(self) -> bool:
        """As far as is known here."""
        return True

    def has_ended(self) -> bool:
        """Asks Slurm, which may know it earlier."""
        return not self.is_held() or bool(self.why_ended())

    def release(self) -> None:
        """It is the job of somebody else, or of this notebook itself."""


def allocation_here(commands: SlurmCommands, job: str, count: int | None) -> Allocation:
    """The job that this notebook runs in: its first nodes, or all.

    Raises:
        NoAllocation: it has ended, or has fewer nodes.
    """
    nodes = commands.nodes_of(job)
    new = 'To request a new job instead, remove the variable: del os.environ["SLURM_JOB_ID"]'
    silent = "Slurm's controller does not answer"
    why = "" if nodes else commands.why_ended(job, silent) or f"job {job} has no nodes yet"
    if why == silent:
        raise NoAllocation(
            f"this notebook runs in job {job}, but {silent}.\n"
            "  Next: wait a minute and try again; `scontrol ping` shows whether it is up."
        )
    if why:
        raise NoAllocation(f"SLURM_JOB_ID names the job of this notebook, but {why}.\n  Next: {new}.")
    if len(nodes) < (count or 1):
        has = f"{len(nodes)} node{'s' if len(nodes) > 1 else ''}"
        raise NoAllocation(
            f"this notebook runs in job {job}, which has {has}, and not {count}.\n"
            f"  Next: start the notebook in a job with {count} nodes, or use nodes={len(nodes)}. {new}."
        )
    return Allocation(commands, job, nodes[:count])


class HeldAllocation(Allocation):
    """A job of salloc, which lives no longer than this process. Making one waits in Slurm's queue."""

    def __init__(self, commands: SlurmCommands, options: Sequence[str]) -> None:
        super().__init__(commands, "", ())
        open_standard_descriptors()
        self._request = ("salloc", *options)
        held = commands.words("sh", "-c", _HOLD, "hold", *self._request, "sh", "-c", _SAY_NODES)
        ours, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile(dir=session_folder())  # noqa: SIM115
        with theirs:
            self._process = subprocess.Popen(
                held, stdin=theirs.fileno(), stdout=self._said, stderr=self._said, start_new_session=True
            )
        self._end = weakref.finalize(self, _end, opened(ours), self._process, self._said)
        try:
            self._wait()
        except KeyboardInterrupt:
            self.release()
            job = f"job {self.job}" if self.job else "the request"
            raise WaitStopped(
                f"you stopped waiting for nodes, so {job} was cancelled.\n"
                "  Next: run the cell again to request them again; `sinfo` shows which nodes are idle."
            ) from None
        except BaseException:
            self.release()
            raise

    def is_held(self) -> bool:
        return self._process.poll() is None

    def release(self) -> None:
        """End the job, and return when Slurm knows it."""
        self._end()

    def _wait(self) -> None:
        look, waiting, begin = time.monotonic() + _SECONDS_BETWEEN_LOOKS[0], None, time.monotonic()
        with ProgressLine() as line:
            while (granted := _NODES.search(said := self._words())) is None:
                if self._process.poll() is not None:
                    raise NoAllocation(why_refused(self._shown(), self._words().splitlines()))
                if (pending := _PENDING.search(said)) is not None:
                    self.job = pending[1]
                if self.job and time.monotonic() > look:
                    waiting = self._looked()
                    look = time.monotonic() + _SECONDS_BETWEEN_LOOKS[1]
                line.show(_shown(self.job, waiting, time.monotonic() - begin))
                time.sleep(_TICK_SECONDS)
        self.job, self.nodes = granted[1], tuple(granted[2].split())

    def _looked(self) -> Waiting:
        waiting = self._commands.waiting(self.job)
        if waiting.reason in CAN_NEVER_START:
            told = f"job {self.job} is waiting ({waiting.reason})"
            raise NoAllocation(why_refused(self._shown(), [told]))
        return waiting

    def _words(self) -> str:
        """All that salloc has written so far. pread, because it shares the position in the file with us."""
        number = self._said.fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")

    def _shown(self) -> list[str]:
        return [shlex.quote(word) for word in self._request]


def _shown(job: str, waiting: Waiting | None, seconds: float) -> str:
    words = f"Slurm: job {job} is waiting for nodes" if job else "Slurm: requesting nodes"
    if waiting is not None and waiting.reason:
        words += f" ({waiting.reason})"
    if waiting is not None and waiting.ahead:
        words += f", {waiting.ahead} job{'s' if waiting.ahead > 1 else ''} ahead of it"
    if waiting is not None and waiting.start:
        words += f", expected to start at {waiting.start.replace('T', ' ')}"
    return f"{words} … {seconds:.0f} s"


def _end(leash: Channel, process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
    with contextlib.suppress(OSError):
        leash.socket.shutdown(socket.SHUT_RDWR)
    leash.close()
    end_within(_SECONDS_TO_END, process)
    said.close()
