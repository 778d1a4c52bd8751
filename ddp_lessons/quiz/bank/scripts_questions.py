"""Lesson 10: from a cell to a script, and what torchrun does with it."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="Two agents start four ranks each. What are `RANK`, `LOCAL_RANK` and `GROUP_RANK` of the second rank "
        "on the second machine?",
        right="5, 1 and 1",
        letter="c",
        why="It is the sixth of all, the second on its machine, and its machine is the second; all three count from 0.",
        wrong={
            "1, 1 and 1": "`RANK` counts over all machines and does not begin anew on the second one: four ranks "
            "come before.",
            "6, 2 and 2": "The same places, but counted from 1. The first of everything is number 0.",
            "5, 5 and 1": "The local rank begins anew on each machine. It chooses the GPU, and no machine here "
            "has a GPU number 5.",
        },
        look_at="What the agent tells a rank",
    ),
    Question(
        text="A script without checkpoints runs under `--max-restarts=3`. Rank 1 of 4 is killed in epoch 7. What "
        "happens?",
        right="All four start anew, with epoch 0.",
        letter="b",
        why="A group takes in no new member, so the agent starts all ranks again, from the first line of the "
        "script. What was done is the script's business.",
        wrong={
            "Rank 1 starts anew, with epoch 7.": "The agent knows nothing of epochs, and one new rank could not "
            "join the old group. Going on is what a checkpoint is for.",
            "All four start anew, with epoch 7.": "All four, yes. But a start is a start: without a file that "
            "says how far they were, it is epoch 0.",
            "The other three go on without it.": "Their next collective waits for rank 1. The agent ends them "
            "before, and starts all of them again.",
        },
        look_at="Started again",
    ),
    Question(
        text="After epoch number `epoch`, counted from 0, a script saves `epoch + 1`. It is killed, and the file "
        "says 4. What does the new start do?",
        right="`for epoch in range(4, epochs)`: 0 to 3 are done.",
        letter="d",
        why="The number is how many are done, and so also the number of the next one. An epoch done twice or left "
        "out is no error that anybody reports.",
        wrong={
            "`for epoch in range(5, epochs)`: number 4 is done.": "The 4 is one more than the last epoch: 3 was "
            "the last that was done. So epoch 4 would be left out.",
            "`for epoch in range(3, epochs)`: it was killed in 3.": "The file was written after epoch 3 was "
            "complete. To begin there would be to do it twice.",
            "`for epoch in range(epochs)`: a new start, all anew.": "Then weights that have seen four epochs see "
            "all of them once more. The file was loaded in order not to.",
        },
        look_at="Exercise: make it restartable",
    ),
    Question(
        text="Rank 2 waits in a collective to which nobody comes. No rank has raised. What does torchrun do?",
        right="Nothing: all processes are alive.",
        letter="a",
        why="The agent looks whether processes end, and how. A rank that waits is as alive as one that computes; "
        "`python -m ddp_lessons explain` sees the difference.",
        wrong={
            "It ends all ranks after some seconds.": "So it does when a process ends badly. Here none has ended, "
            "well or badly.",
            "It starts rank 2 again by itself.": "It never starts a single rank again, and for a restart somebody "
            "has to have failed.",
            "It names rank 2 as the root cause.": "That table is made when a rank has failed. Waiting is no "
            "failure that an agent could see.",
        },
        look_at="When a rank fails",
    ),
    Question(
        text="A cell says `seen = []`, a later one `seen.append(3)`. The function `f` uses `seen`. What does "
        "`%to_script f f.py` do?",
        right="It writes no file, and names `seen`.",
        letter="c",
        why="A script has only its lines, not the history of a notebook. With `seen = []` in it, it would give "
        "something else than the cell.",
        wrong={
            "It writes `seen = []`, as in its cell.": "Then the script would begin with an empty list where the "
            "notebook has `[3]`, and nobody would notice.",
            "It writes `seen = [3]`, as it is now.": "It would have to guess how that came about, and what it "
            "will be after the next cell. It writes what cells say, or refuses.",
            "It writes both cells, one after the other.": "It follows the names that `f` needs to where they are "
            "made. Changes by other cells have no place there.",
        },
        look_at="From a cell to a script",
    ),
    Question(
        text="A job ends with three tracebacks: rank 2 `KeyError: 'label'`, ranks 0 and 1 `Connection closed by "
        "peer`. Which do you read first?",
        right="That of rank 2, which failed first",
        letter="b",
        why="When rank 2 died its connections were closed, and the others only noticed that. torchrun's table "
        "names it as the root cause.",
        wrong={
            "That of rank 0, which leads the others": "Rank 0 leads nobody. What it says is a consequence: "
            "somebody else went away.",
            "The last one, as with any Python error": "Within one process the last is the nearest. Among "
            "processes the first to fail drags the others along.",
            "Those of 0 and 1, as the network is ill": "The connection was closed because a process ended. With a "
            "sick network nobody would have a `KeyError`.",
        },
        look_at="When a rank fails",
    ),
)
