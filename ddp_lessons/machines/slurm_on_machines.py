"""A real Slurm cluster on simulated nodes.

machine0 also runs the controller. All files are in a folder that is removed with the cluster. A Slurm that already runs
on this machine is not affected.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from ddp_lessons.machines.attempts import Attempt, Said
from ddp_lessons.machines.jobs import Job
from ddp_lessons.machines.namespaces import Machines
from ddp_lessons.machines.places import missing_commands, rules_here
from ddp_lessons.record.recordings import NotHere

_NEEDED = {
    "munged": "munge",
    "sbatch": "slurm-client",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
}
_SECONDS_TO_BEGIN, _LOOK_SECONDS = 20.0, 0.1
_SECONDS_IN_LINE = 40.0  # this cluster has no other users, so a job that waits so long will never start
_UNFINISHED = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}
_OUTPUT = re.compile(r"^#SBATCH\s(.*\s)?(-o|--output)", re.M)
_LABEL = re.compile(r"(\d+): (.*)")

# only what two small nodes need: no accounts, no control groups, no GPUs
_CONFIGURATION = """\
ClusterName=lesson
SlurmctldHost=machine0
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
KillWait=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmdParameters=config_overrides
NodeName=machine[0-{last}] CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=lesson Nodes=ALL Default=YES MaxTime=60 State=UP
"""


class SlurmOnMachines:
    """A cluster of this many nodes with four processors each. Use it in a `with` statement."""

    def __init__(self, count: int = 2) -> None:
        self.machines = Machines(count)
        self._daemons: list[Job] = []

    def __repr__(self) -> str:
        return f"SlurmOnMachines({len(self.machines.names)})"

    def why_not(self) -> str:
        """Why this machine can't make a cluster, or ""."""
        if reason := missing_commands(_NEEDED) or self.machines.why_not():
            return reason
        return "" if rules_here() else "only root can start Slurm"

    def __enter__(self) -> SlurmOnMachines:
        if reason := self.why_not():
            raise NotHere(reason)
        self.folder = Path(tempfile.mkdtemp(prefix="ddp-lessons-slurm-"))
        try:
            self.machines.__enter__()
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.machines.__exit__()
        for daemon in self._daemons:
            daemon.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, command: str, machine: int = 0) -> str:
        """Run one of Slurm's commands (or any other) on the cluster, and return its output.

        Raises:
            RuntimeError: it failed; the message contains its output.
        """
        done = self.machines.run(machine, f"env SLURM_CONF={self.folder}/slurm.conf {command}")
        if done.returncode:
            raise RuntimeError(f"{command.split()[0]}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def sbatch(self, script: str | os.PathLike[str], arguments: str = "", timeout_seconds: float = 180.0) -> Attempt:
        """Submit a job script, follow its output, and return when the job has ended or was cancelled by the time limit.

        With `srun --label`, a line belongs to the node of its task; otherwise it belongs to the first node. A job that
        can't start is cancelled too, and its last line is the reason that `squeue` gives. The job writes into the file
        of the script's --output, or else into a file that is removed with the cluster.
        """
        begin = time.monotonic()
        names_a_file = _OUTPUT.search(Path(script).read_text(encoding="utf-8"))
        where = "" if names_a_file else f"--output={self.folder}/job_%j.out"
        number = self.run(f"sbatch --parsable {where} {os.fspath(script)} {arguments}").strip()
        output = Path(re.findall(r"StdOut=(.*)", self.run(f"scontrol show job {number}"))[0].strip())
        said: list[Said] = []
        why: list[Said] = []
        state, was_cancelled = "PENDING", False
        while state in _UNFINISHED:
            time.sleep(_LOOK_SECONDS)
            seconds = time.monotonic() - begin
            said += _new_lines(output, len(said), seconds)
            state, status = self.state_of(number)
            limit = min(_SECONDS_IN_LINE, timeout_seconds) if state == "PENDING" else timeout_seconds
            if seconds > limit and not was_cancelled:
                told = self.run(f"squeue --noheader --states=PENDING --jobs={number} --format='%T (%r)'").strip()
                why = [Said(0, seconds, f"squeue: {told}")] if told else []
                self.run(f"scancel {number}")
                was_cancelled = True
        said += _new_lines(output, len(said), time.monotonic() - begin)
        return Attempt((None if was_cancelled else status,), (*said, *why), time.monotonic() - begin)

    def state_of(self, job: str) -> tuple[str, int]:
        """Slurm's name for the state of a job, and its exit status."""
        about = self.run(f"scontrol show job {job}")
        (state,), ((status, signal),) = (
            re.findall(r"JobState=(\w+)", about),
            re.findall(r" ExitCode=(\d+):(\d+)", about),
        )
        return state, int(status) or int(signal)

    def _begin(self) -> None:
        self.folder.chmod(0o755)  # munge requires a socket that all users can reach
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(128))
        settings = _CONFIGURATION.format(folder=self.folder, user="root", last=len(self.machines.names) - 1)
        (self.folder / "slurm.conf").write_text(settings)
        (self.folder / "cgroup.conf").write_text("CgroupAutomount=no\n")
        files = " ".join(f"--{name}={self.folder}/munge.{name[:-5]}" for name in ("pid-file", "log-file", "seed-file"))
        munged = f"munged --foreground --force --socket={self.folder}/munge.socket --key-file={key} {files}"
        self._start(munged, 0)
        self._wait("munge", (self.folder / "munge.socket").exists)
        self._start("slurmctld -D", 0)
        for machine in range(len(self.machines.names)):
            self._start("slurmd -D", machine)
        self._wait("Slurm", self._is_ready)

    def _start(self, command: str, machine: int) -> None:
        environment = {"SLURM_CONF": f"{self.folder}/slurm.conf"}
        self._daemons.append(self.machines.start(command, [machine], environment))

    def _is_ready(self) -> bool:
        try:
            states = self.run("sinfo --noheader --Node --format=%T").split()
        except RuntimeError:  # the controller is not listening yet
            return False
        return set(states) == {"idle"}

    def _wait(self, what: str, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _SECONDS_TO_BEGIN
        while not is_there():
            if time.monotonic() > deadline:
                logs = sorted(self.folder.glob("*.log"))
                last = [line for log in logs for line in log.read_text(errors="replace").splitlines()[-2:]]
                raise NotHere(f"{what} did not start on this machine: {' / '.join(last) or 'it logged nothing'}")
            time.sleep(_LOOK_SECONDS)


def _new_lines(output: Path, known: int, seconds: float) -> list[Said]:
    if not output.exists():
        return []
    whole = output.read_text(errors="replace")
    lines = whole[: whole.rfind("\n") + 1].splitlines()[known:]
    labels = [_LABEL.fullmatch(line) for line in lines]
    return [
        Said(int(label[1]), seconds, label[2]) if label else Said(0, seconds, line)
        for label, line in zip(labels, lines, strict=True)
    ]
