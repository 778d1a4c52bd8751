"""A dry run of a job script: bash runs it as under Slurm, with stand-ins that only note which ranks would start where.

This file is also the program of every stand-in: `python rehearsal.py srun --label torchrun ...`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from itertools import dropwhile, takewhile
from subprocess import PIPE, Popen, TimeoutExpired, run

NAME, ADDRESS = "gpu", "10.1.0."  # of a node, before its number
_COMMANDS = ("conda", "hostname", "module", "nvidia-smi", "python", "python3", "scontrol", "srun", "torchrun")
_NAMES = {"-n": "ntasks", "-N": "nodes", "-w": "nodelist", "-c": "cpus-per-task", "-G": "gpus", "-m": "module"}
_FLAGS = "-l --label -u --unbuffered --exact --exclusive --overlap -m --module --no-python --standalone".split()
_COUNTS = ("nodes", "ntasks", "ntasks-per-node")
_NOTES = 99  # a pipe, which every process of the job holds open
Note = dict[str, str]  # the variables and the _WORDS of a rank; no words at the end of a _STEP, or of the script


def rehearse(script: str) -> tuple[list[Note], str]:
    """The notes of the stand-ins until the last process of the job has ended, and what the script printed.

    Raises:
        RuntimeError: sbatch would refuse the script, or it never ends; the message says why.
    """
    import tempfile  # here, because they would slow every stand-in down
    from pathlib import Path

    from torch.distributed.run import get_args_parser  # a stand-in has no torch

    stand_in = [sys.executable, "-S", "-E", __file__]
    with tempfile.TemporaryDirectory(prefix="ddp-lessons-") as folder:
        for name in _COMMANDS:
            Path(folder, name).write_text(f'#!/bin/sh\nexec {shlex.join(stand_in)} {name} "$@"\n', encoding="utf-8")
            Path(folder, name).chmod(0o755)
        job = Path(folder, "job.sh")
        job.write_text(script, encoding="utf-8")
        env = {
            "PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin",
            "HOME": folder,
            "USER": "you",
            "_OPTIONS_OF_TORCHRUN": get_args_parser().format_help().replace("_", "-"),
            # functions of bash, because the learner's cluster has files and folders that this machine does not have
            "BASH_FUNC_source%%": '() { if [ -e "$1" ]; then builtin source "$@"; fi; }',
            "BASH_FUNC_cd%%": '() { builtin cd "$@" 2>/dev/null || true; }',
        }
        sbatch = [*stand_in, "sbatch", str(job)]
        with Popen(
            sbatch, cwd=folder, env=env, stdin=PIPE, stdout=PIPE, stderr=PIPE, errors="replace", start_new_session=True
        ) as process:
            try:
                printed, notes = process.communicate(timeout=20)
            except TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise RuntimeError(
                    "The script did not end within 20 seconds. Look for a command that never ends."
                ) from None
    if process.returncode:
        raise RuntimeError(printed.strip().split("\n")[-1])
    return [json.loads(line) for line in notes.splitlines()], printed.replace(f"{job}: ", "")


def _options_of(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The options by their long names, and the words after them."""
    options: dict[str, str] = {}
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name, _, value = rest.pop(0).partition("=")
        if not name.startswith("--"):
            name, value = name[:2], name[2:] + value
        if rest and not value and name.replace("_", "-") not in _FLAGS:
            value = rest.pop(0)
        options[_NAMES.get(name, name.lstrip("-").replace("_", "-"))] = value
    return options, rest


def _sbatch(script: str) -> None:
    """Run the script on the first node, with the options of the #SBATCH lines before its first command."""
    with open(script, encoding="utf-8") as file:
        lines = file.read().splitlines()
    if not lines or not lines[0].startswith("#!"):
        sys.exit("sbatch refuses a script whose first line does not start with #!. Write #!/bin/bash there.")
    options = {"nodes": "1", "job-name": "job"}
    for line in takewhile(lambda line: re.match(r"\s*(#|$)", line), lines):
        if line.startswith("#SBATCH"):
            found, rest = _options_of(shlex.split(line.removeprefix("#SBATCH"), comments=True))
            if rest or not all(re.fullmatch(r"[1-9][\d-]*", found.get(name, "1")) for name in _COUNTS):
                sys.exit(f"sbatch cannot parse {line}. Fix this line.")
            options |= found
    nodes, gpus = int(options["nodes"].split("-")[0]), 0
    for name, on in (("gpus", nodes), ("gres", 1), ("gpus-per-node", 1)):
        if number := re.search(r"\d+$", options.get(name, "")):
            gpus = int(number[0]) // on
    if "ntasks-per-node" in options:
        options = {"ntasks": str(nodes * int(options["ntasks-per-node"]))} | options
    options |= {"job-id": "4711", "submit-host": "login", "submit-dir": os.getcwd()}
    options |= {"nnodes": str(nodes), "job-num-nodes": str(nodes), "gpus-on-node": str(gpus)}
    options["job-nodelist"] = f"{NAME}1" if nodes == 1 else f"{NAME}[1-{nodes}]"
    os.environ |= {f"SLURM_{name.replace('-', '_').upper()}": value for name, value in options.items()}
    _run(["bash", script], 1)
    _note()


def _srun(words: Sequence[str]) -> None:
    """Run a command as tasks: as many as srun's own options say, or else those of the job."""
    options, command = _options_of(words)
    numbers = range(1, 1 + int(os.environ["SLURM_NNODES"]))
    nodes = [number for number in numbers if f"{NAME}{number}" in options.get("nodelist", "")]
    nodes = nodes or [*numbers][: int(options.get("nodes", len(numbers)))]
    by_default = len(nodes) * int(options.get("ntasks-per-node", 1))
    count = int(options.get("ntasks", os.environ.get("SLURM_NTASKS", by_default)))
    on_each = -(-count // len(nodes))
    os.environ["SLURM_NTASKS"] = str(count)
    for task in range(count):
        _run(command, nodes[task // on_each], task, on_each)


def _run(command: Sequence[str], node: int, task: int = 0, on_each: int = 1) -> None:
    own = {"HOSTNAME": f"{NAME}{node}", "SLURMD_NODENAME": f"{NAME}{node}", "SLURM_PROCID": str(task)}
    own |= {"SLURM_NODEID": str(task // on_each), "SLURM_LOCALID": str(task % on_each)}
    run(command, env=os.environ | own, close_fds=False, check=False)


def _torchrun(words: Sequence[str]) -> None:
    """Note its ranks. It also reads options from variables, such as PET_NNODES."""
    given = {name[4:].lower().replace("_", "-"): value for name, value in os.environ.items() if name[:4] == "PET_"}
    own, command = _options_of(words)
    if odd := [name for name in own if f"--{name}" not in os.environ["_OPTIONS_OF_TORCHRUN"]]:  # or the begin of one
        sys.exit(f"torchrun: unrecognized arguments: --{odd[0]}")
    options = {"nproc-per-node": "1", "nnodes": "1", "node-rank": "0", "rdzv-backend": "static"} | given | own
    count = int(re.sub("gpu|auto", os.environ["SLURM_GPUS_ON_NODE"], options["nproc-per-node"]))
    if options["rdzv-backend"] != "static":  # then the rendezvous numbers the nodes
        options["node-rank"] = str(int(os.environ["SLURMD_NODENAME"].removeprefix(NAME)) - 1)
    host, _, port = options.get("rdzv-endpoint", "").partition(":")
    os.environ |= {"_TORCHRUN": str(os.getpid()), "RDZV_ID": options.get("rdzv-id", "")}
    os.environ["RDZV_BACKEND"] = options["rdzv-backend"]
    os.environ["MASTER_ADDR"] = host if "rdzv-endpoint" in options else options.get("master-addr", "127.0.0.1")
    os.environ["MASTER_PORT"] = port or options.get("master-port", "29500")
    os.environ["WORLD_SIZE"] = str(count * int(options["nnodes"].split(":")[-1]))
    for local in range(count):
        os.environ |= {"LOCAL_RANK": str(local), "RANK": str(int(options["node-rank"]) * count + local)}
        _note(*["-m"] * ("module" in options), *command["no-python" in options :])


def _note(*words: str) -> None:
    """A line for the check, with everything that it asks for."""
    unset = dict.fromkeys(("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"), "?")
    unset |= {"LOCAL_RANK": os.environ.get("SLURM_LOCALID", ""), "RDZV_ID": "", "_STEP": "", "_TORCHRUN": ""}
    unset["RDZV_BACKEND"] = "static"  # rank 0 opens the port
    os.write(_NOTES, f"{json.dumps(unset | os.environ | {'_WORDS': ' '.join(words)})}\n".encode())


def _main(name: str, *words: str) -> None:
    is_in_background = signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # a shell starts commands with & like this
    is_step = name not in ("sbatch", "hostname", "scontrol") and "_STEP" not in os.environ
    if is_step:  # one of the script's own commands, not one of its task's
        os.environ["_STEP"] = f"{os.getpid()}{'&' if is_in_background else ''}"
    torchrun = [*dropwhile(lambda word: not word.endswith(("torchrun", "torch.distributed.run")), [name, *words])]
    if name == "sbatch":
        os.dup2(2, _NOTES)
        os.dup2(1, 2)
        _sbatch(*words)
    elif name == "srun":
        _srun(words)
    elif name == "hostname":
        wants_address = "i" in "".join(words).lower()  # -i, -I, --ip-address
        print(os.environ["SLURMD_NODENAME"].replace(NAME, ADDRESS if wants_address else NAME))
    elif name == "scontrol":  # show hostnames
        print(*(f"{NAME}{number + 1}" for number in range(int(os.environ["SLURM_NNODES"]))), sep="\n")
    elif words[:1] == ("-c",):  # Python computes something, such as a free port
        os.execv(sys.executable, [name, *words])
    elif torchrun:  # also with python -m, or conda run
        _torchrun(torchrun[1:])
    else:
        _note(*words)
    if is_step and is_in_background:
        time.sleep(0.5)  # a script that does not wait ends before
        _note()


if __name__ == "__main__":
    _main(*sys.argv[1:])
