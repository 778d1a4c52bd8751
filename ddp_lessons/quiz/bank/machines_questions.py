"""Lesson 13: several machines."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="Three nodes have 4, 2 and 8 GPUs, with one rank per GPU. What is the first rank on the third node?",
        right="6",
        letter="d",
        why="It is the number of ranks on the nodes before it, 4 + 2. Ranks count from 0, so this is also its number.",
        wrong={
            "2": "That is the number of the node, its `GROUP_RANK`. The nodes before it have more than one rank each.",
            "7": "It is the seventh rank, but ranks count from 0, so the seventh has the number 6.",
            "16": "The formula 2 x 8 is right only if every node has eight GPUs. Add up what the nodes really have.",
        },
        look_at="Compute the rank from node and local rank",
    ),
    Question(
        text="You type `torchrun --nnodes=2 --nproc-per-node=4 train.py` on each of two nodes. What happens?",
        right="Both hang without a message.",
        letter="a",
        why="Without a rendezvous each torchrun waits at 127.0.0.1, on its own node, for a second one.",
        wrong={
            "They find each other and train on 8 ranks.": "Neither torchrun knows an address of the other node. The "
            "option `--rdzv-endpoint` gives it one.",
            "Each trains alone, with 4 ranks of its own.": "That would need `--nnodes=1`. With 2, each torchrun waits "
            "for a second node before it starts any rank.",
            "Both raise an error about the missing endpoint.": "The endpoint has a default, the node's own address, "
            "so torchrun sees nothing that is missing.",
        },
        look_at="Which failures are silent",
    ),
    Question(
        text="`GLOO_SOCKET_IFNAME=lo` was right in all lessons on one machine. What does it do on two nodes?",
        right="Each rank gives the other an address that only works locally.",
        letter="b",
        why="127.0.0.1 is always the node itself. One rank connects to its own node and is refused; the other waits "
        "for a connection.",
        wrong={
            "Nothing bad: gloo uses it only between ranks of one node.": "gloo uses the named interface for all "
            "connections, whether the other rank is on the same node or not.",
            "Both ranks report at once that there is no such interface.": "Every machine has a loopback interface, so "
            "the name is found. Only an interface such as `eth7` is missing.",
            "All data goes through node 0, so training is slower.": "No node forwards data for another. A connection "
            "to 127.0.0.1 never leaves the node, so it fails.",
        },
        look_at="Choose the network interface",
    ),
    Question(
        text="Two nodes train with a timeout of 5 minutes. You pull the network cable of one. When does the other "
        "notice?",
        right="After 5 minutes of waiting in a collective",
        letter="c",
        why="A pulled cable closes no connection, so only the timeout ends the wait. A killed process is different: "
        "its operating system closes its connections.",
        wrong={
            "At once, because the connection is broken": "TCP learns of a broken connection only from a packet, and "
            "none arrives. It keeps trying, since the network may return.",
            "After 30 minutes, the default of gloo": "That is the timeout if you do not set one. Here it was set to "
            "5 minutes, which is what counts.",
            "Never, until you stop the job yourself": "That would be true without any timeout. Every collective has "
            "one, the timeout of its process group.",
        },
        look_at="Pull the network cable",
    ),
    Question(
        text="A Slurm job script requests two nodes and runs `torchrun --nnodes=2 ... train.py` without `srun`. Where "
        "does torchrun run?",
        right="On the first node only",
        letter="d",
        why="The job script itself runs only there. `srun` would start torchrun on all nodes; without it the only "
        "torchrun waits for a second one.",
        wrong={
            "On both, because of `--nodes=2`": "`--nodes` says which nodes the job may use. Only `srun` starts a "
            "command on the second one.",
            "On both, because torchrun does that": "torchrun starts ranks on its own node only. It never starts "
            "anything on another node.",
            "Where you typed `sbatch`": "`sbatch` only submits the script. Slurm runs it when nodes are free, on the "
            "first of them.",
        },
        look_at="Submit a job to Slurm",
    ),
    Question(
        text="A job on two nodes with four GPUs each has `#SBATCH --ntasks-per-node=4` and then `srun torchrun "
        "--nproc-per-node=4 ...`. How many torchruns start?",
        right="Eight, although two are needed",
        letter="a",
        why="`srun` starts a torchrun for every task, and each torchrun starts four ranks. Request one task per node "
        "instead.",
        wrong={
            "Two, one on each node": "That would need `--ntasks-per-node=1`. Here each node has four tasks, and `srun` "
            "runs the command in every task.",
            "Four, one for each GPU of a node": "Tasks are counted per node: four on each of the two nodes, and `srun` "
            "runs the command in all of them.",
            "One, which starts eight ranks": "torchrun starts ranks on its own node only, so two nodes need at least "
            "two. And `srun` starts one per task.",
        },
        look_at="Submit a job to Slurm",
    ),
)
