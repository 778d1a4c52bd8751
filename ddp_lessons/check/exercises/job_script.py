"""The job script of lesson 14 with four mistakes: what it would start counts, not how it is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ddp_lessons.check.exercise import Exercise, Fields, Mistake, Program
from ddp_lessons.check.rehearsal import NoRehearsal, ranks_of, rehearse
from ddp_lessons.check.report import Report, not_right, not_started, table
from ddp_lessons.check.slurm_stand_ins import ADDRESS, NAME
from ddp_lessons.train import machines

if TYPE_CHECKING:
    pass

_TO_BE_REPAIRED = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
torchrun --nnodes=2 --nproc-per-node=1 digits.py --epochs 10
"""
_PROGRAM, _ARGUMENTS = "digits.py", "--epochs 10"
_OF_TORCHRUN = re.compile(r"--(?:nnodes|nproc[-_]per[-_]node|node[-_]rank|rdzv[-_]\w+|master[-_]\w+)\b")


class _JobScript(Exercise):
    """Its programs give texts, which bash runs without ranks."""

    def as_answer(self, program: Program) -> Any:
        return program()

    def judged(self, answer: Any) -> Report:
        if not isinstance(answer, str):
            kind = type(answer).__name__
            return not_right(self.name, f"The check got an object of type {kind}. Pass the text of the script.")
        if answer.strip() in (_TO_BE_REPAIRED.strip(), ""):
            return not_started(self.name)
        try:
            yours = self.call(lambda: answer)
        except NoRehearsal as reason:
            return not_right(self.name, str(reason))
        expected = self.call(self.solution)
        wrong = [name for name in expected if yours.get(name, "none") != expected[name]]
        if not wrong:
            return Report(self.name, True, "passed", "", ("    a dry run starts 4 ranks on each of 2 nodes",))
        known = (mistake.sentence for mistake in self.mistakes if self.call(mistake.program) == yours)
        hint = next(hint for name, hint in self.hints.items() if wrong[0].startswith(name))
        rows = [("", "yours", "expected"), *((name, yours.get(name, "none"), expected[name]) for name in wrong)]
        return not_right(self.name, next(known, hint), ["  What it starts in a dry run:", *table(rows)])


def _fields(program: Program) -> Fields:
    """What can be right in several ways has only one value then."""
    job = rehearse(program())
    started = [ranks_of(start, job.gpus) for start in job.starts if start.words[0] != "left behind"]
    ranks = [rank for one in started for rank in one if rank["kind"] == "torchrun"]
    ranks = ranks or [rank for one in started for rank in one if rank["program"] == _PROGRAM]
    torchruns = Counter(one[0]["node"] for one in started if one and one[0]["kind"] == "torchrun")
    on_node = {number: [rank for rank in ranks if rank["node"] == str(number)] for number in range(1, job.machines + 1)}
    arguments = {rank["arguments"].replace("=", " ") for rank in ranks}
    steps = dict.fromkeys((rank["step"], rank["waits"]) for rank in ranks)
    return {
        "#SBATCH lines ignored": _listed(job.too_late),
        "nodes": str(job.machines),
        "GPUs per node": str(job.gpus),
        "started": "ranks" if ranks else (job.words.split("\n")[0] or "nothing"),
        "idle nodes": _listed(NAME.format(number) for number, here in on_node.items() if not here),
        "torchruns on one node": str(max([1, *torchruns.values()])),
        "options after the script": _listed({*_OF_TORCHRUN.findall(" ".join(arguments))}),
        "program": _listed({rank["program"] for rank in ranks}),
        "rendezvous": _rendezvous(ranks),
        **{f"ranks on {NAME.format(number)}": str(len(here)) for number, here in on_node.items()},
        "WORLD_SIZE": _listed({rank["WORLD_SIZE"] for rank in ranks}),
        "RANK": _numbering([rank["RANK"] for rank in ranks]),
        "LOCAL_RANK": _listed({_numbering([rank["LOCAL_RANK"] for rank in here]) for here in on_node.values()}),
        "arguments": _ARGUMENTS if all(f" {_ARGUMENTS} " in f" {one} " for one in arguments) else _listed(arguments),
        "sruns": "one after the other" if any(waits for _, waits in [*steps][:-1]) else "together",
        "at the end": "srun runs" if any(start.words == ["left behind"] for start in job.starts) else "nothing runs",
    }


def _listed(values: Iterable[object]) -> str:
    return ", ".join(sorted(map(str, values))) or "none"


def _numbering(numbers: Sequence[str]) -> str:
    is_right = {*numbers} == {"any"} or sorted(numbers) == sorted(map(str, range(len(numbers))))
    return "each its own from 0" if is_right else _listed(numbers)


def _rendezvous(ranks: Sequence[Any]) -> str:
    """All in one place, on a node of the job: that of rank 0, if the numbers are given."""
    places = {rank["place"] for rank in ranks}
    if len(places) != 1:
        return f"{len(places)} different ones"
    host = re.split("[: ]", *places)[0]
    nodes = {rank["node"] for rank in ranks if rank["RANK"] in ("0", "any")} or {rank["node"] for rank in ranks}
    names = {form.format(node) for form in (NAME, ADDRESS) for node in nodes}
    return "on a node of the job" if host in names else host or "no address"


def _script(old: str = "", new: str = "") -> str:
    return machines.job_script.replace(old, new)


job_script = _JobScript(
    """Check the text of a Slurm job script: it must start eight ranks on two nodes with four GPUs each.

    Every rank must run `digits.py --epochs 10`. The check does a dry run: bash runs the script, with stand-ins for
    sbatch, srun and torchrun that only record what would start where. So you can write it in many ways, also without
    torchrun if each rank gets its RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
    """,
    solution=_script,
    call=_fields,
    trials=(),
    hints={
        "#SBATCH": "sbatch ignores #SBATCH lines after the first command. Move them above all commands.",
        "nodes": "The job needs both nodes. Set --nodes=2.",
        "GPUs": "The job needs all 4 GPUs of each node. Set --gpus-per-node=4.",
        "started": "The script starts no rank. Launch torchrun with srun, and fix the command that fails, if one does.",
        "idle": "No rank starts on one of the nodes. Slurm runs a job script on the first node only, so launch "
        "torchrun with srun, as one task on each node.",
        "torchruns": "The job starts torchrun several times on one node, and each torchrun starts its own ranks. Start "
        "one task per node (--ntasks-per-node=1).",
        "options": "What comes after the script's name goes to the script instead of torchrun. Put options before it.",
        "program": "torchrun takes the first word that belongs to no option as its script. Put digits.py there, and "
        "check the words before it.",
        "rendezvous": "The ranks do not join one rendezvous on a node of the job. Pass all of them the first node as "
        "--rdzv-endpoint (without torchrun, MASTER_ADDR and MASTER_PORT), and the same --rdzv-id.",
        "ranks": "Start one rank per GPU: --nproc-per-node=4, or without torchrun --ntasks-per-node=4.",
        "WORLD_SIZE": "All 8 ranks belong together, so WORLD_SIZE is 8. For torchrun, set --nnodes=2.",
        "RANK": "Each rank needs its own RANK from 0 to 7. Use --rdzv-backend=c10d, or a --node-rank for each node, or "
        "set RANK from SLURM_PROCID.",
        "LOCAL_RANK": "LOCAL_RANK starts at 0 on each node. Set it from SLURM_LOCALID.",
        "arguments": "digits.py should get --epochs 10. Put the arguments after the script name.",
        "sruns": "Deadlock: the first srun waits for the ranks of the second, which starts only when the first is "
        "done. Use one srun for all nodes, or end each with & and call wait.",
        "at the end": "The script ends while a background srun is still running, so Slurm ends the job. After an &, "
        "call wait.",
    },
    mistakes=[
        Mistake(
            partial(_script, "$meet", ""),
            "There is no rendezvous, so each torchrun waits alone. Give all of them the same --rdzv-endpoint.",
        ),
        Mistake(
            partial(_script, "--nnodes=2 --nproc-per-node=4 $meet", "--standalone --nproc-per-node=4"),
            "With --standalone each torchrun stays on its own node. Replace it with --nnodes and a rendezvous.",
        ),
        Mistake(
            partial(_script, "=$first:", "=localhost:"),
            "On every node, localhost is that node itself, so the ranks never find each other. Name the first "
            "node instead.",
        ),
        Mistake(
            partial(_script, "=$first:", "=$SLURM_JOB_NODELIST:"),
            "SLURM_JOB_NODELIST is a short form of all names. List them with scontrol show hostnames.",
        ),
    ],
)
