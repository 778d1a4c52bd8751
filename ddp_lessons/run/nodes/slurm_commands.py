"""Slurm's own commands, which every cluster has: what they say about a job."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ddp_lessons.run.nodes.slurm_troubles import ending_of

_SECONDS_TO_ANSWER = 20.0
_SECONDS_TO_END = 3.0
_OF_THE_USER = ("SLURM_CONF", "SLURM_JWT", "SLURM_CLUSTERS")
_UNFINISHED = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED")
_NO_ANSWER = "NO ANSWER"  # of the controller, which is busy or restarts: the job may still run


class NoAllocation(RuntimeError):
    """Slurm gives no nodes, or has taken them back; the message says why, and what to do next."""


@dataclass(frozen=True)
class Waiting:
    """What squeue says about a job in the queue."""

    reason: str
    ahead: int  # jobs of the same partition that come first
    start: str  # when Slurm expects it to start; "" if it does not know


class SlurmCommands:
    """`prefix` comes before each of them, for example to enter a container that has them."""

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self._prefix = tuple(prefix)

    def check(self) -> None:
        missing = [name for name in ("salloc", "srun", "squeue", "scontrol") if not shutil.which(name)]
        if missing and not self._prefix:
            raise NoAllocation(
                f"this machine has no Slurm commands: {', '.join(missing)} not found.\n"
                "  Next: start the notebook on a login node of the cluster, or use "
                'Hosts("alpha", "beta") for machines that ssh reaches.'
            )

    def words(self, *command: str) -> list[str]:
        """The command, as if typed outside of any job: in a job, variables would change what options mean."""
        of_a_job = [name for name in os.environ if name.startswith(("SLURM", "SRUN_")) and name not in _OF_THE_USER]
        return [*self._prefix, "env", *(f"--unset={name}" for name in of_a_job), *command]

    def said(self, *command: str) -> str:
        """Its output; "" if it fails."""
        done = self._done(command)
        return done.stdout.strip() if done is not None and done.returncode == 0 else ""

    def _done(self, command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run(
                self.words(*command),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS_TO_ANSWER,
                check=False,
            )
        return None

    def state_of(self, job: str) -> str:
        """In Slurm's words, also for a while after its end; "" if Slurm does not know the job any more."""
        done = self._done(("scontrol", "--oneliner", "show", "job", job))
        if done is None or done.returncode != 0:
            return "" if done is not None and "invalid job id" in done.stderr.lower() else _NO_ANSWER
        found = re.search(r"\bJobState=(\w+)", done.stdout)
        return found[1] if found else ""

    def nodes_of(self, job: str) -> tuple[str, ...]:
        has_them = "--states=CONFIGURING,RUNNING,SUSPENDED"  # a job that is completing is over, and still listed
        packed = self.said("squeue", "--noheader", has_them, f"--jobs={job}", "--format=%N")
        return tuple(self.said("scontrol", "show", "hostnames", packed).split()) if packed else ()

    def why_ended(self, job: str, no_answer: str = "") -> str:
        """One sentence; "" if it has not ended, as far as is known; `no_answer` if the controller is silent."""
        end = time.monotonic() + _SECONDS_TO_END
        while (state := self.state_of(job)) == "COMPLETING" and time.monotonic() < end:
            time.sleep(0.1)
        if state == _NO_ANSWER:
            return no_answer
        return "" if state in _UNFINISHED else ending_of(job, state)

    def waiting(self, job: str) -> Waiting:
        about = self.said("squeue", "--noheader", f"--jobs={job}", "--format=%r|%P|%S")
        reason, partition, start = (*about.split("|"), "", "", "")[:3]
        asked = ("squeue", "--noheader", "--states=PENDING", f"--partition={partition}", "--sort=-p,i", "--format=%i")
        queue = self.said(*asked).split() if partition else []
        return Waiting(reason, queue.index(job) if job in queue else 0, start if start[:1].isdecimal() else "")
