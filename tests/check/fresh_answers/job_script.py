import os
import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


# answers are texts

right("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))
meet="--rdzv-backend=c10d --rdzv-endpoint=$first:$port --rdzv-id=$SLURM_JOB_ID"
srun torchrun --nnodes=$SLURM_JOB_NUM_NODES --nproc-per-node=4 $meet digits.py --epochs 10
""", "the lesson's pattern")

right("""\
#!/bin/bash
#SBATCH -N 2
#SBATCH --ntasks-per-node 1
#SBATCH --gpus-per-node=4
#SBATCH -c 16
HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST | sed -n 1p)
srun torchrun \\
    --nnodes 2 \\
    --nproc_per_node 4 \\
    --rdzv_backend c10d \\
    --rdzv_endpoint "$HEAD:29400" \\
    --rdzv_id "$SLURM_JOB_ID" \\
    digits.py --epochs 10
""", "short options, underscores, spaces instead of =, several lines, a fixed port")

right("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --ntasks-per-node=1 --ntasks=2 torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint="$first":29500 --rdzv-id="$SLURM_JOB_ID" digits.py --epochs 10
""", "one task on each machine said to srun instead of #SBATCH")

right("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
export first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun bash -c 'torchrun --nnodes=2 --node-rank=$SLURM_NODEID --nproc-per-node=4 --master-addr=$first --master-port=29500 digits.py --epochs 10'
""", "machines numbered by hand: --node-rank read on each machine, as before there was a rendezvous")

right("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
export PET_NNODES=2 PET_NPROC_PER_NODE=4 PET_RDZV_BACKEND=c10d PET_RDZV_ID=$SLURM_JOB_ID
export PET_RDZV_ENDPOINT=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1):29400
srun torchrun digits.py --epochs 10
""", "all options by PET_ variables, which srun passes on")

right("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
set -eu
nodes=( $(scontrol show hostnames "$SLURM_JOB_NODELIST") )
gpus=4
train() {
    srun torchrun --nnodes="${#nodes[@]}" --nproc-per-node="$gpus" --rdzv-backend=c10d \\
        --rdzv-endpoint="${nodes[0]}:$((20000 + SLURM_JOB_ID % 10000))" --rdzv-id="job$SLURM_JOB_ID" "$@"
}
train digits.py --epochs 10
""", "bash array, function, set -eu")

right("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$(hostname):29400 digits.py --epochs 10
""", "$(hostname) is worked out by the script, on the first machine; no id (all have the same default)")

right("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
last=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1)
exec srun --label python -m torch.distributed.run --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$last:29400 --rdzv-id=$SLURM_JOB_ID digits.py --epochs=10
""", "they meet on the last machine; python -m torch.distributed.run is the same command (lesson 14); exec")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
torchrun --nnodes=2 --nproc-per-node=1 digits.py --epochs 10
""", "unchanged", "srun, one task, nproc-per-node, rendezvous")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$first:29400 digits.py --epochs 10
""", "srun forgotten: runs on the first machine only", "srun, first machine only, waits")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$first:29400 digits.py --epochs 10
""", "four tasks on each machine: eight agents", "one task, ntasks-per-node, agents")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=$first:29400 digits.py --epochs 10
""", "one rank on each machine: three GPUs idle", "nproc-per-node, eight ranks, 4")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
srun torchrun --nnodes=2 --nproc-per-node=4 digits.py --epochs 10
""", "no rendezvous: each waits at its own 127.0.0.1", "rendezvous, endpoint, 127.0.0.1")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=localhost:29400 digits.py --epochs 10
""", "localhost: each machine calls itself", "localhost, endpoint, first machine")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
srun bash -c 'torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$(hostname):29400 digits.py --epochs 10'
""", "hostname is asked on each machine: two endpoints", "endpoint, same on all machines, hostname")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=$first:29400 digits.py --epochs 10
""", "eight on each machine: sixteen ranks", "nproc-per-node, sixteen, eight ranks, GPU")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
srun torchrun --standalone --nproc-per-node=4 digits.py --epochs 10
""", "standalone: two trainings of four ranks", "standalone, two trainings, nnodes")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes=2 --node-rank=$SLURM_NODEID --nproc-per-node=4 --master-addr=$first --master-port=29500 digits.py --epochs 10
""", "SLURM_NODEID is worked out in the script, on the first machine: 0 on both", "node-rank, both 0, SLURM_NODEID")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$SLURM_JOB_NODELIST:29400 digits.py --epochs 10
""", "the short list machine[0-1] is no name", "endpoint, SLURM_JOB_NODELIST, scontrol, name")

wrong("""\
#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=16
srun torchrun --nnodes=1 --nproc-per-node=8 digits.py --epochs 10
""", "one machine with eight GPUs: not what is there", "two machines, nodes=2, four GPUs")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --nodes=1 --ntasks=1 torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$first:29400 digits.py --epochs 10
""", "srun on one machine only", "srun, both machines, one task in all, waits")

wrong("""\
#!/bin/bash
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$first:29400 digits.py --epochs 10
""", "sbatch reads no #SBATCH line behind the first command", "#SBATCH, before the first command, ignored")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
srun bash -c 'torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint='$(hostname)':29400 --rdzv-id=$RANDOM digits.py --epochs 10'
""", "the id is drawn on each machine: two rendezvous", "rdzv-id, same on all machines, RANDOM")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes=1 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$first:29400 digits.py --epochs 10
""", "nnodes=1: does not wait for the second machine", "nnodes, 2, two machines")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes=2 --nproc-per-node=4 digits.py --epochs 10 --rdzv-backend=c10d --rdzv-endpoint=$first:29400
""", "options behind the script's name go to the script, not to torchrun", "order, before digits.py, rendezvous")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$first:29400 digits.py --epochs 10
""", "no GPUs asked for any more", "gpus-per-node, GPU")

wrong("""\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
srun python digits.py --epochs 10
""", "srun starts eight Pythons that nobody told RANK and MASTER_ADDR", "torchrun, RANK, rendezvous")
