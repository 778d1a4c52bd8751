"""Lesson 1: how processes are started, and how they find each other."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="`mp.spawn(f, nprocs=2)` in a notebook cell, with `f` from the cell above, fails. Why?",
        right="A fresh Python gets only its name, and finds no file.",
        letter="b",
        why="A spawned process imports the module and looks for the name there. The cells of a notebook are in no "
        "module that could be imported; a function in a file is.",
        wrong={
            "A notebook is a process that must never have children.": "It may have them, it should only not be "
            "forked. Spawning is allowed, and works as soon as the function stands in a file.",
            "Its code is too long to be sent to another process.": "Its code is not sent at all, however short: "
            "pickle writes down two names, of the module and of the function.",
            'The line `if __name__ == "__main__":` is missing above it.': "That line keeps a file from starting "
            "ranks again when it is imported. The cells are never imported, so it would change nothing here.",
        },
        look_at="Step 1: start a process",
    ),
    Question(
        text="On a laptop without a GPU: `mp.spawn(train, nprocs=torch.cuda.device_count())`. What happens?",
        right="Nothing: it returns at once, without an error.",
        letter="d",
        why="The count is 0, so 0 processes are started, and all of them end well. Nothing was trained.",
        wrong={
            "An error that says that a GPU is needed.": "Nobody asked for a GPU, only for as many processes as "
            "there are GPUs. Zero is a number like another.",
            "One process is started, and it uses the CPU.": "There is no such fall-back: a count of 0 means no "
            "process. Who wants one on the CPU has to say 1.",
            "It waits until a GPU can be had, then begins.": "Nothing waits for hardware. It starts 0 processes "
            "and waits for those, which takes no time.",
        },
        look_at="`mp.spawn`, and a silent trap",
    ),
    Question(
        text="The four ranks of a job each read `MASTER_ADDR`, `MASTER_PORT`, `WORLD_SIZE` and `RANK`. Which of "
        "these differ from rank to rank?",
        right="Only `RANK`: all the others are the same everywhere.",
        letter="a",
        why="All name one meeting place and one number of ranks, and each knows which of them it is.",
        wrong={
            "`RANK` and `MASTER_PORT`: each rank listens on its own.": "They meet at one door. Rank 0 listens on "
            "that port and all others call it, so the number has to be the same.",
            "`RANK` and `MASTER_ADDR`: each gives its own address.": "It is the address where rank 0 runs, so "
            "that the others find it. A rank that gives its own calls itself.",
            "All four: each describes the process that reads it.": "Only `RANK` describes the process. The others "
            "describe the meeting, and that is one for all.",
        },
        look_at="Step 2: who am I, and where do we meet?",
    ),
    Question(
        text="Of four ranks, rank 2 comes to `init_process_group` ten seconds late. What do the others see?",
        right="Their own call takes ten seconds, then all go on.",
        letter="c",
        why="Joining blocks until as many have come as the world size says. Only the late one does not wait.",
        wrong={
            "They go on as three, and rank 2 becomes the fourth.": "A group has a fixed size, and nobody can be "
            "added to it later. Until all are there, there is no group.",
            "They get an error at once, since a rank is missing.": "They cannot know that it is missing and not "
            "only late. An error comes when the timeout is over, 30 minutes with gloo.",
            "Nothing: joining only notes the address, and returns.": "It does note addresses, but then it waits "
            "for those of all the others.",
        },
        look_at="What joining waits for",
    ),
    Question(
        text="Four processes each call `board.add('guests', 1)` on one store, at the same time. What do they get back?",
        right="1, 2, 3 and 4, but who gets which is open.",
        letter="b",
        why="`add` reads and writes in one go, and nobody can come in between: like tickets at a counter.",
        wrong={
            "1 each, for none has seen the others' addition.": "So it would be with a `get` and then a `set`. "
            "`add` is one act at the store, which serves one after the other.",
            "4 each, since all of them have added by then.": "That is what `get` says when all are through. `add` "
            "gives the number as it is right after one's own addition.",
            "1, 2, 3 and 4, always in the order of the ranks.": "The store knows no ranks. It serves whoever "
            "comes first, and that changes from run to run.",
        },
        look_at="The store is a notice board",
    ),
    Question(
        text="A script uses port 29500. It ran well; started a second time beside the first it raises "
        "`EADDRINUSE`. What is the cure?",
        right="A free port for each job, instead of a fixed one.",
        letter="d",
        why="Only one process can listen on a port. A free one can be asked for: who asks for port 0 gets one, "
        "and `torchrun --standalone` does that.",
        wrong={
            "`localhost` as its `MASTER_ADDR`, not `127.0.0.1`.": "Both are names of this machine, and a port belongs "
            "to the machine: it is taken under each of them.",
            "A longer timeout, until the port answers again.": "The port is taken as long as the first job lives, "
            "and the error comes at once: nothing is being waited for.",
            "Another backend, which does not need that port.": "The port belongs to the store where the ranks "
            "meet. gloo and NCCL both meet there first.",
        },
        look_at="A second job on the same port",
    ),
)
