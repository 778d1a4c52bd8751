"""Stands in for Slurm's commands and for torchrun, so that a job script can be rehearsed on a machine without either.

It is run as a program, once for each command of the script: it notes what would be started where, and starts nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

STARTERS = ("torch.distributed.run", "torch.distributed.launch")
COMMANDS = ("conda", "hostname", "module", "nvidia-smi", "python", "python3", "scontrol", "srun", "torchrun")
NAME, ADDRESS = "gpu{}", "10.1.0.{}"
# options of srun that stand alone; all others have a value
_FLAGS = set("contiguous disable-status exact exclusive label no-allocate no-kill overlap oversubscribe pty".split())
_FLAGS |= {"quiet", "unbuffered", "use-min-nodes", "verbose", "wait-all-nodes"}
_SHORT_FLAGS = set("lkOQsuvXZ")
_LONG = {"n": "ntasks", "N": "nodes", "w": "nodelist", "c": "cpus-per-task"}


def main(name: str, words: Sequence[str]) -> int:
    if name == "torchrun":
        _note("torchrun", words)
    elif name in ("python", "python3"):
        is_starter = len(words) > 1 and words[0] == "-m" and words[1] in STARTERS
        _note("torchrun" if is_starter else "python", words[2:] if is_starter else words)
    elif name == "hostname":
        asks_for_address = bool({"-i", "-I", "--ip-address", "--all-ip-addresses"} & set(words))
        print((ADDRESS if asks_for_address else NAME).format(_machine() + 1))
    elif name == "scontrol" and list(words[:1]) == ["show"] and words[1:2] and words[1].startswith("hostname"):
        print("\n".join(NAME.format(machine + 1) for machine in range(_machines())))
    elif name == "srun":
        return _srun(words)
    return 0


def options_of(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Slurm's options, by their long names, and the words behind them."""
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
    """The machine of each task that srun starts. What the job asked for counts, unless srun is told how many in all."""
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
    if per_machine is None or per_machine * len(places) < count:  # then Slurm warns, and does not honor it
        per_machine = -(-count // len(places))
    return [places[min(task // per_machine, len(places) - 1)] for task in range(count)]


def variable_of(option: str) -> str:
    """By which a script's stand-ins know what its directives asked for."""
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
        own |= {"HOSTNAME": name, "SLURMD_NODENAME": name, "REHEARSAL_STEP": "srun"}
        try:
            statuses.append(subprocess.run(command, env=os.environ | own, check=False).returncode)
        except OSError as error:
            print(f"srun: {command[0]}: {error.strerror}", file=sys.stderr)
            return 2
    return max(statuses)


def _note(kind: str, words: Sequence[str]) -> None:
    variables = {name: value for name, value in os.environ.items() if name.startswith("PET_")}
    note = {"kind": kind, "words": list(words), "machine": _machine(), "variables": variables}
    with open(os.environ["REHEARSAL_NOTES"], "a", encoding="utf-8") as notes:
        notes.write(json.dumps(note | {"by_srun": "REHEARSAL_STEP" in os.environ}) + "\n")


def _tasks_of_job() -> int | None:
    in_all, on_each = (os.environ.get(variable_of(option)) for option in ("ntasks", "ntasks-per-node"))
    return int(in_all) if in_all else int(on_each) * _machines() if on_each else None


def _machine() -> int:
    return int(os.environ["REHEARSAL_MACHINE"])


def _machines() -> int:
    return int(os.environ["REHEARSAL_MACHINES"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
