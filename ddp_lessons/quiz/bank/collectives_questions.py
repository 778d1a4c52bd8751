"""Lesson 3: calls that all ranks make together."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="Three ranks run this. What does rank 2 return?",
        program=Program(
            """
def f(rank, world_size):
    buffers = [torch.zeros(1)] * 3
    dist.all_gather(buffers, torch.ones(1) * rank)
    return [tensor.item() for tensor in buffers]
""",
            holds='str(results[2]) == right.strip("`")',
            ranks=3,
        ),
        right="`[2.0, 2.0, 2.0]`",
        letter="d",
        why="`* 3` makes a list with the same tensor three times. All values were written into it, and the last one "
        "stayed.",
        wrong={
            "`[0.0, 1.0, 2.0]`": "This would be right with three tensors, as in `[torch.zeros(1) for _ in range(3)]`. "
            "Here the list has the same tensor three times.",
            "`[0.0, 0.0, 0.0]`": "`all_gather` does write into the tensors of the list. Here all three values are "
            "written into the same one.",
            "`[3.0, 3.0, 3.0]`": "A gather adds nothing up. The sum 0 + 1 + 2 = 3 would be the result of an "
            "`all_reduce`.",
        },
        look_at="all_gather and all_reduce: every rank receives",
    ),
    Question(
        text="Three ranks call `dist.reduce(total, dst=0)`. What does `total` contain on rank 1 afterwards?",
        right="Nothing reliable: it is undefined there.",
        letter="c",
        why="Only the destination has a result. On the other ranks, torch may use the tensor for partial sums.",
        wrong={
            "The sum, as it is on rank 0.": "That would be `all_reduce`. `reduce` gives the sum only to `dst`, which "
            "is why it can be cheaper.",
            "The value that rank 1 contributed.": "This is often true, but torch does not guarantee it. The tensor "
            "may contain a part of the sum.",
            "The sum of ranks 0 and 1.": "It may look like that if a partial sum passed through rank 1. It depends "
            "on the backend and the world size, so do not read it.",
        },
        look_at="Gather and reduce: one rank receives",
    ),
    Question(
        text="Rank 0 has four values with the mean 1, and rank 1 has the single value 6. What do the ranks return, "
        "and what is the mean of all five values?",
        program=Program(
            """
def f(rank, world_size):
    values = torch.ones(4) if rank == 0 else torch.tensor([6.0])
    mean = values.mean()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean.item()
""",
            holds='list(results) == [3.5, 3.5] and right == "They return 3.5. The mean is 2."',
        ),
        right="They return 3.5. The mean is 2.",
        letter="a",
        why="The mean of means is (1 + 6) / 2. All five values add up to 10, so their mean is 2. The single 6 counted "
        "as much as the four other values.",
        wrong={
            "They return 2. The mean is 2, too.": "The two would be equal if both ranks had the same number of values. "
            "`AVG` divides by the number of ranks and ignores how many values each mean stands for.",
            "They return 2. The mean is 3.5.": "It is the other way round. `AVG` gives (1 + 6) / 2 = 3.5, and the five "
            "values add up to 10, so their mean is 2.",
            "They return 7. The mean is 3.5.": "7 is the sum of the two means, and `AVG` divides it by two. The mean "
            "of all five values is 10 / 5.",
        },
        look_at="Average over ranks: the mean of means",
    ),
    Question(
        text="In a world of four ranks, ranks 0 and 1 need a group. Which ranks must call `new_group([0, 1])`?",
        right="All four, in the same order as other groups.",
        letter="b",
        why="torch numbers the groups as they are created. If a rank leaves one out, its numbers no longer match those "
        "of the other ranks, and a later group can hang.",
        wrong={
            "Only ranks 0 and 1, because they are its members.": "It may seem to work, but ranks 2 and 3 then number "
            "the next group differently, and it can hang. Only the calls that use a group are for its members.",
            "Only rank 0, which informs the other members.": "No rank creates a group for the others. Every rank makes "
            "the call itself, at the same place in the program.",
            "Any one rank that is a member of the group.": "A rank learns about a group only from its own call of "
            "`new_group`, so each rank has to make it.",
        },
        look_at="Groups: new_group",
    ),
    Question(
        text="Four ranks run this. What do the four return?",
        program=Program(
            """
def f(rank, world_size):
    group = dist.new_group([0, 2])
    tensor = torch.ones(1) * rank
    dist.all_reduce(tensor, group=group)
    return tensor.item()
""",
            holds='str(list(results)) == right.strip("`")',
            ranks=4,
            options={"quiet": True},
        ),
        right="`[2.0, 1.0, 2.0, 3.0]`",
        letter="d",
        why="The members add up 0 + 2. Ranks 1 and 3 are not members, so they get a warning and keep their values.",
        wrong={
            "`[6.0, 6.0, 6.0, 6.0]`": "6 is the sum over the world. The group has two members, and only their values "
            "are added up.",
            "`[2.0, 2.0, 2.0, 2.0]`": "A rank that is not a member does not receive the result either. Ranks 1 and 3 "
            "keep their own values.",
            "`[2.0, 4.0, 2.0, 4.0]`": "For this, ranks 1 and 3 would need a group of their own. Calling a collective "
            "on a group of others only causes a warning.",
        },
        look_at="Groups: new_group",
    ),
    Question(
        text="Three ranks bring `[0, 1, 2]`, `[10, 11, 12]` and `[20, 21, 22]` to a `reduce_scatter`. What does "
        "rank 2 get?",
        program=Program(
            """
def f(rank, world_size):
    mine = 10.0 * rank + torch.arange(3)
    total = torch.zeros(1)
    dist.reduce_scatter_single(total, mine)
    return total.item()
""",
            holds="results[2] == 36 == int(right)",
            ranks=3,
        ),
        right="36",
        letter="a",
        why="Part 2 of every rank goes to rank 2 and is added up there, which gives 2 + 12 + 22.",
        wrong={
            "63": "63 is 20 + 21 + 22, rank 2's own row. Rank 2 gets part 2 of every rank, which is a column and not "
            "a row.",
            "2, 12 and 22": "That is `all_to_all`, which only delivers the three parts. `reduce_scatter` also adds "
            "them up.",
            "30, 33 and 36": "Having all three sums on every rank would be `all_reduce`. `reduce_scatter` gives each "
            "rank only one of them.",
        },
        look_at="reduce_scatter and all_to_all: every rank gets a part",
    ),
)
