"""Lesson 1: what every rank gets at its start, and how the ranks join a process group."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="Each of four ranks reads `MASTER_ADDR`, `MASTER_PORT`, `WORLD_SIZE` and `RANK`. Which of these differ "
        "from rank to rank?",
        right="Only `RANK`. The other three are the same for all.",
        letter="a",
        why="All four ranks meet at one address and one port, and there is one number of ranks. `RANK` says which of "
        "them a process is.",
        wrong={
            "`RANK` and `MASTER_PORT`. Each rank listens on its own.": "Only rank 0 listens there, and the others "
            "call it. So all of them need the same number.",
            "`RANK` and `MASTER_ADDR`. Each rank gives its address.": "It is the address of rank 0's machine, where "
            "the others find it. A rank that gives its own address calls itself.",
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
            "port that it was given. The number does not say where rank 0 runs.",
            "Each machine forms a group of its own, of two ranks.": "`WORLD_SIZE` is still 4, so rank 0 waits for "
            "three others. Two of these never reach it.",
            "An error at once, because the address is used twice.": "Every machine has this address, and that is no "
            "error. PyTorch cannot know that you meant another machine.",
        },
        look_at="Read the four environment variables",
    ),
    Question(
        text="Of four ranks, rank 2 calls `init_process_group` ten seconds late. What do the others see?",
        right="Their own call takes ten seconds. Then all continue.",
        letter="c",
        why="Joining blocks until as many ranks have joined as the world size says. Only the last one does not wait.",
        wrong={
            "They continue as a group of three, and rank 2 joins later.": "A process group has a fixed size, and no "
            "rank can be added later. Without all four there is no group yet.",
            "They get an error at once, because a rank is missing.": "They cannot tell a late rank from a missing "
            "one. An error comes only after the timeout, which is 30 minutes with gloo.",
            "Nothing. Joining only stores the address, and returns.": "It does store the address, but then it waits "
            "until those of all other ranks are there.",
        },
        look_at="What joining waits for",
    ),
    Question(
        text="All ranks have joined. Now rank 2 sends a tensor to rank 3. Which way does it take?",
        right="Directly from the process of rank 2 to that of rank 3.",
        letter="b",
        why="The ranks used the store only to learn each other's addresses. After that they are connected directly.",
        wrong={
            "Through rank 0, because it hosts the store.": "Rank 0 hosts the place where the ranks meet. After that "
            "it is a rank like the others, and passes on no tensors.",
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
            "Another backend, which does not use that port.": "The port belongs to the store where the ranks meet. "
            "The ranks of gloo and of NCCL both meet there first.",
        },
        look_at="When the port is taken: `EADDRINUSE`",
    ),
)
