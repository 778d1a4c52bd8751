"""Lesson 17: backends, ways to join, stores and a parameter server."""

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
        look_at="gloo or NCCL: how to choose",
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
        text="A job joins by `file:///shared/rendezvous` and is killed. You start it again with that file. "
        "What happens?",
        right="The new ranks may read old addresses, and fail or wait.",
        letter="a",
        why="The file still has the entries of the killed ranks, because nothing removed it. Use a new file name for "
        "each job.",
        wrong={
            "The new ranks empty the file first, and then they join.": "None of them does. It could not know "
            "whether the entries belong to other ranks of its own job.",
            "The job continues at the point where it was killed.": "The file contains addresses, and nothing of the "
            "training run. To continue, a script has to save that itself.",
            "It is refused at once, because the file exists already.": "An existing file is normal, because only one "
            "of the ranks can create it. The others find it there.",
        },
        look_at="Initialization: `env://`, `tcp://` and `file://`",
    ),
    Question(
        text='A program calls `dist.TCPStore("127.0.0.1", 29500, world_size=2, is_master=True)`, and in the next line '
        "creates a client. What happens?",
        right="The first line blocks, so the client is never created.",
        letter="c",
        why="The server waits until two processes have joined. With `wait_for_workers=False` it returns at once.",
        wrong={
            "Both lines work, and the program has both ends.": "It would be so with `wait_for_workers=False`. By "
            "default the first line waits for a client that only the next line would create.",
            "An error says that one process cannot have both.": "One process may have a server and a client. The "
            "trouble is the order, because the first line waits for the second.",
            "The client replaces the server on the same port.": "A client does not listen on a port. It calls the "
            "server, so the two would not be in each other's way.",
        },
        look_at="Stores: TCPStore, FileStore, HashStore, PrefixStore",
    ),
    Question(
        text='Four processes call `store.add("joined", 1)` on one store at the same time. What do they get back?',
        right="1, 2, 3 and 4. Which process gets which is open.",
        letter="b",
        why="`add` reads and writes in one step, and no other process can get in between.",
        wrong={
            "1 each, because none has seen the others' additions.": "That could happen with `get` and then `set`. "
            "`add` is one step at the store, which serves one process after the other.",
            "4 each, because all of them have added by then.": "That is what `get` returns afterwards. `add` returns "
            "the number right after the caller's own addition.",
            "1, 2, 3 and 4, always in the order of the ranks.": "The store knows no ranks. It serves the process "
            "that comes first, and that differs from run to run.",
        },
        look_at="Stores: TCPStore, FileStore, HashStore, PrefixStore",
    ),
    Question(
        text="A parameter server has 8 workers. How many times the size of the model does the server send and "
        "receive in a step, and how many does a rank in a ring of 8?",
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
