"""Answers to the exercise `job_script`, which are texts."""

from __future__ import annotations

HEAD = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
"""
FIRST = 'export first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
MEET = "--rdzv-backend=c10d --rdzv-endpoint=$first:29400"
RUN = f"srun torchrun --nnodes=2 --nproc-per-node=4 {MEET} digits.py --epochs 10\n"
TASKS = HEAD.replace("per-node=1", "per-node=4") + FIRST
TOLD = "export MASTER_ADDR=$first MASTER_PORT=29500 WORLD_SIZE=8\n"

SHORT_OPTIONS = """\
#!/bin/bash
#SBATCH -N 2
#SBATCH -n 2
#SBATCH --gres=gpu:4
#SBATCH -c16 -t 30 # half an hour
set -euo pipefail
source /opt/conda/etc/profile.d/conda.sh
names=($(scontrol show hostnames $SLURM_JOB_NODELIST))
srun -l -c 16 conda run -n ddp python -m torch.distributed.run --nnodes 1:2 --nproc_per_node gpu \\
    --rdzv_id $SLURM_JOB_ID --rdzv_backend c10d --rdzv_endpoint ${names[1]}:29500 -m digits --epochs=10
"""
ONE_FOR_EACH_NODE = f"""\
{HEAD}{FIRST}number=0
for node in $(scontrol show hostnames $SLURM_JOB_NODELIST); do
  srun -N 1 -n 1 -w $node torchrun --nnodes 2 --node-rank $number --nproc-per-node 4 \\
    --master-addr $first --master-port 29400 digits.py --epochs 10 &
  number=$((number + 1))
done
wait
"""
IN_VARIABLES = f"""\
{HEAD}{FIRST}export PET_NNODES=2 PET_NPROC_PER_NODE=4 PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=$first:29400
srun torchrun --no-python python -u digits.py --epochs 10
"""
WITHOUT_TORCHRUN = (
    f"{TASKS}{TOLD}srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID python digits.py --epochs 10'\n"
)

NOT_WAITED_FOR = f"{HEAD}{FIRST}nohup {RUN.strip()} > log.txt 2>&1 &\n"
EACH_ITS_OWN_PLACE = f"{HEAD}srun bash -c '{RUN.removeprefix('srun ').strip()}'\n".replace("$first", "$(hostname)")
OPTIONS_AFTER_THE_SCRIPT = f"{HEAD}{FIRST}srun torchrun --nnodes=2 --nproc-per-node=4 digits.py --epochs 10 {MEET}\n"
LOCAL_RANKS_THAT_GO_ON = WITHOUT_TORCHRUN.replace("SLURM_LOCALID", "SLURM_PROCID")
AN_UNKNOWN_OPTION = SHORT_OPTIONS.replace("--rdzv_id", "--rdzv_name")


RIGHT = {"job_script": [SHORT_OPTIONS, ONE_FOR_EACH_NODE, IN_VARIABLES, WITHOUT_TORCHRUN]}
WRONG = {
    "job_script": [
        (NOT_WAITED_FOR, "all must run at the same time"),
        (EACH_ITS_OWN_PLACE, "The ranks do not join the same rendezvous"),
        (OPTIONS_AFTER_THE_SCRIPT, "put torchrun's own options first"),
        (LOCAL_RANKS_THAT_GO_ON, "LOCAL_RANK from 0 to 3 on each node"),
        (AN_UNKNOWN_OPTION, "If a command fails, fix it first"),
    ]
}
