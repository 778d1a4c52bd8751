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
        why="Each rank appended to a copy of its own, and that copy ended with the rank. The notebook's list was "
        "never touched.",
        wrong={
            "`[0, 1, 2]`": "That is what threads would do, which share one memory. Ranks are processes: each has "
            "a copy of `box`, and nobody sends what was appended.",
            "`[0]`": "Rank 0 is no part of the notebook, although it is the first. It is a process like the "
            "others, with a copy of its own.",
            "`[3]`": "The number of elements is not what travels, either: only what `f` returns comes back, as "
            "the answer of the launch, and here each rank returns 1.",
        },
        look_at="Four memories",
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
        why="Three tens and a fifteen. Every rank gets the sum over all, whatever it brought itself.",
        wrong={
            "`40.0`": "It is tempting to count one's own value four times. What the others bring may differ: rank "
            "3 brings 15.",
            "`10.0`": "Rank 1 did bring a 10, but `all_reduce` works in place: afterwards its tensor holds the sum.",
            "`15.0`": "That would be the largest value. `all_reduce` can do that if it is asked to; by default it "
            "adds up.",
        },
        look_at="Let them talk",
    ),
    Question(
        text="Rank 2 of four returns early, but its process lives on. What do ranks 0, 1 and 3 do if nobody looks on?",
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
        right="They wait in `all_reduce` for one who never comes.",
        letter="a",
        why="A collective ends only when every rank has called it. `launch` notices, stops the three, and says "
        "that rank 2 has returned.",
        wrong={
            "They add up what the three of them have and go on.": "That would be a sum over three, and nobody "
            "asked for that: a collective cannot know that a rank will never come, so it waits for all.",
            "They raise an error at once, since rank 2 is missing.": "They cannot know that it will not come: its "
            "process is still there, and rank 2 may only be late.",
            "They get zeros in the place of rank 2's tensor.": "Nobody fills in for a missing rank. A silent zero "
            "would be a wrong answer; waiting is what the call promises.",
        },
        look_at="Break one",
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
        why="Answers come back in the order of ranks, whoever was ready first, and ranks are counted from 0.",
        wrong={
            "`4`": "That is rank 2's answer. There are four ranks, but the first is number 0, so `results[3]` is "
            "the last of them.",
            "`14`": "That is 0 + 1 + 4 + 9. `launch` does not add up what is returned; adding is what "
            "`all_reduce` is for.",
            "`16`": "That would be a fourth rank counted from 1. Ranks are numbered from 0, so the last of four is 3.",
        },
        look_at="Four memories",
    ),
    Question(
        text="With `%%ranks 4` a cell sets `mine = rank`. The next cell for the same ranks shows `mine`. What do "
        "you see?",
        right="The ranks' own values: 0, 1, 2 and 3.",
        letter="c",
        why="These ranks stay between cells, with their variables. Each has its own `mine`; the notebook has none.",
        wrong={
            "An error, for `mine` ended with its cell.": "So it would be after `launch`, whose ranks are fresh "
            "each time. The ranks of `%%ranks` stay until they are stopped.",
            "Four times 3, for the last rank set it last.": "That would need one variable for all. Four processes "
            "have four variables of that name.",
            "Four times the value that the notebook has.": "The notebook has no `mine` at all. What is to be on "
            'every rank is put there: `ranks["mine"] = 5`.',
        },
        look_at="Ranks that stay",
    ),
)
