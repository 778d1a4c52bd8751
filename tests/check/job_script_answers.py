"""Answers to the exercise `job_script`: right ones, and wrong ones with words of their sentences."""

from __future__ import annotations

HEAD = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --time=00:30:00
"""
FIRST = 'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
MEET = '--rdzv-backend=c10d --rdzv-endpoint="$first:29400"'
RUN = f"srun torchrun --nnodes=2 --nproc-per-node=4 {MEET} digits.py --epochs 10\n"

RIGHT = {
    "plain": HEAD + FIRST + RUN,
    "short options": """\
#!/bin/bash
#SBATCH -N 2
#SBATCH -n 2
#SBATCH --gres=gpu:4
#SBATCH -c16 -t 30 # half an hour
names=($(scontrol show hostnames $SLURM_JOB_NODELIST))
srun -l -c 16 torchrun --nnodes 2 --nproc_per_node 4 --rdzv_id $SLURM_JOB_ID --rdzv_backend c10d \\
    --rdzv_endpoint ${names[0]}:29500 digits.py --epochs=10
""",
    "more tasks asked for, one taken": HEAD.replace("ntasks-per-node=1", "ntasks-per-node=4")
    + FIRST
    + RUN.replace("srun", "srun --ntasks=2 --ntasks-per-node=1"),
    "the host name of the first, where the script runs": HEAD
    + f"export first=$(hostname)\nmodule load python\nsource ~/.bashrc\n{RUN}",
    "by its address": HEAD + f'first=$(srun -N 1 -n 1 hostname --ip-address)\necho "$first"\n{RUN}',
    "a machine's number for each": HEAD
    + FIRST
    + "export first\nsrun bash -c 'torchrun --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID --nproc-per-node=4 "
    + "--master-addr=$first --master-port=29500 digits.py --epochs 10'\n",
    "one srun for each machine": HEAD
    + FIRST
    + "number=0\nfor machine in $(scontrol show hostnames $SLURM_JOB_NODELIST); do\n"
    + "  srun -N 1 -n 1 -w $machine torchrun --nnodes 2 --node-rank $number --nproc-per-node 4 "
    + '--master-addr "$first" --master-port 29400 digits.py --epochs 10 &\n  number=$((number + 1))\ndone\nwait\n',
    "as a module of Python": HEAD + FIRST + RUN.replace("torchrun", "python -m torch.distributed.run", 1),
    "as many as there are": HEAD
    + FIRST
    + RUN.replace("=4", "=gpu", 1).replace("--nnodes=2", "--nnodes=$SLURM_JOB_NUM_NODES --max-restarts=3"),
    "a range": HEAD + FIRST + RUN.replace("--nnodes=2", "--nnodes=1:2"),
    "variables in place of options": HEAD
    + FIRST
    + "export PET_NNODES=2 PET_NPROC_PER_NODE=4 PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=$first:29400\n"
    + "srun torchrun digits.py --epochs 10\n",
    "careful": HEAD + "set -euo pipefail\n" + FIRST + RUN,
    "another folder": HEAD + FIRST + RUN.replace("digits.py", '"$SLURM_SUBMIT_DIR/digits.py"'),
    "python named by hand": HEAD + FIRST + RUN.replace("digits.py", "--no-python python -u digits.py"),
    "a program as a module": HEAD + FIRST + RUN.replace("digits.py", "-m digits"),
    "gpus in all": HEAD.replace("--gpus-per-node=4", "--gpus=8") + FIRST + RUN,
}

# of learners who have read only the lesson

BEHIND = RUN.removeprefix("srun ").strip()
PYTHON = "digits.py --epochs 10"
TASKS = HEAD.replace("node=1", "node=4")
NUMBERS = "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID"
TOLD = FIRST.replace("first=", "export MASTER_ADDR=") + "export MASTER_PORT=29500 WORLD_SIZE=8\n"

RIGHT |= {
    "behind an &, and waited for": HEAD + FIRST + RUN.strip() + " &\nwait\n",
    "waited for by its number": HEAD + FIRST + RUN.strip() + " &\njob=$!\necho begun\nwait $job\n",
    "in an environment that is not here": HEAD
    + "set -e\nsource /opt/conda/etc/profile.d/conda.sh\nconda activate ddp\ncd ~/training\n"
    + FIRST
    + RUN,
    "in an environment, by its name": HEAD + FIRST + RUN.replace("srun", "srun conda run -n ddp --no-capture-output"),
    "the torchrun that is found": HEAD + FIRST + RUN.replace("srun torchrun", "srun python $(which torchrun)"),
    "with the usual port": HEAD + FIRST + RUN.replace(":29400", ""),
    "with a port that Python finds": HEAD
    + FIRST
    + 'port=$(python -c "print(29000 + 17)")\n'
    + RUN.replace(":29400", ":$port"),
    "with a script of its own on each machine": HEAD
    + FIRST
    + f"export first\ncat > run.sh <<'END'\n#!/bin/bash\nexec {BEHIND}\nEND\nsrun bash run.sh\n",
    "settings in variables": HEAD
    + FIRST
    + 'LAUNCHER="torchrun --nnodes=$SLURM_NNODES --nproc-per-node=$SLURM_GPUS_ON_NODE --rdzv-backend=c10d '
    + '--rdzv-endpoint=$first:29400 --max-restarts=0"\nsrun $LAUNCHER digits.py --epochs=10 --seed 3\n',
    "in a function": HEAD + FIRST + 'train() {\n  srun torchrun "$@" digits.py --epochs 10\n}\n'
    f"train --nnodes=2 --nproc-per-node=4 {MEET}\n",
}

# without torchrun: srun starts the ranks themselves
DIRECT = {
    "four tasks on each machine": TASKS + TOLD + f"srun bash -c '{NUMBERS} python {PYTHON}'\n",
    "with a script on each machine": TASKS
    + TOLD
    + f"cat > rank.sh <<'END'\nexport {NUMBERS}\nexec python -u {PYTHON}\nEND\nsrun --label bash rank.sh\n",
    "eight tasks in all": TASKS.replace("ntasks-per-node=4", "ntasks=8")
    + TOLD.replace("WORLD_SIZE=8", "WORLD_SIZE=$SLURM_NTASKS")
    + f"srun bash -c '{NUMBERS} python3 -m digits --epochs=10'\n",
    "without local ranks": TASKS + TOLD + f"srun sh -c 'RANK=$SLURM_PROCID python {PYTHON}'\n",
}

WRONG = {
    "no srun": (
        HEAD + FIRST + RUN.removeprefix("srun "),
        "No torchrun runs on the second node, because Slurm runs a job script on the first node only. Launch "
        "torchrun with srun",
    ),
    "told too late to take fewer": (
        HEAD.replace("node=1", "node=4") + FIRST + RUN.replace("srun", "srun --ntasks-per-node=1"),
        "The job starts torchrun 4 times on one node, and each torchrun starts its own ranks",
    ),
    "four tasks": (
        HEAD.replace("node=1", "node=4") + FIRST + RUN,
        "The job starts torchrun 4 times on one node, and each torchrun starts its own ranks. Start one "
        "task per node (--ntasks-per-node=1)",
    ),
    "options behind the script": (
        HEAD + FIRST + f"srun torchrun --nnodes=2 --nproc-per-node=4 digits.py --epochs 10 {MEET}\n",
        "--rdzv-backend and --rdzv-endpoint go to digits.py instead of torchrun. Put them before its name",
    ),
    "all options behind the script": (
        HEAD + FIRST + f"srun torchrun digits.py --epochs 10 --nnodes=2 --nproc_per_node=4 {MEET}\n",
        "--nnodes and --nproc_per_node and --rdzv-backend and --rdzv-endpoint go to digits.py instead of "
        "torchrun. Put them before its name",
    ),
    "no rendezvous": (
        HEAD + RUN.replace(MEET, ""),
        "There is no rendezvous, so each torchrun waits alone. Give all of them the same --rdzv-endpoint",
    ),
    "one rank": (
        HEAD + FIRST + RUN.replace("node=4", "node=1"),
        "3 GPUs have no rank on each node, because torchrun starts 1 rank there. Set --nproc-per-node=4",
    ),
    "eight ranks": (
        HEAD + FIRST + RUN.replace("node=4", "node=8"),
        "4 ranks have no GPU on each node, because torchrun starts 8 ranks there. Set --nproc-per-node=4",
    ),
    "meets at home": (
        HEAD + RUN.replace("$first", "localhost"),
        "On every node, localhost is that node itself, so the torchrun agents never find each other. Set "
        "--rdzv-endpoint to the name of the first node",
    ),
    "meets at all": (
        HEAD + RUN.replace("$first", "$SLURM_JOB_NODELIST"),
        "names 'gpu[1-2]', which is not a node of this job. List the names with scontrol show hostnames",
    ),
    "meets elsewhere": (
        HEAD + RUN.replace("$first", "$SLURM_SUBMIT_HOST"),
        "names 'login', which is not a node of this job. List the names with scontrol show hostnames",
    ),
    "no place": (
        HEAD + RUN.replace(MEET, "--rdzv-backend=c10d"),
        "torchrun gets no rendezvous address. Set --rdzv-endpoint to the first node and a port, for example gpu1:29500",
    ),
    "each its own place": (
        HEAD + "srun bash -c '" + RUN.strip().removeprefix("srun ").replace("$first", "$(hostname)") + "'\n",
        "The torchruns have different rendezvous addresses (gpu1:29400, gpu2:29400). Give all of them the "
        "same --rdzv-endpoint",
    ),
    "each its own id": (
        HEAD
        + FIRST
        + "export first\nsrun bash -c '"
        + RUN.strip().removeprefix("srun ").replace("digits.py", "--rdzv-id=$SLURM_PROCID digits.py")
        + "'\n",
        "The torchrun commands have different --rdzv-id",
    ),
    "all are number 0": (
        HEAD
        + FIRST
        + "srun torchrun --nnodes=2 --node-rank=$SLURM_NODEID --nproc-per-node=4 --master-addr=$first digits.py\n",
        "Without --rdzv-backend=c10d each node needs its own --node-rank, but here they are 0 and 0",
    ),
    "This torchrun runs on one node only": (
        HEAD + FIRST + RUN.replace("--nnodes=2 ", ""),
        "This torchrun runs on one node only",
    ),
    "waits for three": (
        HEAD + FIRST + RUN.replace("nnodes=2", "nnodes=3"),
        "torchrun waits for 3 nodes, but the job has 2. Set --nnodes=2",
    ),
    "alone": (
        HEAD + "srun torchrun --standalone --nproc-per-node=4 digits.py\n",
        "With --standalone each torchrun stays on its own node. Replace it with --nnodes and a rendezvous",
    ),
    "one machine": (
        HEAD.replace("nodes=2", "nodes=1") + FIRST + RUN,
        "The job asks for 1 of the 2 nodes. Set --nodes=2",
    ),
    "no GPUs": (
        HEAD.replace("#SBATCH --gpus-per-node=4\n", "") + FIRST + RUN,
        "The job asks for 0 of the 4 GPUs per node",
    ),
    "on one only": (
        HEAD + FIRST + RUN.replace("srun", "srun --nodes=1 --ntasks=1"),
        "srun starts no torchrun on gpu2. Start one task per node (--ntasks-per-node=1)",
    ),
    "directive too late": (
        HEAD.replace("#SBATCH --gpus", "echo begins\n#SBATCH --gpus") + FIRST + RUN,
        "sbatch ignores #SBATCH in line 5, because it comes after the first command. Move it above all commands",
    ),
    "no first line": ((HEAD + FIRST + RUN).removeprefix("#!/bin/bash\n"), "sbatch refuses a script whose first line"),
    "plain python": (
        HEAD + "srun python digits.py\n",
        "The job starts 1 rank on gpu1, which has 4 GPUs. Start one rank per GPU",
    ),
    "another program without torchrun": (
        HEAD + "srun python digit.py\n",
        "The script never starts torchrun, so no rank starts",
    ),
    "a typing error": (
        HEAD + FIRST + RUN.replace("srun", "srum"),
        "The script fails before it starts anything: line 8: srum",
    ),
    "an option that torchrun has not": (
        HEAD + FIRST + RUN.replace("--nproc-per-node", "--ranks-per-node"),
        "unrecognized",
    ),
    "a directive that is none": (
        HEAD.replace("--nodes=2", "--nodes=two") + RUN,
        "sbatch cannot read #SBATCH --nodes=two",
    ),
    "all names in one": (
        HEAD
        + (FIRST + 'meet="--rdzv-backend=c10d --rdzv-endpoint=$first:29400"\n').replace(" | head -n 1", "")
        + RUN.replace(MEET, "$meet"),
        "torchrun takes 'gpu2:29400' as its script instead of 'digits.py'. The option before it got the "
        "names of all nodes, so the second name, 'gpu2:29400', became the script. Pass only the first name",
    ),
    "a word too many": (
        HEAD + FIRST + RUN.replace("digits.py", "train digits.py"),
        "torchrun takes 'train' as its script instead of 'digits.py'. The script is the first word that "
        "belongs to no option. Check the word before it, '--rdzv-endpoint=gpu1:29400'",
    ),
    "another program": (HEAD + FIRST + RUN.replace("digits.py", "digit.py"), "takes 'digit.py' as its script"),
    "a file's name": ("two_machines.sbatch", "sbatch refuses a script whose first line"),
}

ALONE = "The script ends while a background srun is still running, so Slurm ends the job"

WRONG |= {
    "behind an & and not waited for": (HEAD + FIRST + RUN.strip() + " &\n", ALONE),
    "behind an & and something else": (HEAD + FIRST + RUN.strip() + " &\necho begun\nexit 0\n", ALONE),
    "with nohup": (HEAD + FIRST + "nohup " + RUN.strip() + " > log.txt 2>&1 &\n", ALONE),
    "in a loop, not waited for": (
        HEAD
        + FIRST
        + "for machine in $(scontrol show hostnames $SLURM_JOB_NODELIST); do\n"
        + RUN.strip().replace("srun", "srun -N 1 -n 1 -w $machine")
        + " &\ndone\n",
        ALONE,
    ),
    "one machine after the other": (
        HEAD
        + FIRST
        + "for machine in $(scontrol show hostnames $SLURM_JOB_NODELIST); do\n"
        + RUN.strip().replace("srun", "srun -N 1 -n 1 -w $machine")
        + "\ndone\n",
        "Deadlock: the first srun waits for the ranks of the second, which starts only when the first is done",
    ),
    "its arguments lost": (
        HEAD + FIRST + RUN.replace(" --epochs 10", ""),
        "The program should get '--epochs 10' but gets nothing. Put the arguments after the script name",
    ),
    "other arguments": (
        HEAD + FIRST + RUN.replace("--epochs 10", "--epochs 1"),
        "The program should get '--epochs 10' but gets '--epochs 1'. Put the arguments after the script name",
    ),
    "arguments in front": (
        HEAD + FIRST + RUN.replace("digits.py --epochs 10", "--epochs 10 digits.py"),
        "torchrun rejects its arguments",
    ),
    "arguments of the job": (
        HEAD + FIRST + RUN.replace("--epochs 10", '"$@"'),
        "The program should get '--epochs 10' but gets nothing. Put the arguments after the script name",
    ),
    "an empty variable": (HEAD + RUN, "has no host before the port. Check that the variable with the host name is set"),
    "eight tasks without torchrun": (
        TASKS + f"srun python {PYTHON}\n",
        "Not every rank has RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, which torchrun would have set",
    ),
    "everything but the rank": (TASKS + TOLD + f"srun python {PYTHON}\n", "Not every rank has RANK, which"),
    "the rank on its machine for the rank": (
        TASKS + TOLD + f"srun bash -c 'RANK=$SLURM_LOCALID python {PYTHON}'\n",
        "Each rank needs its own RANK from 0 to 7, but these have 0, 0, 1, 1, 2, 2, 3, 3",
    ),
    "as many as machines": (
        TASKS + TOLD.replace("=8", "=$SLURM_NNODES") + f"srun bash -c '{NUMBERS} python {PYTHON}'\n",
        "WORLD_SIZE is 2, but there are 8 ranks. Set WORLD_SIZE to 8",
    ),
    "each meets at home": (
        TASKS + TOLD + f"srun bash -c '{NUMBERS} MASTER_ADDR=$(hostname) python {PYTHON}'\n",
        "The ranks have different rendezvous addresses (gpu1:29500, gpu2:29500). On every rank, set MASTER_ADDR to "
        "the name of rank 0's node and MASTER_PORT to the same number",
    ),
    "meets at localhost": (
        TASKS + "export MASTER_ADDR=localhost MASTER_PORT=29500 WORLD_SIZE=8\n"
        f"srun bash -c '{NUMBERS} python {PYTHON}'\n",
        "MASTER_ADDR is 'localhost', but rank 0 runs on gpu1. Set MASTER_ADDR to that node",
    ),
    "local ranks that go on": (
        TASKS + TOLD + f"srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_PROCID python {PYTHON}'\n",
        "LOCAL_RANK starts at 0 on each node, but the ranks on gpu2 have 4, 5, 6, 7",
    ),
    "one rank on each machine": (
        HEAD + TOLD.replace("=8", "=2") + f"srun bash -c '{NUMBERS} python {PYTHON}'\n",
        "The job starts 1 rank on gpu1, which has 4 GPUs. Start one rank per GPU",
    ),
    "four ranks by the job alone": (
        HEAD + TOLD + "for rank in 0 1 2 3; do\n  RANK=$rank python digits.py --epochs 10 &\ndone\nwait\n",
        "Without srun all ranks start on the first node, because Slurm runs a job script there only",
    ),
}
