"""Lesson 12: who carries the bytes."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="On a laptop without a GPU `dist.is_nccl_available()` says True. Which backend do you take?",
        right="gloo: it only says how torch was built",
        letter="a",
        why="The usual wheel has NCCL in it, wherever it runs. Without a GPU NCCL refuses when you join.",
        wrong={
            "NCCL: the function has just tried it out": "It tries nothing. It tells what is inside of this torch, "
            "not what is plugged into the machine.",
            "NCCL: it falls back to the CPU by itself": "NCCL knows only tensors on NVIDIA GPUs. There is nothing "
            "that it could fall back to.",
            "Both: torch finds out which of them works": "`cpu:gloo,cuda:nccl` asks for both, and fails at "
            "joining where there is no GPU.",
        },
        look_at="What works here",
    ),
    Question(
        text="A rank starts with `CUDA_VISIBLE_DEVICES=4,5` on a machine with eight GPUs. What are these two "
        "called in it?",
        right="`cuda:0` and `cuda:1`",
        letter="c",
        why="A process counts what it is shown, from 0. So each job can have a part of the machine, and the local "
        "rank still chooses.",
        wrong={
            "`cuda:4` and `cuda:5`": "These are their numbers on the machine, as `nvidia-smi` has them. Asked for "
            "here, they are an invalid device ordinal.",
            "`cuda:0` to `cuda:7`": "The variable hides the six others altogether: the process sees two, and "
            "counts two.",
            "`cuda:4,5`, as one": "No device has two GPUs. A rank takes one of them, by its local rank.",
        },
        look_at="Which GPUs a process sees",
    ),
    Question(
        text="One GPU, two ranks, tensors on the GPU, backend NCCL. What happens?",
        right="It is refused: each rank needs a GPU of its own.",
        letter="b",
        why="NCCL wants a GPU for every rank. It looks at that when you join or with the first collective, depending "
        "on the release of torch. gloo lets two ranks share.",
        wrong={
            "It works, at half the speed for each of them.": "That is what gloo does. NCCL does not let two ranks "
            "share one GPU at all.",
            "The second rank is moved to the CPU in silence.": "No backend moves tensors elsewhere. Which device "
            "they are on is your program's affair.",
            "The second rank waits until the first is done with the GPU.": "Nobody hands GPUs out in turn. And a "
            "collective needs both ranks at the same time.",
        },
        look_at="When NCCL is right",
    ),
    Question(
        text="Two processes want the last seat. What does the board say in the end?",
        program=Program(
            """
def f(rank, world_size):
    board = dist.HashStore()
    board.set("seat", "free")
    board.compare_set("seat", "free", "anna")
    board.compare_set("seat", "free", "ben")
    return board.get("seat").decode()
""",
            holds="results[0] == right",
            ranks=1,
        ),
        right="anna",
        letter="c",
        why="The second call expects `free`, finds `anna`, and does nothing. So several processes can agree who "
        "was first.",
        wrong={
            "ben": "So it would be with `set`, where the last one wins. `compare_set` writes only if the note is "
            "as expected.",
            "free": "The first call found what it expected, and wrote. Only the second one did nothing.",
            "annaben": "Nothing is appended to a note: it is written anew or left alone.",
        },
        look_at="A backend of your own",
    ),
    Question(
        text="In an all_reduce on a notice board each rank adds up the notes in the order in which they arrive. "
        "What is wrong with it?",
        right="The ranks' sums may differ in their last bits.",
        letter="d",
        why="Sums of floats depend on the order, and arrivals differ from rank to rank. Replicas that differ by a "
        "bit stay different. Add in the order of ranks, everywhere.",
        wrong={
            "Nothing: a sum does not depend on the order.": "Of whole numbers it does not. Of floats (a + b) + c "
            "is not always a + (b + c).",
            "A note may be read twice, or not at all.": "Each note has a name of its own, and each is read once, "
            "in whatever order.",
            "It waits for ever if two notes arrive at once.": "The store serves one after the other. Nothing is "
            "lost and nobody waits for more than the notes.",
        },
        look_at="Exercise: an all_reduce on a notice board",
    ),
    Question(
        text="A parameter server with 8 workers. How many times the size of the model does the server send and "
        "receive in a step, and a rank of a ring of 8?",
        right="The server 16 times, a rank 3.5 times",
        letter="b",
        why="Weights to each of 8, a gradient from each of 8. A ring rank sends 2 x 7 / 8 models and receives as many.",
        wrong={
            "The server 2 times, a rank 3.5 times": "Two is what it does for one worker: weights out, gradient "
            "in. It has eight of them.",
            "The server 16 times, a rank 16 times": "In a ring nobody talks to everybody. What a rank sends stays "
            "below two models, however many ranks there are.",
            "The server 8 times, a rank 14 times": "The server both sends and receives: 8 + 8. And the 14 steps "
            "of a rank carry an eighth of the model each.",
        },
        look_at="RPC: call a function over there",
    ),
)
