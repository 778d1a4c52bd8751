"""Lesson 4: three ways to add up, and what each costs."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="A ring all-reduce of a tensor of 80 MB. How many bytes does each rank send with 4 ranks, and about "
        "how many with 1000?",
        right="120 MB with 4, almost 160 MB with 1000.",
        letter="b",
        why="2 (N - 1) / N tensors: 1.5 of them with 4 ranks, 1.998 with 1000. It never exceeds 2, however many ranks.",
        wrong={
            "120 MB with 4, 80 GB with 1000.": "It looks as if each further rank added a tensor. But a chunk is 1 "
            "/ N of it: more steps, each of them smaller.",
            "480 MB with 4, 160 GB with 1000.": "That counts whole tensors in each of the 2 (N - 1) steps. What "
            "goes round are chunks of 1 / N.",
            "160 MB with 4, 160 MB with 1000.": "The limit for very many ranks is 2 tensors, but with few ranks "
            "it is clearly less: 2 x 3 / 4 = 1.5 with four.",
        },
        look_at="Third way: the ring, in chunks",
    ),
    Question(
        text="Somebody's ring passes whole tensors on, and adds each to the sum. The answer is right on every "
        "rank. What shows that it is no ring all-reduce?",
        right="The bytes: each of 4 ranks sends 3 tensors, not 1.5.",
        letter="a",
        why="It sends N - 1 whole tensors, so it gets worse with every rank. No test of the answer would notice.",
        wrong={
            "The neighbours: it sends to other ranks than a ring does.": "They are the right ones: each sends to "
            "the next and receives from the one before. Only what it sends is too much.",
            "The sum: one rank's numbers are counted one time too often.": "Every tensor passes every rank once, "
            "so the sum is right. That is what makes this mistake last.",
            "The steps: it needs far more of them than a ring would.": "It even needs fewer, N - 1 in place of 2 "
            "(N - 1). But in each of them a whole tensor travels.",
        },
        look_at="Exercise: the ring",
    ),
    Question(
        text="4 ranks, a latency of 1 ms, 100 MB per second. Which way is fastest for a tensor of 1 kB, and why?",
        right="The tree: it has the fewest messages in a row.",
        letter="d",
        why="A message of 1 kB is nearly all latency. Tree: 2 x 2 messages one after the other; star and ring: 6.",
        wrong={
            "The ring: each of its messages is the smallest.": "Its bytes are fewest, but they cost next to "
            "nothing here. Its six messages in a row cost 6 ms.",
            "The star: rank 0 reaches everybody without detours.": "Rank 0 takes part in six messages, and they "
            "come one after the other: 6 ms as well.",
            "All alike: the same 1 kB is added up in each.": "The adding is nothing. What differs is how many "
            "messages have to wait for each other.",
        },
        look_at="What it costs",
    ),
    Question(
        text="Star, tree and ring on 4 ranks: which of them moves the most bytes in all, over all ranks together?",
        right="None of them: all move six tensors in all.",
        letter="c",
        why="2 (N - 1) tensors each. The ring does not move less; it spreads the work evenly, and all ranks work "
        "at once.",
        wrong={
            "The star, since all of it goes through rank 0.": "Through rank 0, yes, and that is why it is slow. "
            "But three tensors in and three out are six, as in the ring.",
            "The tree, since sums travel up and down again.": "Up and down are three tensors each way: six, as "
            "with the others.",
            "The ring, since every rank sends all the time.": "They do send all the time, but only chunks: 4 "
            "ranks x 1.5 tensors are six.",
        },
        look_at="Measure it here",
    ),
    Question(
        text="Four ranks cut a tensor of five numbers with `tensor.chunk(4)`. How many chunks are there?",
        program=Program(
            """
def f(rank, world_size):
    return [chunk.numel() for chunk in torch.ones(5).chunk(4)]
""",
            holds="results[0] == [2, 2, 1] and right.startswith('Three')",
            ranks=1,
        ),
        right="Three, of 2, 2 and 1 numbers.",
        letter="b",
        why="`chunk(4)` makes at most four, of ceil(5 / 4) = 2 each, until nothing is left. Rank 3 looks for a "
        "chunk that is not there; `tensor_split(4)` always makes four.",
        wrong={
            "Four, of 2, 1, 1 and 1 numbers.": "That is `tensor_split(4)`. `chunk` makes its pieces equally long, "
            "rounded up, and then there may be fewer.",
            "Five, of 1 number in each of them.": "`chunk(4)` asks for at most four chunks. Chunks of one number "
            "are `split(1)`.",
            "Nothing: it raises, for 5 cannot be divided by 4.": "Neither function complains. That is the trap: the "
            "missing chunk is only noticed on the last rank.",
        },
        look_at="Sizes that do not divide",
    ),
    Question(
        text="On two cores, four ranks measure star, tree and ring with 16 MB. All three lie close together, near "
        "the star's line. Why does the ring not win?",
        right="All share the cores, so only the bytes in all count.",
        letter="c",
        why="The ring's formula assumes a wire and a processor for every rank. Where two transfers at once take "
        "as long as one after the other, nothing is gained by spreading the work.",
        wrong={
            "A ring in Python is too slow to show what it can.": "For 16 MB the time goes into moving and adding "
            "bytes, compiled code in all three. gloo's own ring is hardly faster there.",
            "With 4 ranks a ring sends more than a star does.": "In all they send the same, and the busiest rank "
            "sends half of what the star's does.",
            "The formulas are wrong for tensors of that size.": "With slow cables, where each rank has its own, "
            "the points lie on the lines. The formulas hold where their assumptions do.",
        },
        look_at="Measure it here",
    ),
)
