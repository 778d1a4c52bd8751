"""Lesson 17: processes that are spawned, and other ways in which ranks meet."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="`mp.spawn(f, nprocs=2)` in a notebook cell, with `f` from the cell above, fails. Why?",
        right="A new Python gets only its name, and finds no file.",
        letter="b",
        why="A spawned process imports the module and looks for the name there. The cells of a notebook are in no "
        "module that it could import. A function in a file is.",
        wrong={
            "A notebook is a process that must never have children.": "It may have children, but you should not fork "
            "it. Spawning is allowed, and it works when the function is in a file.",
            "Its code is too long to be sent to another process.": "Its code is not sent at all, however short it "
            "is. The pickle contains two names, of the module and of the function.",
            'The line `if __name__ == "__main__":` is missing above it.': "That line keeps an imported file from "
            "starting ranks again. The cells are never imported, so it would change nothing here.",
        },
        look_at="Spawn a function of a notebook",
    ),
    Question(
        text="On a laptop without a GPU you call `mp.spawn(train, nprocs=torch.cuda.device_count())`. What happens?",
        right="Nothing. It returns at once, without an error.",
        letter="d",
        why="The count is 0, so it starts 0 processes, and none of them fails. Nothing was trained.",
        wrong={
            "An error says that this call needs a GPU.": "The call does not ask for a GPU, only for as many processes "
            "as there are GPUs. Zero is a valid number.",
            "One process is started, and it uses the CPU.": "There is no such fallback. A count of 0 means no "
            "process at all. For one process on the CPU, pass 1.",
            "It waits until a GPU is free, and then starts.": "It does not wait for hardware. It starts 0 processes "
            "and waits for those, which takes no time.",
        },
        look_at="`mp.spawn` without GPUs, and after an error",
    ),
    Question(
        text="A job meets by `file:///shared/meeting` and is killed. You start it again with that file. What happens?",
        right="The new ranks may read old addresses, and fail or wait.",
        letter="a",
        why="The file still has the entries of the killed ranks, because nothing removed it. Use a new file name for "
        "each job.",
        wrong={
            "The new ranks empty the file first, and then they meet.": "None of them does. It could not know "
            "whether the entries belong to other ranks of its own job.",
            "The job continues at the point where it was killed.": "The file contains addresses, and nothing of the "
            "training run. To continue, a script has to save that itself.",
            "It is refused at once, because the file exists already.": "An existing file is normal, because only one "
            "of the ranks can create it. The others find it there.",
        },
        look_at="Meet by a shared file: `file://`",
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
        look_at="Use a store: `set`, `get`, `add`",
    ),
    Question(
        text='Four processes call `board.add("guests", 1)` on one store at the same time. What do they get back?',
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
        look_at="Use a store: `set`, `get`, `add`",
    ),
)
