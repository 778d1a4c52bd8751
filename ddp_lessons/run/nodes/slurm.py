"""Nodes of a Slurm cluster."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from types import TracebackType

from ddp_lessons.run.launcher.private_folders import open_standard_descriptors, session_folder
from ddp_lessons.run.nodes.hosts import NodeCommand, NodeLost, WaitStopped
from ddp_lessons.run.nodes.node_group import disconnect
from ddp_lessons.run.output.progress_line import ProgressLine
from ddp_lessons.run.processes.process_sources import end_within, opened
from ddp_lessons.run.wire.channel import Channel

_TICK_SECONDS = 0.05
_SECONDS_TO_END = 10.0
_OF_THE_USER = ("SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS")
# salloc ends, and with it the request or the job, when the notebook closes this shell's stdin, by whatever end
_LEASH = 'exec 3<&0; salloc "$@" </dev/null 3<&- & salloc=$!; { cat <&3; kill $salloc; } & wait $salloc'
_SAY_NODES = 'echo "ddp-lessons: $SLURM_JOB_ID" $(scontrol show hostnames "$SLURM_JOB_NODELIST"); exec sleep infinity'
_NODES = re.compile(r"^ddp-lessons: (\d+) (.+)$", re.M)
_SALLOC = ("--job-name=ddp_lessons", "--kill-command=TERM")  # when the job is cancelled, salloc ends
# all CPUs and GPUs that the job has there; a step that can't start now would wait without a word
_STEP = "--overlap --nodes=1 --ntasks=1 --cpu-bind=none --mpi=none --export=ALL --unbuffered --immediate=30"


class Slurm:
    """Nodes of a Slurm cluster, for `launch(..., on=cluster)` and `Workers(..., on=cluster)`::

        with Slurm(nodes=2, gpus_per_node=4, time=30) as cluster:
            results = launch(train, 8, on=cluster)

    One job holds the nodes for all launches, including those of later cells if you write `cluster = Slurm(...)` without
    `with`. In that case, the first launch requests the nodes, and `cluster.close()` releases them. The job also ends
    when the notebook does, for whatever reason. If the job ends first, as at its time limit, the next launch requests
    nodes again. While the job is queued, the cell shows what Slurm reports, and the stop button cancels the job.

    If the notebook itself runs in a job (SLURM_JOB_ID is set), that job's nodes are used. Each node needs the same
    Python, torch and version of this package as the notebook, which a shared file system usually provides.

    Args:
        python: the path of Python on the nodes; the default is the notebook's.
        through: a prefix for each of Slurm's commands, such as "docker exec -i login" if they are in a container.
        options: long options of Slurm's `salloc`, with _ for each -, such as nodes=2, partition="gpu", exclusive=True.
    """

    def __init__(self, *, python: str = sys.executable, through: str = "", **options: object) -> None:
        named = [(f"--{name.replace('_', '-')}", value) for name, value in options.items()]
        self._options = [name if value is True else f"{name}={value}" for name, value in named]
        self._python, self._through = python, shlex.split(through)
        self._job: _Job | None = None

    def __repr__(self) -> str:
        about = f": job {self._job.number} on {', '.join(self._job.nodes)}" if self._job is not None else ""
        return f"Slurm({' '.join(self._options)}){about}"

    def __enter__(self) -> Slurm:
        self.commands()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, path: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all ranks and the job."""
        disconnect(self)
        if self._job is not None:
            self._job.end()
            self._job = None

    def commands(self) -> list[NodeCommand]:
        if number := os.environ.get("SLURM_JOB_ID", ""):
            packed = os.environ.get("SLURM_JOB_NODELIST", "")
            listed = subprocess.run(
                self._words("scontrol", "show", "hostnames", packed), capture_output=True, text=True
            )
            nodes = listed.stdout.split()
        else:
            if self._job is None or self._job.process.poll() is not None:
                self.close()
                self._job = _Job(
                    self._words("sh", "-c", _LEASH, "salloc", *_SALLOC, *self._options, "sh", "-c", _SAY_NODES)
                )
            number, nodes = self._job.number, self._job.nodes
        srun = self._words("srun", f"--jobid={number}", *_STEP.split())
        shown = f"srun --jobid={number} --nodelist="
        return [NodeCommand(node, [*srun, f"--nodelist={node}", "sh"], self._python, shown + node) for node in nodes]

    def _words(self, *command: str) -> list[str]:
        """The command, as if typed outside of any job: in a job, variables would change what options mean."""
        of_a_job = [name for name in os.environ if name.startswith(("SLURM", "SRUN_")) and name not in _OF_THE_USER]
        return [*self._through, "env", *(f"--unset={name}" for name in of_a_job), *command]


class _Job:
    """A job of salloc, which lives no longer than this process. Making one waits in Slurm's queue."""

    def __init__(self, salloc: Sequence[str]) -> None:
        open_standard_descriptors()
        ours, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile(dir=session_folder())  # noqa: SIM115
        with theirs:
            self.process = subprocess.Popen(
                salloc, stdin=theirs.fileno(), stdout=self._said, stderr=self._said, start_new_session=True
            )
        self.end = weakref.finalize(self, _end, opened(ours), self.process)
        try:
            self.number, self.nodes = self._granted()
        except BaseException as error:
            self.end()
            if isinstance(error, KeyboardInterrupt):
                raise WaitStopped("you stopped waiting for nodes, so the request was canceled") from None
            raise

    def _granted(self) -> tuple[str, list[str]]:
        begin = time.monotonic()
        with ProgressLine() as line:
            while True:
                has_ended = self.process.poll() is not None
                said = os.pread(self._said.fileno(), 1 << 20, 0).decode(errors="replace")
                if granted := _NODES.search(said):
                    return granted[1], granted[2].split()
                last = (said.strip().splitlines() or ["salloc has printed nothing"])[-1]
                if has_ended:
                    raise NodeLost(f"Slurm allocated no nodes: {last}\n  Next: try the same `salloc` in a terminal.")
                line.show(f"{last} … {time.monotonic() - begin:.0f} s")
                time.sleep(_TICK_SECONDS)


def _end(leash: Channel, process: subprocess.Popen[bytes]) -> None:
    leash.close()
    end_within(_SECONDS_TO_END, process)
