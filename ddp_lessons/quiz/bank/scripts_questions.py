"""Lesson 12: scripts, torchrun and restarts."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="Two agents start four ranks each. What are `RANK`, `LOCAL_RANK` and `GROUP_RANK` of the second rank "
        "on the second node?",
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
        text="Rank 2 waits in a collective that no other rank calls. No rank has failed, and the timeout is far away. "
        "What does torchrun do?",
        right="Nothing: all processes are alive.",
        letter="a",
        why="The agent only checks whether processes have ended. `python -m ddp_lessons explain` also sees which rank "
        "waits, and where.",
        wrong={
            "It ends all ranks after some seconds.": "It does that when one process has failed. Here all of them are "
            "alive, and the agent can't see that one waits.",
            "It restarts rank 2, but no other rank.": "torchrun never restarts a single rank. It restarts all of them, "
            "and only after one has failed.",
            "It names rank 2 as the root cause.": "torchrun prints that table after a rank has failed. For the agent, "
            "a rank that waits is a healthy one.",
        },
        look_at="When a rank fails: find the root cause",
    ),
    Question(
        text="One cell says `seen = []`, and a later one `seen.append(3)`. The function `f` uses `seen`. What does "
        "`%to_script f f.py` do?",
        right="It writes no file, and names `seen`.",
        letter="c",
        why="A script contains only its own lines, so with `seen = []` it would give another result than the notebook.",
        wrong={
            "It writes `seen = []`, as in the cell.": "Then the script would start with an empty list although the "
            "notebook has `[3]`, and no error would tell you.",
            "It writes `seen = [3]`, as it is now.": "`%to_script` copies what cells say. It doesn't turn values into "
            "code, because the next cell could change them again.",
            "It writes both cells, one after the other.": "It copies the cell that defines a name. It can't tell "
            "which of the later changes the function depends on.",
        },
        look_at="Generate a script with `%to_script`",
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
)
