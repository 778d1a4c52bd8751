"""Stand-ins for Slurm's commands and for torchrun, for a dry run of a job script on a machine without either.

Runs as a program, once for each command of the script: it records what would start where, and starts nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

STARTERS = ("torch.distributed.run", "torch.distributed.launch")
TOLD_TO_A_RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
COMMANDS = ("conda", "hostname", "module", "nvidia-smi", "python", "python3", "scontrol", "srun", "torchrun")
NAME, ADDRESS = "gpu{}", "10.1.0.{}"
# options of srun without a value
_FLAGS = set("contiguous disable-status exact exclusive label no-allocate no-kill overlap oversubscribe pty".split())
_FLAGS |= {"no-capture-output", "live-stream"}  # of conda run
_FLAGS |= {"quiet", "unbuffered", "use-min-nodes", "verbose", "wait-all-nodes"}
_SHORT_FLAGS = set("lkOQsuvXZ")
_LONG = {"n": "ntasks", "N": "nodes", "w": "nodelist", "c": "cpus-per-task"}


_SECONDS_UNTIL_A_SCRIPT_ENDS = 1.0
IN_BACKGROUND = signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # a shell starts commands with & like this


def main(name: str, words: Sequence[str]) -> int:
    status = _stand_in(name, words)
    if IN_BACKGROUND and name in ("srun", "torchrun", "python", "python3") and not _step():
        _stay()
    return status


def _stand_in(name: str, words: Sequence[str]) -> int:
    if name == "torchrun":
        _note("torchrun", words)
    elif name in ("python", "python3"):
        return _python(words)
    elif name == "conda" and list(words[:1]) == ["run"]:
        _, command = options_of(words[1:])
        return subprocess.run(command, check=False).returncode if command else 0
    elif name == "hostname":
        asks_for_address = bool({"-i", "-I", "--ip-address", "--all-ip-addresses"} & set(words))
        print((ADDRESS if asks_for_address else NAME).format(_machine() + 1))
    elif name == "scontrol" and list(words[:1]) == ["show"] and words[1:2] and words[1].startswith("hostname"):
        print("\n".join(NAME.format(machine + 1) for machine in range(_machines())))
    elif name == "srun":
        return _srun(words)
    return 0


def _python(words: Sequence[str]) -> int:
    if list(words[:1]) == ["-c"]:  # a few lines that compute something, such as a free port
        return subprocess.run([sys.executable, *words], check=False).returncode
    if len(words) > 1 and words[0] == "-m" and words[1] in STARTERS:
        _note("torchrun", words[2:])
    elif words and os.path.basename(words[0]) == "torchrun":
        _note("torchrun", words[1:])
    else:
        _note("python", words)
    return 0


def _stay() -> None:
    """Run for a while, like the real command would for hours: does the script end before?"""
    patience = time.monotonic() + _SECONDS_UNTIL_A_SCRIPT_ENDS * float(os.environ["REHEARSAL_SLOWNESS"])
    while time.monotonic() < patience:
        if os.path.exists(os.environ["REHEARSAL_ENDED"]):
            _note("left behind", ())
            return
        time.sleep(0.01)


def options_of(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Slurm's options by their long names, and the words after them."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            stands_alone = bool(has_value) or name in _FLAGS
        else:
            name, value = word[1], word[2:].removeprefix("=")
            stands_alone = bool(value) or name in _SHORT_FLAGS
            name = _LONG.get(name, name)
        options[name] = value if stands_alone or not rest else rest.pop(0)
    return options, rest


def tasks_of(options: dict[str, str], machines: int, tasks_of_job: int | None = None) -> list[int]:
    """The node of each task that srun starts. The job's options count, unless srun has its own total."""
    named = [place for place in range(machines) if NAME.format(place + 1) in options.get("nodelist", "").split(",")]
    places = named or list(range(machines))
    per_machine = int(options["ntasks-per-node"]) if "ntasks-per-node" in options else None
    count = int(options["ntasks"]) if "ntasks" in options else tasks_of_job
    if "nodes" in options:
        places = places[: int(options["nodes"].split("-")[0])]
    elif count is not None:
        places = places[:count]
    if count is None:
        count = len(places) * (per_machine or 1)
    if per_machine is None or per_machine * len(places) < count:  # then Slurm warns and ignores it
        per_machine = -(-count // len(places))
    return [places[min(task // per_machine, len(places) - 1)] for task in range(count)]


def variable_of(option: str) -> str:
    """The variable that tells the stand-ins what the script's directives asked for."""
    return f"REHEARSAL_{option.replace('-', '_').upper()}"


def _srun(words: Sequence[str]) -> int:
    options, command = options_of(words)
    if not command:
        print("srun: no command was given", file=sys.stderr)
        return 1
    try:
        tasks = tasks_of(options, _machines(), _tasks_of_job())
    except (ValueError, ZeroDivisionError):
        print(f"srun: these options cannot be understood: {' '.join(words)}", file=sys.stderr)
        return 1
    statuses = [0]
    for number, machine in enumerate(tasks):
        name = NAME.format(machine + 1)
        own = {"REHEARSAL_MACHINE": str(machine), "SLURM_NODEID": str(machine), "SLURM_PROCID": str(number)}
        own |= {"SLURM_LOCALID": str(tasks[:number].count(machine)), "SLURM_NTASKS": str(len(tasks))}
        own |= {"HOSTNAME": name, "SLURMD_NODENAME": name}
        own |= {"REHEARSAL_STEP": f"{os.getpid()} {'behind' if IN_BACKGROUND else 'before'}"}
        try:
            statuses.append(subprocess.run(command, env=os.environ | own, check=False).returncode)
        except OSError as error:
            print(f"srun: {command[0]}: {error.strerror}", file=sys.stderr)
            return 2
    return max(statuses)


def _note(kind: str, words: Sequence[str]) -> None:
    known = {name: value for name, value in os.environ.items() if name.startswith("PET_") or name in TOLD_TO_A_RANK}
    note = {"kind": kind, "words": list(words), "machine": _machine(), "variables": known, "step": _step()}
    with open(os.environ["REHEARSAL_NOTES"], "a", encoding="utf-8") as notes:
        notes.write(json.dumps(note) + "\n")


def _step() -> str:
    """The srun that started this, and whether the script waits for that srun."""
    return os.environ.get("REHEARSAL_STEP", "")


def _tasks_of_job() -> int | None:
    in_all, on_each = (os.environ.get(variable_of(option)) for option in ("ntasks", "ntasks-per-node"))
    return int(in_all) if in_all else int(on_each) * _machines() if on_each else None


def _machine() -> int:
    return int(os.environ["REHEARSAL_MACHINE"])


def _machines() -> int:
    return int(os.environ["REHEARSAL_MACHINES"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
