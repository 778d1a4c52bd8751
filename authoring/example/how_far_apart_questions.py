"""Lesson 16: how far ranks are apart."""

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
        why="Rank 2 brings 4.0, the largest, and after an all-reduce every rank has the result.",
        wrong={
            "`0.0`": "That is what rank 0 brought. `all_reduce` writes into the tensor that it was given, "
            "on every rank.",
            "`6.0`": "That is the sum, which `all_reduce` gives where nobody says another reduce op; here one is said.",
        },
        look_at="Is anybody different?",
    ),
    Question(
        text="After an all-reduce with SUM all ranks hold the same number. What does it say of what they brought?",
        right="nothing about whether it was the same",
        letter="c",
        why="Everybody gets the same sum, of equal numbers as well as of different ones.",
        wrong={
            "that it was the same on all ranks": "The result is the same everywhere, whatever came in: 0 + 1 + 2 "
            "is 3 on each of the three ranks.",
            "that it was the same on most ranks": "A sum does not count who agrees with whom: 1 + 1 + 1 and "
            "0 + 1 + 2 are both 3.",
        },
        look_at="Is anybody different?",
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
        why="Each element for itself: 4 minus 1, and 5 minus 5. The second weight is the same on both.",
        wrong={
            "`[4.0, 0.0]`": "That is the largest number of all minus the smallest of one's own; here every "
            "element counts for itself.",
            "`[-3.0, 0.0]`": "That is the smallest minus the largest. A distance is never below zero, on no rank "
            "and for no element.",
        },
        look_at="Exercise: spread",
    ),
    Question(
        text="`spread` is called on ranks 0 and 1, and rank 2 has no time for it. What happens?",
        right="both wait for rank 2",
        letter="b",
        why="An all-reduce is a collective: it ends when every rank of the group has come.",
        wrong={
            "they compare themselves": "A collective does not go on with those who are there: all ranks of its "
            "group have to call it.",
            "rank 2 counts as zero": "Nothing stands in for a rank that does not come. A number has to be sent "
            "by somebody.",
        },
        look_at="Exercise: spread",
    ),
    Question(
        text="A training prints the spread of its weights after each step. At one step it is no longer zero. Then",
        right="the ranks train different models",
        letter="c",
        why="With equal weights and the mean of all gradients every step is the same on all ranks.",
        wrong={
            "the learning rate is too large": "Too large a step spoils the model, but it spoils it on all ranks "
            "in the same way: the spread stays zero.",
            "the batches were different": "They always are; that is why gradients are averaged. After it the "
            "weights have to be equal again.",
        },
        look_at="What you have now",
    ),
)
