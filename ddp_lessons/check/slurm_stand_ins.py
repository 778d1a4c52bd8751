"""Stand-ins for Slurm's commands, torchrun and python, for a dry run of a job script: they record, and start nothing.

Runs as a program, once for each command of the script.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

COMMANDS = ("conda", "hostname", "module", "nvidia-smi", "python", "python3", "scontrol", "srun", "torchrun")
NAME, ADDRESS = "gpu{}", "10.1.0.{}"
_STARTERS = ("torch.distributed.run", "torch.distributed.launch")
# options without a value: of srun, and of conda run
_FLAGS = (
    "contiguous disable-status exact exclusive label no-allocate no-kill overlap oversubscribe pty quiet unbuffered "
)
_FLAGS += "use-min-nodes verbose wait-all-nodes no-capture-output live-stream l k O Q s u v X Z"
_LONG = {"n": "ntasks", "N": "nodes", "w": "nodelist", "c": "cpus-per-task", "G": "gpus", "J": "job-name"}
_IS_IN_BACKGROUND = signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # a shell starts commands with & like this
_SECONDS_UNTIL_A_SCRIPT_ENDS = 0.5


def options_of(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Slurm's options by their long names, and the words after them."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word[2:].partition("=")
        if not word.startswith("--"):
            name, equals, value = word[1], word[2:3], word[2:].removeprefix("=")
        has_all = bool(equals) or name in _FLAGS.split() or not rest
        options[_LONG.get(name, name)] = value if has_all else rest.pop(0)
    return options, rest


def tasks_of(options: Mapping[str, str], machines: int, tasks_of_job: int | None) -> list[int]:
    """The node of each task that srun starts. The job's options count, unless srun has its own total."""
    named = [place for place in range(machines) if NAME.format(place + 1) in options.get("nodelist", "").split(",")]
    places = named or list(range(machines))
    per_machine = int(options.get("ntasks-per-node", 0))
    count = int(options["ntasks"]) if "ntasks" in options else tasks_of_job
    if "nodes" in options:
        places = places[: int(options["nodes"].split("-")[0])]
    elif count is not None:
        places = places[:count]
    if count is None:
        count = len(places) * (per_machine or 1)
    if per_machine * len(places) < count:  # then Slurm warns and ignores it
        per_machine = -(-count // len(places))
    return [places[min(task // per_machine, len(places) - 1)] for task in range(count)]


def _run(name: str, words: Sequence[str]) -> int:
    machine, machines = int(os.environ["REHEARSAL_MACHINE"]), int(os.environ["SLURM_NNODES"])
    if name == "srun":
        return _srun(words, machines)
    if name == "conda" and words[:1] == ["run"]:
        return subprocess.run(options_of(words[1:])[1] or ["true"], check=False).returncode
    if name.startswith("python"):
        if words[:1] == ["-c"]:  # a few lines that compute something, such as a free port
            return subprocess.run([sys.executable, *words], check=False).returncode
        is_starter = len(words) > 1 and words[0] == "-m" and words[1] in _STARTERS
        if is_starter or (words and os.path.basename(words[0]) == "torchrun"):
            name, words = "torchrun", words[1 + is_starter :]
    if name == "torchrun" or name.startswith("python"):
        _note([name.rstrip("3"), *words])
    elif name == "hostname":
        asks_for_address = {"-i", "-I", "--ip-address", "--all-ip-addresses"} & set(words)
        print((ADDRESS if asks_for_address else NAME).format(machine + 1))
    elif name == "scontrol" and " ".join(words).startswith("show hostname"):
        print("\n".join(NAME.format(number + 1) for number in range(machines)))
    return 0


def _srun(words: Sequence[str], machines: int) -> int:
    options, command = options_of(words)
    in_all, on_each = os.environ.get("REHEARSAL_NTASKS"), os.environ.get("REHEARSAL_NTASKS_PER_NODE")
    try:
        tasks = tasks_of(options, machines, int(in_all) if in_all else int(on_each) * machines if on_each else None)
    except (ValueError, ZeroDivisionError):
        tasks = []
    if not command or not tasks:
        print(f"srun: no command, or options that cannot be understood: {' '.join(words)}", file=sys.stderr)
        return 1
    statuses = []
    for number, machine in enumerate(tasks):
        own = dict.fromkeys(("REHEARSAL_MACHINE", "SLURM_NODEID"), str(machine))
        own |= dict.fromkeys(("HOSTNAME", "SLURMD_NODENAME"), NAME.format(machine + 1))
        own |= {"SLURM_PROCID": str(number), "SLURM_LOCALID": str(tasks[:number].count(machine))}
        own |= {"SLURM_NTASKS": str(len(tasks)), "REHEARSAL_STEP": str(os.getpid())}
        own |= {"REHEARSAL_WAITS": "" if _IS_IN_BACKGROUND else "yes"}
        try:
            statuses.append(subprocess.run(command, env=os.environ | own, check=False).returncode)
        except OSError as error:
            print(f"srun: {command[0]}: {error.strerror}", file=sys.stderr)
            return 2
    return max(statuses)


def _note(words: Sequence[str]) -> None:
    with open(f"{os.environ['REHEARSAL']}/notes", "a", encoding="utf-8") as notes:
        notes.write(json.dumps({"words": words, "variables": dict(os.environ)}) + "\n")


def _stay() -> None:
    """Run for a while, like the real command would for hours: does the script end before?"""
    patience = time.monotonic() + _SECONDS_UNTIL_A_SCRIPT_ENDS * float(os.environ["REHEARSAL_SLOWNESS"])
    while time.monotonic() < patience:
        if os.path.exists(f"{os.environ['REHEARSAL']}/ended"):
            _note(["left behind"])
            break
        time.sleep(0.01)


if __name__ == "__main__":
    status = _run(sys.argv[1], sys.argv[2:])
    if (
        _IS_IN_BACKGROUND
        and "REHEARSAL_STEP" not in os.environ
        and sys.argv[1].startswith(("srun", "torchrun", "python"))
    ):
        _stay()
    sys.exit(status)
