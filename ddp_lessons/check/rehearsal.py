"""A dry run of a job script: bash runs it as under Slurm, with stand-ins that only record what would start where.

What it would start is a list of ranks, each with the variables that torchrun, or the script, gives it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons.check import slurm_stand_ins
from ddp_lessons.run.launcher.patience import slowness

PATIENCE_SECONDS = 20.0
# what the learner's cluster has and this machine does not: an environment to activate, a folder to enter
_ELSEWHERE = """\
source() { if [ -e "$1" ]; then builtin source "$@"; fi; }
.() { source "$@"; }
cd() { builtin cd "$@" 2>/dev/null || true; }
"""
_MEETS_ANYWHERE = ("c10d", "etcd", "etcd-v2")
_Rank = Mapping[str, str]


class NoRehearsal(Exception):
    """The script cannot be run, and Slurm would not run it either, or there is no bash; the message says why."""


@dataclass(frozen=True)
class Start:
    """One command that the script started: "torchrun" or "python", or "left behind" when the script had ended."""

    words: list[str]
    variables: dict[str, str]


@dataclass(frozen=True)
class Rehearsal:
    """What a script asked for, and what it started."""

    options: Mapping[str, str]
    too_late: list[int]  # the lines of directives that sbatch ignores
    starts: Sequence[Start] = ()
    words: str = ""  # of commands that failed
    printed: str = ""

    @property
    def machines(self) -> int:
        return int(self.options.get("nodes", "1").split("-")[0])

    @property
    def gpus(self) -> int:
        """Per node."""
        for name, nodes in (("gpus-per-node", 1), ("gres", 1), ("gpus", self.machines)):
            if number := re.search(r"(\d+)$", self.options.get(name, "").split("(")[0]):
                return int(number[1]) // nodes
        return 0


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
    asked = _asked_for(script)
    with tempfile.TemporaryDirectory(prefix="ddp-lessons-") as folder:
        place = Path(folder)
        for name in ("work", "commands"):
            (place / name).mkdir()
        for name in slurm_stand_ins.COMMANDS:
            words = shlex.join([sys.executable, "-S", "-E", slurm_stand_ins.__file__, name])
            (place / "commands" / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
            (place / "commands" / name).chmod(0o755)
        for name, text in {"job.sh": script, "elsewhere": _ELSEWHERE, "notes": ""}.items():
            (place / name).write_text(text, encoding="utf-8")
        _run([bash, f"{folder}/job.sh"], place, _environment(asked, place))
        notes, words, printed = ((place / one).read_text("utf-8", "replace") for one in ("notes", "words", "printed"))
    starts = [Start(**json.loads(line)) for line in notes.splitlines()]
    return Rehearsal(asked.options, asked.too_late, starts, words.replace(f"{folder}/job.sh: ", ""), printed)


def _run(command: list[str], place: Path, environment: dict[str, str]) -> None:
    """The file `ended` tells the processes that the script leaves behind when it has ended."""
    at_work, held_open = os.pipe()  # every process of the job holds it open, even with redirected output
    patience = PATIENCE_SECONDS * slowness(1)
    with (place / "printed").open("w") as printed, (place / "words").open("w") as words, open(os.devnull) as nothing:
        job = subprocess.Popen(
            command,
            cwd=place / "work",
            env=environment,
            stdin=nothing,
            stdout=printed,
            stderr=words,
            start_new_session=True,
            pass_fds=(held_open,),
        )
    os.close(held_open)
    try:
        job.wait(patience)
        (place / "ended").touch()
        select.select([at_work], [], [], patience)
    except subprocess.TimeoutExpired:
        trouble = f"The script does not end within {patience:.2g} seconds. Look for a command that never ends."
        raise NoRehearsal(trouble) from None
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended completely
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        os.close(at_work)


def _asked_for(script: str) -> Rehearsal:
    """The options of the #SBATCH lines, and the lines of those after the first command, which sbatch ignores."""
    options: dict[str, str] = {}
    too_late = []
    is_read = True
    for number, line in enumerate(script.splitlines(), 1):
        if line.startswith("#SBATCH") and not is_read:
            too_late.append(number)
        elif line.startswith("#SBATCH"):
            options |= _directive(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            is_read = False
    return Rehearsal(options, too_late)


def _directive(line: str) -> dict[str, str]:
    try:
        options, rest = slurm_stand_ins.options_of(shlex.split(line.removeprefix("#SBATCH"), comments=True))
        counts = [
            int(options[name].split("-")[0]) for name in ("nodes", "ntasks", "ntasks-per-node") if name in options
        ]
    except ValueError:
        counts, rest = [], [line]
    if rest or 0 in counts:
        raise NoRehearsal(f"sbatch cannot read {line}. Fix this line.")
    return options


def _environment(asked: Rehearsal, place: Path) -> dict[str, str]:
    nodes, options = str(asked.machines), asked.options
    told = {
        "PATH": f"{place}/commands:/usr/local/bin:/usr/bin:/bin",
        "HOME SLURM_SUBMIT_DIR": f"{place}/work",
        "USER": "you",
        "LANG": "C.UTF-8",
        "SLURM_JOB_ID SLURM_JOBID": "4711",
        "SLURM_JOB_NAME": options.get("job-name", "job"),
        "SLURM_SUBMIT_HOST": "login",
        "SLURM_JOB_NODELIST SLURM_NODELIST": "gpu1" if nodes == "1" else f"gpu[1-{nodes}]",
        "SLURM_JOB_NUM_NODES SLURM_NNODES": nodes,
        "SLURM_PROCID SLURM_NODEID SLURM_LOCALID REHEARSAL_MACHINE": "0",
        "SLURMD_NODENAME HOSTNAME": "gpu1",
        "REHEARSAL": f"{place}",
        "REHEARSAL_SLOWNESS": str(slowness(1)),
        "BASH_ENV": f"{place}/elsewhere",
    }
    if asked.gpus:
        told["SLURM_GPUS_ON_NODE SLURM_GPUS_PER_NODE"] = str(asked.gpus)
        told["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(asked.gpus)))
    for option in {"ntasks", "ntasks-per-node", "cpus-per-task"} & options.keys():
        name = option.replace("-", "_").upper()
        told[f"SLURM_{name} REHEARSAL_{name}"] = options[option]
    return {name: value for names, value in told.items() for name in names.split()}


def ranks_of(start: Start, gpus: int) -> list[_Rank]:
    """The ranks that this command starts: their variables, the "place" of the rendezvous, and the program.

    Raises:
        NoRehearsal: torchrun rejects its arguments.
    """
    own = {
        "node": str(int(start.variables["REHEARSAL_MACHINE"]) + 1),
        "step": start.variables.get("REHEARSAL_STEP", ""),
    }
    own |= {"waits": start.variables.get("REHEARSAL_WAITS", "")}
    if start.words[0] == "python":
        script = _without_options(start.words[1:])
        told = {name: start.variables.get(name, "not set") for name in ("RANK", "WORLD_SIZE")}
        address = [start.variables.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT")]
        told |= {"LOCAL_RANK": start.variables.get("LOCAL_RANK", "any"), "kind": "python"}
        return [own | told | script | {"place": ":".join(address) if all(address) else ""}]
    one = _parsed(start)
    count = {"gpu": gpus, "auto": gpus}.get(one.nproc_per_node) or int(re.sub(r"\D", "", one.nproc_per_node) or 0)
    is_free = one.rdzv_backend in _MEETS_ANYWHERE
    place = f"{one.rdzv_endpoint} {one.rdzv_id}" if is_free else one.rdzv_endpoint or one.master_addr
    own |= {"WORLD_SIZE": str(count * int((re.findall(r"\d+", str(one.nnodes)) or ["0"])[-1])), "kind": "torchrun"}
    own |= {"place": "localhost" if one.standalone else place}
    words = [one.training_script, *map(str, one.training_script_args)]
    own |= _without_options(["-m", *words] if one.module else words[1:] if one.no_python else words)
    numbers = [(str(number), "any" if is_free else str(one.node_rank * count + number)) for number in range(count)]
    return [own | {"LOCAL_RANK": local, "RANK": number} for local, number in numbers]


def _without_options(words: Sequence[str]) -> dict[str, str]:
    """The file that a Python with these arguments runs, and its own arguments."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-m" and rest:
            rest[0] = f"{rest[0].rpartition('.')[2]}.py"
        elif option in ("-W", "-X") and rest:
            rest.pop(0)
    return {"program": os.path.basename(rest[0]) if rest else "", "arguments": " ".join(rest[1:])}


def _parsed(start: Start) -> argparse.Namespace:
    """As torchrun itself parses them; it also reads the options from environment variables."""
    from torch.distributed.run import parse_args

    told = {name[4:].lower().replace("_", "-"): value for name, value in start.variables.items() if name[:4] == "PET_"}
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words):
            arguments: argparse.Namespace = parse_args(
                [*(f"--{name}={value}" for name, value in told.items()), *start.words[1:]]
            )
    except SystemExit:
        said = words.getvalue().rpartition("error: ")[2].strip()
        raise NoRehearsal(f"torchrun rejects its arguments: {said}. Fix them in the script.") from None
    return arguments
