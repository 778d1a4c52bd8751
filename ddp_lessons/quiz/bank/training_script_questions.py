"""Lesson 9: write a training script."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="A script shuffles with `DistributedSampler` and never calls `set_epoch`. What happens?",
        right="Every epoch uses the same order. No error appears.",
        letter="c",
        why="The sampler shuffles with its seed plus the number of the epoch, which stays 0. Every rank still gets "
        "its own part.",
        wrong={
            "The second epoch raises an error, because no index is left.": "A sampler makes a new list of indices "
            "whenever it is iterated over. It is never used up.",
            "The ranks get overlapping parts of the data from epoch 2 on.": "All ranks use the same order in each "
            "epoch, so their parts stay disjoint. Only the order never changes.",
            "The order changes, because each epoch draws new numbers.": "The sampler has a generator of its own, "
            "which it seeds again for each epoch. It ignores the other random numbers.",
        },
        look_at="Exercise: share the images",
    ),
    Question(
        text="Rank 2 of four receives SIGTERM, saves its state and leaves the training loop. What happens?",
        right="The other ranks hang in their next collective.",
        letter="a",
        why="A collective needs every rank of the group. The handler should only note the signal, and all ranks should "
        "decide together, for example with an `all_reduce` of the notes.",
        wrong={
            "The other ranks go on with three ranks.": "A process group keeps its size. Its collectives wait for all "
            "four ranks.",
            "DDP stops the other ranks at the same step.": "DDP doesn't know about the signal. It waits for rank 2's "
            "gradients.",
            "The other ranks also receive the signal.": "The cluster sends it to the processes that it wants to stop, "
            "which may be those of one machine only.",
        },
        look_at="Stop together: SIGTERM and early stopping",
    ),
    Question(
        text="Each step has four parts, and `clip_grad_norm_` runs after each part's `backward()`, with `no_sync` "
        "around the first three. What is wrong?",
        right="Each rank scales its own sum instead of the average.",
        letter="d",
        why="Inside `no_sync`, gradients are still local, so each rank scales by a different factor. Clip once, after "
        "the last `backward()` has averaged.",
        wrong={
            "Nothing: clipping several times has no further effect.": "Gradients are added after each clipping, so "
            "the next one scales a different sum. The result is a different gradient.",
            "The ranks hang, because clipping is a collective.": "It computes the norm of this rank's gradients and "
            "sends nothing. With DDP, they are averaged already if you clip at the right place.",
            "DDP reports that the gradients were changed.": "DDP doesn't notice that a gradient was changed. It "
            "averages what it finds after the last backward pass.",
        },
        look_at="Clip the gradients, and step the schedule",
    ),
    Question(
        text="Two ranks train under `torch.autocast` with bfloat16. How much smaller are DDP's messages?",
        right="Not at all: the gradients are float32.",
        letter="b",
        why="`autocast` makes bfloat16 copies of the weights. A gradient has the dtype of its parameter, and DDP "
        "sends gradients.",
        wrong={
            "Half as large: everything is bfloat16.": "Only the outputs of some operations are bfloat16. The weights "
            "stay float32, and so do their gradients.",
            "Half as large, but only after the first step.": "DDP rebuilds its buckets after the first step, but it "
            "doesn't change the dtype of the gradients in them.",
            "Three quarters: the weights stay float32.": "DDP doesn't send weights while it trains. It sends "
            "gradients, and all of those are float32.",
        },
        look_at="Mixed precision: which values become bfloat16",
    ),
    Question(
        text="In the traces, rank 0 spends 90 ms of each step in `all_reduce`, and rank 1 only 5 ms. Which rank is "
        "the straggler?",
        right="Rank 1. It comes last, so it doesn't wait.",
        letter="c",
        why="A collective ends when the last rank has joined it. The rank with the shortest calls is the one that the "
        "others wait for.",
        wrong={
            "Rank 0. Its network connection is slower.": "Both ranks take part in the same calls, which end at about "
            "the same time on both. A slow link would show on both ranks.",
            "Rank 0. It has more gradients to send.": "All ranks of DDP send the same number of bytes, because "
            "they have the same model.",
            "Neither. The two values add up to one step.": "The ranks work at the same time, so their times don't add "
            "up. The difference is waiting time of rank 0.",
        },
        look_at="Profile a step, and find the straggler",
    ),
    Question(
        text="What does rank 0 return?",
        right="`3`",
        letter="a",
        why="Only the last of three parts is outside of `no_sync` in each step, so there is one message per step. "
        "Three steps make three.",
        wrong={
            "`9`": "This is the number without `no_sync`, where each `backward()` communicates. Here, two of three "
            "parts send nothing.",
            "`1`": "The gradients are averaged once per optimizer step, because otherwise the ranks would take "
            "different steps. There are three steps.",
            "`6`": "It is the other way around. Inside of `no_sync`, `backward()` sends nothing, and two of three "
            "parts are inside.",
        },
        look_at="Exercise: accumulate gradients with `no_sync`",
        program=Program(
            code="""
from contextlib import nullcontext

def f(rank, world_size):
    model, sent = DDP(nn.Linear(2, 1)), []
    def hook(state, bucket):
        sent.append(bucket)
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0])
    model.register_comm_hook(None, hook)
    for step in range(3):
        for part in range(3):
            with nullcontext() if part == 2 else model.no_sync():
                model(torch.ones(1, 2)).sum().backward()
    return len(sent)
""",
            holds="list(results) == [3, 3] and right == '`3`'",
        ),
    ),
)
