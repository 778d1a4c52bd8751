"""The job script of lesson 14 with four mistakes: what it would start counts, not how it is written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

from ddp_lessons.check.exercise import Exercise, Fields, Mistake, Program
from ddp_lessons.check.rehearsal import ADDRESS, NAME, rehearse
from ddp_lessons.check.report import Report, not_right, not_started, table
from ddp_lessons.train import machines

_TO_BE_REPAIRED = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
torchrun --nnodes=2 --nproc-per-node=1 digits.py --epochs 10
"""
_COMMAND = "digits.py --epochs 10"
# as a file or as a module, with more arguments if these are not meant for torchrun
_RUNS_IT = re.compile(r"(-u )?(-m digits|(\S*/)?digits\.py) --epochs[ =]10( (?!--(nnodes|nproc|node|rdzv|master))\S+)*")


class _JobScript(Exercise):
    """Its programs give texts, which bash runs without ranks."""

    def as_answer(self, program: Program) -> Any:
        return program()

    def judged(self, answer: Any) -> Report:
        if not isinstance(answer, str):
            return not_right(self.name, f"Pass the text of the script, not an object of type {type(answer).__name__}.")
        if answer.strip() in (_TO_BE_REPAIRED.strip(), ""):
            return not_started(self.name)
        try:
            yours = self.call(lambda: answer)
        except RuntimeError as reason:
            return not_right(self.name, str(reason))
        expected = self.call(self.solution)
        wrong = [name for name in expected if yours[name] != expected[name]]
        if not wrong:
            return Report(self.name, True, "passed", "", ("    a dry run starts 4 ranks on each of 2 nodes",))
        known = (mistake.sentence for mistake in self.mistakes if self.call(mistake.program) == yours)
        rows = [("", "yours", "expected"), *((name, yours[name], expected[name]) for name in wrong)]
        return not_right(
            self.name, next(known, self.hints[wrong[0]]), ["  What the script starts in a dry run:", *table(rows)]
        )


def _fields(program: Program) -> Fields:
    """Different correct ways to do something get the same value."""
    notes, printed = rehearse(program())
    end = [note["_STEP"] for note in notes].index("")
    ranks = [note for note in notes if note["_TORCHRUN"]] or [note for note in notes if "digits" in note["_WORDS"]]
    nodes = {rank["SLURMD_NODENAME"] for rank in ranks}
    torchruns = [node for node, _ in {(rank["SLURMD_NODENAME"], rank["_TORCHRUN"]) for rank in ranks}]
    programs = {_COMMAND if _RUNS_IT.fullmatch(rank["_WORDS"]) else rank["_WORDS"] for rank in ranks}
    hosts = {rank["SLURMD_NODENAME"] for rank in ranks if rank["RANK"] == "0" or rank["RDZV_BACKEND"] != "static"}
    places = {f"{rank['MASTER_ADDR']}:{rank['MASTER_PORT']} {rank['RDZV_ID']}".strip() for rank in ranks}
    place = _listed(places) if len(places) > 1 else re.sub(r":\d.*", "", "".join(places))
    steps = list(dict.fromkeys(rank["_STEP"] for rank in ranks))
    is_cut_off = any(note["_STEP"] in steps for note in notes[end + 1 :])
    waits = not all(step.endswith("&") for step in steps[:-1])
    return {
        "job": f"nodes: {notes[end]['SLURM_NNODES']}, GPUs per node: {notes[end]['SLURM_GPUS_ON_NODE']}",
        "nodes with ranks": _listed(nodes or printed.strip().split("\n")[-1:]),
        "torchruns on one node": str(max(map(torchruns.count, torchruns), default=0)),
        "each rank runs": _listed(programs),
        "rendezvous": "on the node of rank 0" if place.replace(ADDRESS, NAME) in hosts else place or "no address",
        "WORLD_SIZE": _listed({rank["WORLD_SIZE"] for rank in ranks}),
        "RANK/LOCAL_RANK": _listed({f"{rank['RANK']}/{rank['LOCAL_RANK']}" for rank in ranks}),
        "ranks run": "until the script ends" if is_cut_off else "one srun after another" if waits else "all together",
    }


def _listed(values: Iterable[str]) -> str:
    return ", ".join(sorted(values)) or "none"


job_script = _JobScript(
    """Check the text of a Slurm job script: it must start eight ranks on two nodes with four GPUs each.

    Every rank must run `digits.py --epochs 10`. The check does a dry run: bash runs the script, with stand-ins for
    sbatch, srun and torchrun that only record what would start where. So you can write it in many ways, even without
    torchrun, as long as each rank gets its RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
    """,
    solution=lambda: machines.job_script,
    call=_fields,
    trials=(),
    hints={
        "job": "The job needs 2 nodes with 4 GPUs each. Set --nodes=2 and --gpus-per-node=4 in #SBATCH lines above the "
        "first command, because sbatch ignores later ones.",
        "nodes with ranks": "Slurm runs a job script on the first node only, but ranks must start on both. Launch "
        "torchrun with srun, as one task on each node. If a command fails, fix it first.",
        "torchruns on one node": "The job starts torchrun several times on one node, and each torchrun starts its own "
        "ranks. Start one task per node (--ntasks-per-node=1).",
        "each rank runs": f"Each rank must run {_COMMAND}. torchrun takes the first argument that is not an option "
        "as the script, and passes everything after it to the script, so put torchrun's own options first.",
        "rendezvous": "The ranks do not join the same rendezvous on the node of rank 0. Give all of them the first "
        "node as --rdzv-endpoint (without torchrun, as MASTER_ADDR and MASTER_PORT) and the same --rdzv-id.",
        "WORLD_SIZE": "WORLD_SIZE must be 8, one rank for each GPU. Set --nnodes=2 and --nproc-per-node=4 or, "
        "without torchrun, --ntasks-per-node=4 and WORLD_SIZE.",
        "RANK/LOCAL_RANK": "RANK must run from 0 to 7, and LOCAL_RANK from 0 to 3 on each node. Use "
        "--rdzv-backend=c10d or a different --node-rank on each node, or set both variables from SLURM_PROCID and "
        "SLURM_LOCALID.",
        "ranks run": "The ranks wait for each other, so all must run at the same time, and Slurm kills them when the "
        "script ends. Use one srun for all nodes, or end each srun with & and call wait after the last one.",
    },
    mistakes=[
        Mistake(
            partial(machines.job_script.replace, "$meet", ""),
            "There is no rendezvous, so each torchrun waits alone. Give all of them the same --rdzv-endpoint.",
        ),
        Mistake(
            partial(machines.job_script.replace, "=$first:", "=localhost:"),
            "On every node, localhost is that node itself, so the ranks never find each other. Use the name of the "
            "first node.",
        ),
    ],
)
