"""Ranks on several nodes: their numbers, and a job script that starts them all."""

from __future__ import annotations


def ranks_of(gpus: str, machine: int) -> list[int]:
    """Return the ranks on one node. `gpus` is a string with the number of GPUs on each node, such as "8,2".

    Raises:
        ValueError: there is no such node, or a number of GPUs is not valid.
    """
    # typed input is text, not a number or a list of numbers
    counts = [int(count) for count in gpus.split(",")]
    if not 0 <= machine < len(counts) or min(counts) < 0:
        raise ValueError(f"{gpus!r} has no machine {machine}: machines are numbered from 0 to {len(counts) - 1}")
    first = sum(counts[:machine])  # the number of ranks on the nodes before
    return list(range(first, first + counts[machine]))


job_script = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --time=00:30:00
#SBATCH --output=digits_%j.out
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))  # each job has its own
meet="--rdzv-backend=c10d --rdzv-endpoint=$first:$port --rdzv-id=$SLURM_JOB_ID"
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" torchrun --nnodes=2 --nproc-per-node=4 $meet digits.py --epochs 10
"""
