"""Lesson 0: one function in four processes."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="This cell launches `f` on three ranks and then looks at `box` in the notebook. What is in it?",
        program=Program(
            """
box = []

def f(rank, world_size):
    box.append(rank)
    return len(box)

launch(f, 3)
box
""",
            holds='list(results) == [1, 1, 1] and str(box) == right.strip("`")',
            ranks=3,
        ),
        right="`[]`",
        letter="c",
        why="Each rank appended to its own copy, and that copy was gone when the rank ended. The notebook's list "
        "never changed.",
        wrong={
            "`[0, 1, 2]`": "Threads would do that, because they share memory. Ranks are processes. Each has its own "
            "copy of `box`, and the changed list is not sent back.",
            "`[0]`": "Rank 0 is not part of the notebook. It is a process like the others, with its own copy of `box`.",
            "`[3]`": "Only what `f` returns comes back, as the result of `launch`. Here each rank returns 1, "
            "the length of its own copy.",
        },
        look_at="Change a variable in every process",
    ),
    Question(
        text="Four ranks run this. What does rank 1 return?",
        program=Program(
            """
def f(rank, world_size):
    tensor = torch.ones(1) * 10
    if rank == 3:
        tensor += 5
    dist.all_reduce(tensor)
    return tensor.item()
""",
            holds='str(results[1]) == right.strip("`")',
            ranks=4,
        ),
        right="`45.0`",
        letter="b",
        why="It is 3 * 10 + 15. Every rank gets the sum over all ranks, whatever it passed in.",
        wrong={
            "`40.0`": "That counts rank 1's own value four times. Other ranks may pass in other values: rank 3 "
            "passes in 15.",
            "`10.0`": "Rank 1 passed in 10, but `all_reduce` works in place: afterwards its tensor holds the sum.",
            "`15.0`": "That is the largest value. `all_reduce` can compute it if you ask for `ReduceOp.MAX`. By "
            "default it adds up.",
        },
        look_at="Add up a number across the ranks: all_reduce",
    ),
    Question(
        text="In plain PyTorch, rank 2 of four returns early, but its process lives on. What do ranks 0, 1 and 3 do?",
        program=Program(
            """
def f(rank, world_size):
    tensor = torch.ones(1) * rank
    if rank == 2:
        return
    dist.all_reduce(tensor)
""",
            holds='type(error).__name__ == "WorkersStuck"',
            ranks=4,
        ),
        right="They wait in `all_reduce`, until the timeout after 30 minutes.",
        letter="a",
        why="A collective ends only when every rank has called it. This is a hang. `launch` notices it, stops the "
        "three ranks and reports that rank 2 has returned.",
        wrong={
            "They add up their three tensors and go on.": "A collective never leaves a rank out. It "
            "cannot know that rank 2 will not call it, so it waits for all four.",
            "They raise an error at once, since rank 2 is missing.": "They cannot know that it will never call it. Its "
            "process is still running, and rank 2 may only be late.",
            "They get zeros in place of rank 2's tensor.": "Nothing replaces a missing rank. A silent zero "
            "would be a wrong answer.",
        },
        look_at="See what happens when one rank fails",
    ),
    Question(
        text="`results = launch(f, 4)`, and `f` returns `rank * rank`. What is `results[3]`?",
        program=Program(
            """
def f(rank, world_size):
    return rank * rank
""",
            holds='str(results[3]) == right.strip("`")',
            ranks=4,
        ),
        right="`9`",
        letter="d",
        why="Results come back in the order of the ranks, and ranks are counted from 0.",
        wrong={
            "`4`": "That is rank 2's result. The first of the four ranks is number 0, so `results[3]` belongs to "
            "the last one.",
            "`14`": "That is 0 + 1 + 4 + 9. `launch` does not add up the results. `all_reduce` adds up tensors.",
            "`16`": "That counts the ranks from 1. They are numbered from 0, so the last of four is rank 3.",
        },
        look_at="Change a variable in every process",
    ),
    Question(
        text="Two ranks train with DDP, each on its own half of the digits. What is the same on both after ten steps?",
        right="The weights of the model.",
        letter="c",
        why="Both ranks start with the same weights. In every step DDP gives both the mean of their gradients, so "
        "both optimizers make the same change.",
        wrong={
            "The loss that each rank logs.": "Each rank computes the loss of its own digits, and those differ. Only "
            "the gradients are averaged.",
            "The digits of each batch.": "`DistributedSampler` gives each rank different digits. With the same digits, "
            "the second rank would be of no use.",
            "Nothing: the ranks train two models, which are averaged at the end.": "The average is taken in every "
            "step, and of the gradients. Two models that train apart for a whole run and are averaged once are a "
            "different algorithm.",
        },
        look_at="Train on MNIST with DDP",
    ),
)
