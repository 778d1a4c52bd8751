"""Lesson 4: star, tree and ring, and what each costs."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="A ring all-reduce of a tensor of 80 MB. How many bytes does each rank send with 4 ranks, and "
        "about how many with 1000?",
        right="120 MB with 4, almost 160 MB with 1000",
        letter="b",
        why="Each rank sends 2 (N - 1) / N tensors, which is 1.5 with 4 ranks and 1.998 with 1000. It never exceeds 2.",
        wrong={
            "120 MB with 4, 80 GB with 1000": "This assumes that each additional rank adds a tensor. But a chunk is "
            "1 / N of the tensor, so there are more steps, and each sends less.",
            "480 MB with 4, 160 GB with 1000": "This counts a whole tensor in each of the 2 (N - 1) steps. But each "
            "step sends a chunk, which is 1 / N of the tensor.",
            "160 MB with 4, 160 MB with 1000": "Two tensors are the limit for very many ranks. With 4 ranks it is "
            "clearly less, 2 x 3 / 4 = 1.5 tensors.",
        },
        look_at="Ring: send chunks to the next rank",
    ),
    Question(
        text="A ring passes on whole tensors and adds each of them to the sum. The result is right on every rank. "
        "What shows that this is not a ring all-reduce?",
        right="The bytes: each of 4 ranks sends 3 tensors, not 1.5",
        letter="a",
        why="Each rank sends N - 1 whole tensors, so it gets worse with every rank. A test of the result would not "
        "notice.",
        wrong={
            "The neighbors: it sends to other ranks than a ring does": "Each rank does send to the next one and "
            "receive from the previous one. Only the amount that it sends is too large.",
            "The sum: one rank's values are counted one time too often": "Every tensor passes every rank exactly "
            "once, so the sum is right. That is why this mistake is easy to miss.",
            "The steps: it needs far more of them than a ring would": "It even needs fewer, N - 1 instead of 2 "
            "(N - 1). But each step sends a whole tensor.",
        },
        look_at="A correct sum that sends too many bytes",
    ),
    Question(
        text="With 4 ranks, a latency of 1 ms and 100 MB per second, which of this lesson's algorithms is fastest for "
        "a tensor of 1 kB, and why?",
        right="The tree: it has the fewest messages in a row",
        letter="d",
        why="A message of 1 kB is nearly all latency. The tree has 4 messages in a row, the star and the ring have 6.",
        wrong={
            "The ring: each of its messages is the smallest": "Its messages are the smallest, but the bytes cost next "
            "to nothing here. Its six messages in a row take 6 ms.",
            "The star: rank 0 reaches every rank without detours": "Rank 0 takes part in six messages, one after the "
            "other, so the star takes about 6 ms as well.",
            "All alike: each of them adds up the same 1 kB": "The adding takes almost no time. The difference is "
            "how many messages follow one after the other.",
        },
        look_at="Cost model: latency and bandwidth",
    ),
    Question(
        text="Star, tree and ring on 4 ranks. Which of them sends the most bytes in total, over all ranks?",
        right="None of them: each sends six tensors in total",
        letter="c",
        why="Each sends 2 (N - 1) tensors. The ring does not send less. It spreads the bytes evenly, so that all ranks "
        "can send at the same time.",
        wrong={
            "The star, since everything goes through rank 0": "That makes rank 0 the bottleneck. But three tensors in "
            "and three tensors out are six, as in the ring.",
            "The tree, since the sums travel there and back": "Three tensors travel there and three travel back. That "
            "makes six, as in the star and the ring.",
            "The ring, since every rank sends all the time": "Every rank does send all the time, but only chunks. 4 "
            "ranks x 1.5 tensors are six tensors.",
        },
        look_at="Ring: send chunks to the next rank",
    ),
    Question(
        text="On a machine with two cores, four ranks run star, tree and ring with 16 MB. The measured times are close "
        "together. Why is the ring not faster?",
        right="All share the cores, so only the total bytes count",
        letter="c",
        why="The ring's formula assumes a link and a core for every rank. If two transfers at the same time take as "
        "long as one after the other, spreading the bytes gains nothing.",
        wrong={
            "A ring in Python is too slow to show what it can do": "With 16 MB, nearly all of the time is spent in "
            "sending and adding, which is compiled code in all three.",
            "With 4 ranks, a ring sends more than a star does": "In total they send the same, and the busiest rank "
            "of the ring sends half as much as the star's.",
            "The formulas are wrong for tensors of that size": "With a simulated link for every rank, the points "
            "follow the lines. The formulas hold where their assumptions do.",
        },
        look_at="Measure star, tree and ring on this machine",
    ),
)
