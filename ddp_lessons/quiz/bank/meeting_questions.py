"""Lesson 1: how ranks are started, by launch and by torchrun, and how they join a process group."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="Each of four ranks reads `MASTER_ADDR`, `MASTER_PORT`, `WORLD_SIZE` and `RANK`. Which of these differ "
        "from rank to rank?",
        right="Only `RANK`. The other three are the same for all.",
        letter="a",
        why="All four ranks join at one address and one port, and their number is the same for all. `RANK` says which "
        "of them a process is.",
        wrong={
            "`RANK` and `MASTER_PORT`. Each rank listens on its own.": "Only rank 0 listens there, and the others "
            "connect to it. So all of them need the same port.",
            "`RANK` and `MASTER_ADDR`. Each rank gives its address.": "It is the address of rank 0's machine, where "
            "the others find it. A rank that gives its own address connects to itself.",
            "All four. They describe the process that reads them.": "Only `RANK` describes the process. The other "
            "variables describe the job, which is the same for all ranks.",
        },
        look_at="Read the four environment variables",
    ),
    Question(
        text="A job runs on two machines, with two ranks on each. On both, `MASTER_ADDR` is `127.0.0.1`. What happens?",
        right="Ranks 2 and 3 call their own machine, and the job hangs.",
        letter="d",
        why="`127.0.0.1` means this machine, wherever it is used. On the second machine no rank 0 listens there, so "
        "its ranks keep trying until the timeout.",
        wrong={
            "Nothing unusual. Rank 0 is found by its number.": "A rank finds rank 0 only through the address and the "
            "port in its variables. The number does not say where rank 0 runs.",
            "Each machine forms a group of its own, of two ranks.": "`WORLD_SIZE` is still 4, so rank 0 waits for "
            "three others. Two of these never reach it.",
            "An error at once, because the address is used twice.": "Every machine has this address, and that is no "
            "error. PyTorch cannot know that you meant another machine.",
        },
        look_at="Read the four environment variables",
    ),
    Question(
        text="torchrun starts four ranks on each of two nodes. What are `RANK`, `LOCAL_RANK` and `GROUP_RANK` of the "
        "second rank on the second node?",
        right="5, 1 and 1",
        letter="c",
        why="It is the sixth rank of all and the second on its node, which is the second node. All three count from 0.",
        wrong={
            "1, 1 and 1": "`RANK` counts across all nodes, so it doesn't restart at 0 on the second one: four ranks "
            "come first.",
            "6, 2 and 2": "These are the same positions, but counted from 1. All three variables count from 0.",
            "5, 5 and 1": "`LOCAL_RANK` starts at 0 on each node. It chooses the GPU, and no node here has a GPU 5.",
        },
        look_at="Tell `RANK` from `LOCAL_RANK`",
    ),
    Question(
        text="A job ends with three tracebacks: rank 2 has `KeyError: 'label'`, and ranks 0 and 1 have `Connection "
        "closed by peer`. Which do you read first?",
        right="The one of rank 2, which failed first",
        letter="b",
        why="When rank 2 ended, its connections were closed, and the other ranks failed because of that.",
        wrong={
            "The one of rank 0, which leads the others": "Rank 0 doesn't lead the others. Its error only says that "
            "another rank had closed the connection.",
            "The last one, as for any Python error": "That is right for the lines of one traceback. Among several "
            "ranks, read the one that failed first.",
            "Those of 0 and 1, as the network is broken": "A connection is also closed when the process at its "
            "other end dies. A broken network doesn't raise a `KeyError`.",
        },
        look_at="When a rank fails: find the root cause",
    ),
    Question(
        text="Rank 2 returns without calling `init_process_group`, but its process lives on. What does torchrun do?",
        right="Nothing: all processes are alive.",
        letter="a",
        why="The agent only checks whether processes have ended. The other ranks wait in `init_process_group` until "
        "the timeout.",
        wrong={
            "It ends all ranks after some seconds.": "It does that when one process has failed. Here all of them are "
            "alive, and the agent can't see that three of them wait.",
            "It starts rank 2 once more.": "The agent doesn't know what a rank calls, so it has no reason to start it "
            "again. For the agent, all ranks are healthy.",
            "It names rank 2 as the root cause.": "torchrun prints that table after a rank has failed. Rank 2 has not "
            "failed: it never called the function.",
        },
        look_at="What joining waits for",
    ),
    Question(
        text="All ranks have joined. Now rank 2 sends a tensor to rank 3. Which way does it take?",
        right="Directly from the process of rank 2 to that of rank 3.",
        letter="b",
        why="The ranks used the store only to learn each other's addresses. After that they are connected directly.",
        wrong={
            "Through rank 0, because it hosts the store.": "Rank 0 hosts the store in which the ranks find each other. "
            "After that it is a rank like the others, and passes on no tensors.",
            "Into the store, from which rank 3 reads it.": "The store is for short values such as addresses. Tensors "
            "do not go through it, or it would slow down every call.",
            "Through the notebook, which started the ranks.": "The notebook starts processes and collects their "
            "results. While they run, ranks exchange tensors without it.",
        },
        look_at="What joining waits for",
    ),
    Question(
        text="A script uses port 29500. While it runs, you start it a second time and get `EADDRINUSE`. What helps?",
        right="A free port for each job, instead of a fixed one.",
        letter="d",
        why="Only one process can listen on a port. `launch` and `torchrun --standalone` find a free one for each job.",
        wrong={
            "`localhost` instead of `127.0.0.1` in `MASTER_ADDR`.": "Both are names of this machine, and the port is "
            "taken on the machine, whichever name you use.",
            "A longer timeout, so that it waits for the port.": "The error comes at once, because nothing waits for "
            "a port. It stays taken for as long as the first job runs.",
            "Another backend, which does not use that port.": "The port belongs to the store in which the ranks find "
            "each other. The ranks of gloo and of NCCL both use one.",
        },
        look_at="When the port is taken: `EADDRINUSE`",
    ),
)
