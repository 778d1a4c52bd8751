"""Lesson 14: restarts, several machines, Slurm."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="A script without checkpoints runs with `--max-restarts=3`. Rank 1 of 4 is killed in epoch 7. What "
        "happens?",
        right="All four ranks restart with epoch 0.",
        letter="b",
        why="A process group can't take in a new member, so the agent restarts all ranks, and the script runs from its "
        "first line.",
        wrong={
            "Rank 1 restarts with epoch 7.": "The agent knows nothing about epochs, and a single new rank couldn't "
            "join the old process group.",
            "All four ranks restart with epoch 7.": "All four restart, but no checkpoint says how far they were. So "
            "the script begins with epoch 0.",
            "The other three continue without it.": "Their next collective would wait for rank 1. The agent terminates "
            "them and restarts all four.",
        },
        look_at="Restart after a failure",
    ),
    Question(
        text="After epoch number `epoch`, counted from 0, a script saves `epoch + 1`. It is killed, and the checkpoint "
        "says 4. Which loop resumes the run?",
        right="`for epoch in range(4, epochs)`: 0 to 3 are done.",
        letter="d",
        why="The saved number says how many epochs are done, which is also the number of the next one.",
        wrong={
            "`for epoch in range(5, epochs)`: 4 is done.": "The 4 was saved as `epoch + 1`, so the last completed "
            "epoch was 3. This loop skips epoch 4, and no error tells you.",
            "`for epoch in range(3, epochs)`: it was killed in 3.": "The checkpoint was written after epoch 3 was "
            "complete. This loop trains that epoch twice, and no error tells you.",
            "`for epoch in range(epochs)`: it starts again.": "This loop trains all epochs again, with weights that "
            "have already been trained for four.",
        },
        look_at="Exercise: make training restartable",
    ),
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
        text="`GLOO_SOCKET_IFNAME=lo` works on one machine. What does it do on two nodes?",
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
)
