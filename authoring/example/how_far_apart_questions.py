"""Lesson 18: how far apart the ranks are."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="What does this return on rank 0?",
        program=Program(
            """
def f(rank, world_size):
    mine = torch.tensor([2.0 * rank])
    dist.all_reduce(mine, op=dist.ReduceOp.MAX)
    return mine.item()
""",
            holds='str(results[0]) == right.strip("`")',
            ranks=3,
        ),
        right="`4.0`",
        letter="b",
        why="Rank 2 contributes 4.0, the largest value, and an all-reduce gives the result to every rank.",
        wrong={
            "`0.0`": "That is what rank 0 contributed. `all_reduce` overwrites the tensor that you pass to it, "
            "on every rank.",
            "`6.0`": "That is the sum, the default reduce op of `all_reduce`. This program asks for `MAX` instead.",
        },
        look_at="Do the ranks agree?",
    ),
    Question(
        text="After an all-reduce with SUM, all ranks hold the same number. What does it say about their inputs?",
        right="nothing about whether they were equal",
        letter="c",
        why="Every rank gets the same sum, whether the inputs were equal or different.",
        wrong={
            "that they were equal on all ranks": "The result is the same on every rank, whatever the inputs were: "
            "0 + 1 + 2 is 3 on each of the three ranks.",
            "that they were equal on most ranks": "A sum does not count how many ranks agree: 1 + 1 + 1 and "
            "0 + 1 + 2 are both 3.",
        },
        look_at="Do the ranks agree?",
    ),
    Question(
        text="Two ranks call `spread`, with `[1.0, 5.0]` and `[4.0, 5.0]`. What does rank 1 get?",
        program=Program(
            """
def f(rank, world_size):
    largest = torch.tensor([[1.0, 5.0], [4.0, 5.0]][rank])
    smallest = largest.clone()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    dist.all_reduce(smallest, op=dist.ReduceOp.MIN)
    return (largest - smallest).tolist()
""",
            holds='str(results[1]) == right.strip("`")',
        ),
        right="`[3.0, 0.0]`",
        letter="a",
        why="It works element by element: 4 minus 1, and 5 minus 5. The second weight is equal on both ranks.",
        wrong={
            "`[4.0, 0.0]`": "The first weight is 1 on rank 0, and that is its smallest value. So 4 minus 1 "
            "remains, which is 3.",
            "`[-3.0, 0.0]`": "That is the smallest minus the largest. A distance is never negative, on any rank "
            "or for any element.",
        },
        look_at="Exercise: spread",
    ),
    Question(
        text="Ranks 0 and 1 call `spread`, but rank 2 does not. What happens?",
        right="both wait for rank 2",
        letter="b",
        why="An all-reduce is a collective: it completes only when every rank of the group has called it.",
        wrong={
            "they compare themselves": "A collective does not continue with the ranks that called it: all ranks of its "
            "group have to call it.",
            "rank 2 counts as zero": "A missing rank has no default value. Each rank of the group has to contribute "
            "its own tensor.",
        },
        look_at="Exercise: spread",
    ),
    Question(
        text="A training run prints the spread of its weights after each step. At one step it is no longer zero. Why?",
        right="the ranks train different models",
        letter="c",
        why="With equal weights and averaged gradients, every step is the same on all ranks.",
        wrong={
            "the learning rate is too large": "Too large a step spoils the model, but on all ranks in the same "
            "way, so the spread stays zero.",
            "the batches were different": "They always are, and that is why gradients are averaged. After the step, "
            "the weights have to be equal again.",
        },
        look_at="What you have now",
    ),
)
