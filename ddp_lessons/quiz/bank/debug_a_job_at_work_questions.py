"""Lesson 16: what a job that hung or died leaves behind, and how to read it."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="Three ranks log `Connection closed by peer`, and rank 2 logs `KeyError`. Where do you look first?",
        right="At the `KeyError` of rank 2",
        letter="c",
        why="An exception of its own is a cause; the lost connections are what followed from it.",
        wrong={
            "At the network between the machines": "A connection also closes when the process at its other end has "
            "ended, and rank 2 has ended with an exception.",
            "At the rank that torchrun names": "torchrun names the process whose end it saw first, which can be a rank "
            "that failed because of rank 2.",
        },
        look_at="Find the first failure in the log",
    ),
    Question(
        text="torchrun reports the exit code -9 for rank 1 and -15 for the others. What happened?",
        right="Rank 1 was killed, usually because memory ran out",
        letter="a",
        why="-9 comes from outside, often from the out-of-memory killer. -15 is torchrun's own signal.",
        wrong={
            "The others were killed, and rank 1 followed": "-15 means that torchrun ended these ranks, which it does "
            "only after another rank has failed.",
            "All ranks ran out of memory together": "Then all would show -9. With -15, torchrun stopped the others "
            "after it saw that rank 1 was gone.",
        },
        look_at="Find the first failure in the log",
    ),
    Question(
        text="You took all stacks twice. Rank 3 is at two different lines, the others are in `all_reduce`. What is it?",
        right="Rank 3 is late, and the others wait for it",
        letter="b",
        why="A rank that gets to another line makes progress, so the wait of the others can still end.",
        wrong={
            "A hang: the others don't make progress": "The others wait until rank 3 joins them, but rank 3 still "
            "runs, so this wait ends by itself.",
            "A hang: rank 3 skipped the `all_reduce`": "That is possible later, but not shown: rank 3 still runs and "
            "may reach the call.",
        },
        look_at="Take the stack of each rank",
    ),
    Question(
        text="In the dumps, the last calls are 41 on ranks 0 and 1, and 40 on rank 2. What do you look for?",
        right="Why rank 2 did not make call 41",
        letter="c",
        why="The rank with the lower number is behind: the others wait in a call that it has not made.",
        wrong={
            "Why ranks 0 and 1 made one call too many": "This is possible, but first look at the rank that is behind: "
            "a skipped call is the more frequent mistake.",
            "Why call 40 failed on rank 2": "Call 40 is over on ranks 0 and 1, or they would not have made call 41. "
            "It did not fail.",
        },
        look_at="Read a dump",
    ),
    Question(
        text="In a barrier before the first collective of a step, rank 1 waits 1 ms, and ranks 0 and 2 wait 900 ms. "
        "Which rank makes the step slow?",
        right="Rank 1, because it arrives last",
        letter="b",
        why="The others are already in the barrier when the last rank arrives, so it waits the shortest time.",
        wrong={
            "Ranks 0 and 2, because they wait so long": "They wait because they were ready early. A long wait is what "
            "the late rank causes for the others.",
            "None: the network is slow": "A slow network makes the collective itself long on all ranks, and not the "
            "wait of some ranks in front of it.",
        },
        look_at="Late ranks and slow collectives",
    ),
)
