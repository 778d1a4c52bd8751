"""`python -m ddp_lessons explain --on NODES`: the script is what ranks on nodes run, as in `launch(..., on=nodes)`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.diagnosis.wording import joined
from ddp_lessons.run.nodes.hosts import Hosts, NodeLost, Nodes
from ddp_lessons.run.nodes.node_group import connected, disconnect
from ddp_lessons.run.nodes.slurm import Slurm
from ddp_lessons.run.rank.run_script import has_file, run_on_node
from ddp_lessons.run.scripts.explain import SIGNALLED, end_by_signal, is_refused_in_each_task, say
from ddp_lessons.run.scripts.script_worlds import in_a_terminal, told
from ddp_lessons.run.workers import Workers

_SLURM = "slurm"


def explain_on(
    place: str, python: str | None, script: Sequence[str], ranks_per_node: int, timeout_seconds: float | None
) -> int:
    """Run `script` (its path and arguments) on each node of `place`: names of hosts, or "slurm".

    Returns the exit status: 1 if ranks hang or fail, 2 if they can't start.
    """
    if is_refused_in_each_task():
        return 2
    signal.signal(signal.SIGTERM, end_by_signal)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does
    try:
        nodes = _nodes(place, python or sys.executable)
        try:
            return _run(nodes, os.path.abspath(script[0]), script[1:], ranks_per_node, timeout_seconds)
        finally:
            disconnect(nodes)
    except (WorkerFailed, WorkersStuck) as failure:
        say(told(failure))
        return 1
    except (NodeLost, ValueError, OSError) as refusal:
        print(f"explain cannot start: {in_a_terminal(str(refusal))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:
        print(f"\n{in_a_terminal(str(stopped))}", file=sys.stderr, flush=True)
        return SIGNALLED + signal.SIGINT


def _nodes(place: str, python: str) -> Nodes:
    if place != _SLURM:
        return Hosts(*place.split(","), python=python)
    if "SLURM_JOB_ID" not in os.environ:
        raise NodeLost(
            "--on slurm needs a Slurm job, whose nodes it uses, but SLURM_JOB_ID is not set.\n"
            "  Next: run it in a job that you start with `salloc --nodes=2`, or in a script for sbatch."
        )
    return Slurm(python=python)


def _run(nodes: Nodes, file: str, arguments: Sequence[str], ranks_per_node: int, timeout_seconds: float | None) -> int:
    if ranks_per_node < 1:
        raise ValueError(f"--nproc-per-node must be at least 1, not {ranks_per_node}")
    world_size = ranks_per_node * len(connected(nodes).links)
    with Workers(world_size, timeout_seconds=timeout_seconds, join=False, on=nodes) as workers:
        has_it = workers.run(has_file, file, quiet=True)
        if lacking := list(dict.fromkeys(node for node, has in zip(workers.nodes, has_it, strict=True) if not has)):
            raise NodeLost(
                f"no such script on {joined(lacking)}: {file}\n"
                "  Each node runs its own copy, at the same path as here.\n"
                "  Next: copy the script there, and the files that it needs, or use a folder that all nodes share."
            )
        workers.run(run_on_node, file, list(arguments), ranks_per_node)
    return 0
