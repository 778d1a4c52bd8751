"""Lesson 3: calls that all ranks make together."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="Three ranks run this. What does rank 2 return?",
        program=Program(
            """
def f(rank, world_size):
    room = [torch.zeros(1)] * 3
    dist.all_gather(room, torch.ones(1) * rank)
    return [tensor.item() for tensor in room]
""",
            holds='str(results[2]) == right.strip("`")',
            ranks=3,
        ),
        right="`[2.0, 2.0, 2.0]`",
        letter="d",
        why="`* 3` makes a list with one tensor in it three times. All was written into that one, and the last stayed.",
        wrong={
            "`[0.0, 1.0, 2.0]`": "That is what it should be, and what `[torch.zeros(1) for _ in range(3)]` gives. "
            "Here the three places are one and the same tensor.",
            "`[0.0, 0.0, 0.0]`": "The tensor was written to: `all_gather` fills what it is given. It was only the "
            "same one three times.",
            "`[3.0, 3.0, 3.0]`": "Nothing is added up by a gather; 0 + 1 + 2 = 3 would be an `all_reduce`.",
        },
        look_at="Everybody receives: all_gather and all_reduce",
    ),
    Question(
        text="`dist.reduce(total, dst=0)` on three ranks. What may be read from `total` on rank 1 afterwards?",
        right="Nothing: there it is undefined.",
        letter="c",
        why="Only the destination has an answer. Elsewhere torch may have used the tensor as scratch paper.",
        wrong={
            "The sum, as it is on rank 0.": "That is `all_reduce`. `reduce` gives the sum to `dst` alone, and "
            "this is why it may be cheaper.",
            "What rank 1 itself brought.": "Often so, and therefore believed. But torch promises nothing: it may "
            "have left a part of the sum in it.",
            "The sum of ranks 0 and 1.": "It may look like that, if parts of the sum passed through rank 1. What "
            "is left depends on backend and world size, so do not read it.",
        },
        look_at="One rank receives: gather and reduce",
    ),
    Question(
        text="Rank 0 has 4 numbers whose mean is 1, rank 1 has 1 number, a 6. Both take their mean and "
        "`all_reduce` it with AVG. What do they hold, and what is the mean of all five?",
        program=Program(
            """
def f(rank, world_size):
    numbers = torch.ones(4) if rank == 0 else torch.tensor([6.0])
    mean = numbers.mean()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean.item()
""",
            holds='list(results) == [3.5, 3.5] and right == "3.5; the mean of all is 2"',
        ),
        right="3.5; the mean of all is 2",
        letter="a",
        why="The mean of means is (1 + 6) / 2. All five add up to 10, so their mean is 2: the 6 counted as much "
        "as four numbers.",
        wrong={
            "2; the mean of all is 2, too": "So it would be if both had equally many numbers. AVG divides by the "
            "ranks, and knows nothing of how many numbers are behind a mean.",
            "2; the mean of all is 3.5": "The other way round: AVG gives (1 + 6) / 2 = 3.5, and the five numbers "
            "add up to 10, so their mean is 2.",
            "7; the mean of all is 3.5": "7 is the sum of the two means; AVG divides it by two. And the mean of "
            "all five numbers has to count each of them: 10 / 5.",
        },
        look_at="The mean of means",
    ),
    Question(
        text="Ranks 0 and 1 shall be a group of their own, of four. Who has to call `new_group([0, 1])`?",
        right="All four, and in the same order as other groups.",
        letter="b",
        why="torch numbers groups as they are made. A rank that leaves one out counts differently from then on, "
        "and the others wait for it.",
        wrong={
            "Only ranks 0 and 1, for they alone are in it.": "It sounds fair, and hangs: making a group is itself "
            "done together by the whole world. Only using it is for its members.",
            "Rank 0 alone, which tells the other members.": "There is no such leader. Every rank makes the group "
            "for itself, at the same place of the program.",
            "Any one rank, as long as it is a member of it.": "Nobody is told of a group by somebody else. Each "
            "rank has to make the call, members or not.",
        },
        look_at="Groups",
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
        why="0 + 2 in the group. Ranks 1 and 3 are outside: they get a warning, no error, and keep what they had.",
        wrong={
            "`[6.0, 6.0, 6.0, 6.0]`": "That is the sum over the world. The group has two members, and only these "
            "are added up.",
            "`[2.0, 2.0, 2.0, 2.0]`": "Who is not in the group takes no part, also not as a reader: ranks 1 and 3 "
            "keep their own values.",
            "`[2.0, 4.0, 2.0, 4.0]`": "That would need a second group of ranks 1 and 3. The call with a group "
            "that one is not in does nothing but warn.",
        },
        look_at="Groups",
    ),
    Question(
        text="Three ranks bring `[0, 1, 2]`, `[10, 11, 12]` and `[20, 21, 22]` to a `reduce_scatter`. What does "
        "rank 2 get?",
        program=Program(
            """
def f(rank, world_size):
    mine = 10.0 * rank + torch.arange(3)
    total = torch.zeros(1)
    dist.reduce_scatter(total, list(mine.split(1)))
    return total.item()
""",
            holds="results[2] == 36 == int(right)",
            ranks=3,
        ),
        right="36",
        letter="a",
        why="Everybody's part 2 goes to rank 2 and is added up there: 2 + 12 + 22.",
        wrong={
            "63": "That is 20 + 21 + 22, rank 2's own row. The parts of all ranks with its number are added up: a "
            "column, not a row.",
            "2, 12 and 22": "That is `all_to_all`, which delivers the three parts. `reduce_scatter` adds them up "
            "as well.",
            "30, 33 and 36": "All three sums on every rank is `all_reduce`. Of the sums, `reduce_scatter` gives "
            "each rank only its own.",
        },
        look_at="Everybody gets a share: reduce_scatter and all_to_all",
    ),
)
