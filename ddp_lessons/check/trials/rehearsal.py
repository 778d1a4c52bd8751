"""A dry run of a job script: bash runs it as under Slurm, with stand-ins that only record what would start where."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons.check.trials import slurm_stand_ins
from ddp_lessons.run.launcher.patience import slowness

PATIENCE_SECONDS = 20.0
JOB = "4711"
_SHORT = {"-N": "nodes", "-n": "ntasks", "-c": "cpus-per-task", "-t": "time", "-o": "output", "-J": "job-name"}
_SHORT |= {"-p": "partition", "-G": "gpus", "-w": "nodelist"}


# What the learner's cluster has and this machine does not: an environment to activate, a folder to enter.
_ELSEWHERE = """\
source() { if [ -e "$1" ]; then builtin source "$@"; fi; }
.() { source "$@"; }
cd() { builtin cd "$@" 2>/dev/null || true; }
"""


class NoRehearsal(Exception):
    """The script cannot be run, and Slurm would not run it either, or there is no bash; the message says why."""


@dataclass(frozen=True)
class Start:
    """One command that the script started: on which node, with which arguments and variables."""

    kind: str  # "torchrun" or "python", or "left behind": the script ended while something was still running
    words: tuple[str, ...]
    machine: int
    variables: tuple[tuple[str, str], ...]
    step: str  # the srun that started it, and whether the script waits for that one; "" if none

    @property
    def is_waited_for(self) -> bool:
        """The script continues only after this has ended."""
        return self.step.endswith("before")


@dataclass(frozen=True)
class Rehearsal:
    """What a script asked for, and what it started."""

    options: dict[str, str]
    too_late: tuple[int, ...]  # the lines of directives that sbatch ignores
    starts: tuple[Start, ...]
    status: int
    words: str  # of the command that failed
    printed: str = ""

    @property
    def machines(self) -> int:
        return int(self.options.get("nodes", "1").split("-")[0])

    @property
    def gpus(self) -> int:
        """Per node."""
        for name, share in (("gpus-per-node", 1), ("gres", 1), ("gpus", self.machines)):
            if number := re.search(r"(\d+)$", self.options.get(name, "").split("(")[0]):
                return int(number[1]) // share
        per_task = self.options.get("gpus-per-task", "")
        return int(per_task) * int(self.options.get("ntasks-per-node", "1")) if per_task.isdigit() else 0


def rehearse(script: str) -> Rehearsal:
    """Run the script.

    Raises:
        NoRehearsal: it cannot be run.
    """
    if not script.startswith("#!"):
        raise NoRehearsal("sbatch refuses a script whose first line does not start with #!. Start with #!/bin/bash.")
    bash = shutil.which("bash")
    if bash is None:
        raise NoRehearsal("The check runs job scripts with bash, but this machine has no bash. Install bash.")
    options, too_late = directives_of(script)
    with tempfile.TemporaryDirectory(prefix="ddp-lessons-") as folder:
        place = Path(folder)
        notes, file, work = place / "notes", place / "job.sh", place / "work"
        work.mkdir()
        notes.touch()
        file.write_text(script, encoding="utf-8")
        status, words, printed = _run([bash, file], work, _environment(options, place, notes, work))
        started = [json.loads(line) for line in notes.read_text(encoding="utf-8").splitlines()]
        words = re.sub(rf"{re.escape(os.fspath(file))}: ", "", words).strip()
    return Rehearsal(options, too_late, tuple(map(_start, started)), status, words, printed)


def _run(command: Sequence[str | Path], work: Path, environment: dict[str, str]) -> tuple[int, str, str]:
    """Its status, and its output. A file tells the processes that it leaves behind when it has ended."""
    at_work, held_open = os.pipe()  # every process of the job holds it open, even with redirected output
    job = subprocess.Popen(
        command,
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        pass_fds=(held_open,),
    )
    os.close(held_open)

    def tell_the_end() -> None:
        job.wait()
        Path(environment["REHEARSAL_ENDED"]).touch()

    watcher = threading.Thread(target=tell_the_end, daemon=True)
    watcher.start()
    patience = PATIENCE_SECONDS * slowness(1)
    try:
        printed, words = job.communicate(timeout=patience)
        select.select([at_work], [], [], patience)
    except subprocess.TimeoutExpired:
        trouble = f"The script does not end within {patience:.2g} seconds. Look for a command that never ends."
        raise NoRehearsal(trouble) from None
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended completely
            os.killpg(job.pid, signal.SIGKILL)
        watcher.join()
        os.close(at_work)
        for pipe in (job.stdout, job.stderr):
            assert pipe is not None
            pipe.close()
    return job.returncode, words, printed


def directives_of(script: str) -> tuple[dict[str, str], tuple[int, ...]]:
    """The options of the #SBATCH lines, and the lines of those after the first command, which sbatch ignores."""
    options: dict[str, str] = {}
    too_late = []
    is_read = True
    for number, line in enumerate(script.splitlines(), 1):
        if line.startswith("#SBATCH"):
            if is_read:
                options |= _directive(line.removeprefix("#SBATCH"))
            else:
                too_late.append(number)
        elif line.strip() and not line.lstrip().startswith("#"):
            is_read = False
    return options, tuple(too_late)


def _directive(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise NoRehearsal(f"sbatch cannot read #SBATCH{text}: {error}. Fix this line.") from None
    words = [f"--{_SHORT[word[:2]]}={word[2:]}".removesuffix("=") if word[:2] in _SHORT else word for word in words]
    options, rest = slurm_stand_ins.options_of(words)
    if rest or any(
        name in ("nodes", "ntasks", "ntasks-per-node") and not options[name][:1].isdigit() for name in options
    ):
        raise NoRehearsal(f"sbatch cannot read #SBATCH{text}. Fix this line.")
    return options


def _environment(options: dict[str, str], place: Path, notes: Path, work: Path) -> dict[str, str]:
    commands = place / "commands"
    commands.mkdir()
    for name in slurm_stand_ins.COMMANDS:
        words = shlex.join([sys.executable, "-S", "-E", slurm_stand_ins.__file__, name])
        (commands / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        (commands / name).chmod(0o755)
    wanted = Rehearsal(options, (), (), 0, "")
    machines, first = str(wanted.machines), slurm_stand_ins.NAME.format(1)
    names = slurm_stand_ins.NAME.format(f"[1-{machines}]" if machines != "1" else "1")
    told = {"SLURM_JOB_ID": JOB, "SLURM_JOBID": JOB, "SLURM_JOB_NODELIST": names, "SLURM_NODELIST": names}
    told |= {"SLURM_JOB_NUM_NODES": machines, "SLURM_NNODES": machines, "SLURM_SUBMIT_DIR": os.fspath(work)}
    told |= {"SLURMD_NODENAME": first, "HOSTNAME": first, "SLURM_PROCID": "0", "SLURM_NODEID": "0"}
    told |= {"SLURM_LOCALID": "0", "SLURM_SUBMIT_HOST": "login", "SLURM_JOB_NAME": options.get("job-name", "job")}
    if wanted.gpus:
        told |= {"SLURM_GPUS_ON_NODE": str(wanted.gpus), "SLURM_GPUS_PER_NODE": str(wanted.gpus)}
        told |= {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(wanted.gpus)))}
    for option, variable in {
        "ntasks": "SLURM_NTASKS",
        "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
        "cpus-per-task": "SLURM_CPUS_PER_TASK",
    }.items():
        if option in options:
            told |= {variable: options[option], slurm_stand_ins.variable_of(option): options[option]}
    path = f"{commands}:/usr/local/bin:/usr/bin:/bin"
    own = {"REHEARSAL_NOTES": os.fspath(notes), "REHEARSAL_MACHINE": "0", "REHEARSAL_MACHINES": machines}
    own |= {"REHEARSAL_ENDED": os.fspath(place / "ended"), "REHEARSAL_SLOWNESS": str(slowness(1))}
    (place / "elsewhere").write_text(_ELSEWHERE, encoding="utf-8")
    own |= {"BASH_ENV": os.fspath(place / "elsewhere")}
    return {"PATH": path, "HOME": os.fspath(work), "USER": "you", "LANG": "C.UTF-8", **told, **own}


def _start(note: dict[str, object]) -> Start:
    words, variables = note["words"], note["variables"]
    assert isinstance(words, list)
    assert isinstance(variables, dict)
    return Start(
        str(note["kind"]), tuple(words), int(str(note["machine"])), tuple(variables.items()), str(note["step"])
    )
