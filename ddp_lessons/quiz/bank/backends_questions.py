"""Lesson 16: which backend can do what."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="On a laptop without a GPU, `dist.is_nccl_available()` returns True. Which backend do you use?",
        right="gloo: it only says how PyTorch was built",
        letter="a",
        why="PyTorch for CUDA contains NCCL on every machine. Without a GPU, NCCL refuses when you join.",
        wrong={
            "NCCL: the function has just tried it out": "It tries nothing. It says what was built into this PyTorch, "
            "not which devices the machine has.",
            "NCCL: it falls back to the CPU by itself": "NCCL handles only tensors on NVIDIA GPUs, so it has nothing "
            "to fall back to.",
            "Both: PyTorch finds out which of them works": "`cpu:gloo,cuda:nccl` asks for both, and joining fails "
            "if there is no GPU.",
        },
        look_at="Try every call with every backend",
    ),
    Question(
        text="A rank starts with `CUDA_VISIBLE_DEVICES=4,5` on a machine with eight GPUs. What are these two "
        "called in it?",
        right="`cuda:0` and `cuda:1`",
        letter="c",
        why="A process numbers its visible GPUs from 0. So each job can have a part of the machine, and the local "
        "rank still chooses the GPU.",
        wrong={
            "`cuda:4` and `cuda:5`": "These are their numbers in `nvidia-smi`. In the process, `cuda:4` raises "
            "*invalid device ordinal*.",
            "`cuda:0` to `cuda:7`": "The variable hides the other six GPUs, so the process sees and counts only two.",
            "`cuda:4,5`, as one": "A device is always one GPU. Each rank takes one of the two, by its local rank.",
        },
        look_at="Which GPUs a process sees: `CUDA_VISIBLE_DEVICES`",
    ),
    Question(
        text="One GPU, two ranks, tensors on the GPU, backend NCCL. What happens?",
        right="NCCL refuses: each rank needs a GPU of its own.",
        letter="b",
        why="NCCL needs one GPU per rank. It checks this when you join or in the first collective, depending on the "
        "release. With gloo, two ranks may share a GPU.",
        wrong={
            "It works, at half the speed for each of them.": "That is possible with gloo. NCCL does not let two "
            "ranks share a GPU at all.",
            "The second rank silently moves to the CPU.": "No backend moves a tensor to another device. Your program "
            "chooses the device of each tensor.",
            "The second rank waits until the first is done with the GPU.": "Ranks do not take turns on a GPU, and a "
            "collective needs both of them at the same time.",
        },
        look_at="gloo or NCCL: how to choose",
    ),
    Question(
        text="A process group of your own has one method, `allreduce`. What happens when DDP wraps a model on it?",
        right="It fails, because it also calls other methods.",
        letter="c",
        why="DDP compares the shapes with `allgather` and sends the initial weights with `broadcast`, before the first "
        "gradient is added.",
        wrong={
            "It trains, because DDP only averages gradients.": "It averages gradients in each step. Before that, it "
            "makes all replicas equal, and this takes two more methods.",
            "It trains, because PyTorch uses gloo for the rest.": "No other backend takes over. If the class "
            "lacks a method, the call raises an error.",
            "It fails, because DDP accepts only gloo and NCCL.": "DDP accepts any process group that has the methods "
            "it calls. In the lesson, it trains on a store.",
        },
        look_at="Train DDP on your own backend",
    ),
    Question(
        text="In an all_reduce on a store, each rank adds the tensors in the order in which they arrive. What is "
        "wrong with it?",
        right="The ranks' sums may differ in their last bits.",
        letter="d",
        why="A sum of floats depends on the order, and the order of arrival differs between ranks. Replicas that "
        "differ by a bit stay different. Add in the order of the ranks.",
        wrong={
            "Nothing: a sum does not depend on the order.": "That is true of integers. For floats, (a + b) + c "
            "is not always equal to a + (b + c).",
            "A tensor may be read twice, or not at all.": "Each tensor has a key of its own and is read once, "
            "whatever the order is.",
            "It hangs if two tensors arrive at the same time.": "The store serves one rank after the other. No "
            "tensor is lost, and every `get` returns in the end.",
        },
        look_at="Exercise: all_reduce on a store",
    ),
    Question(
        text="A parameter server has 8 workers. How many times the size of the model does the server send and "
        "receive in a step, and how many a rank of a ring of 8?",
        right="The server 16 times, a rank 3.5 times",
        letter="b",
        why="The server sends weights to 8 workers and receives 8 gradients. A ring rank sends 2 x 7 / 8 models and "
        "receives as many.",
        wrong={
            "The server 2 times, a rank 3.5 times": "That is the traffic for one worker: weights out, gradients "
            "in. The server has eight workers.",
            "The server 16 times, a rank 16 times": "In a ring, a rank talks only to its neighbors. It sends less "
            "than two models, however many ranks there are.",
            "The server 8 times, a rank 14 times": "The server both sends and receives: 8 + 8. And the 14 steps "
            "of a rank carry an eighth of the model each.",
        },
        look_at="RPC and the parameter server",
    ),
)
