"""Lesson 10: the same accuracy on more ranks."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="One rank trains with 32 samples per step and a learning rate of 0.1. Now 8 ranks take 32 samples each. "
        "What does linear scaling say?",
        right="A rate of 0.8, reached after a warm-up",
        letter="b",
        why="The global batch is 8 times as large, so there are 8 times fewer steps, and each goes 8 times as far.",
        wrong={
            "A rate of 0.1: each rank still has 32 samples": "The learning rate belongs to the global batch. At "
            "0.1, the same epochs have 8 times fewer steps, all of the same length.",
            "A rate of 0.0125: 8 ranks step at once": "The ranks make one step together, with the mean of their "
            "gradients. It isn't repeated 8 times.",
            "A rate of 0.28: the noise shrinks by sqrt(8)": "That is square root scaling, another rule. Linear "
            "scaling replaces 8 small steps by a single long one.",
        },
        look_at="Global batch and learning rate: linear scaling, warm-up",
    ),
    Question(
        text="You want to know whether 64 ranks with 8 samples each reach the same accuracy. The network has no batch "
        "normalization. Do you need 64 ranks?",
        right="No: one process with batches of 512 takes the same steps.",
        letter="d",
        why="The mean of the ranks' gradients is the gradient of the global batch. Only rounding differs.",
        wrong={
            "Yes: 64 ranks have 64 times the noise in their gradients.": "The noise belongs to the mean over 512 "
            "samples. It doesn't matter which process computed which of them.",
            "Yes: only real ranks show what averaging changes.": "Averaging changes nothing except rounding, as the "
            "comparison of two ranks with one process shows.",
            "No: one process with batches of 8 takes the same steps.": "That process takes 64 times as many steps. "
            "The global batch is what has to be equal, and it has 512 samples.",
        },
        look_at="Global batch and learning rate: linear scaling, warm-up",
    ),
    Question(
        text="The batches are 1 and 3 on rank 0, 5 and 7 on rank 1, and a BatchNorm moves its running mean from 0 by a "
        "tenth of the way. What do the ranks return?",
        right="`[0.2, 0.6]`",
        letter="a",
        why="Each rank updates its running mean from its own samples, whose means are 2 and 6. DDP broadcasts buffers "
        "only before the next forward pass.",
        wrong={
            "`[0.4, 0.4]`": "That would be the mean over all four samples, as SyncBatchNorm computes it. BatchNorm "
            "sees only the samples of its own rank.",
            "`[0.2, 0.2]`": "Rank 0's buffers are broadcast before a forward pass. This program ends before there is "
            "a second one.",
            "`[0.0, 0.0]`": "In training mode, the forward pass itself updates the running mean. It needs no "
            "optimizer step.",
        },
        look_at="BatchNorm on a divided batch: SyncBatchNorm, GroupNorm",
        program=Program(
            code="""
def f(rank, world_size):
    model = DDP(nn.BatchNorm1d(1))
    model(torch.tensor([[[1.0], [3.0]], [[5.0], [7.0]]])[rank])
    return round(model.module.running_mean.item(), 2)
""",
            holds='str(list(results)) == right.strip("`")',
        ),
    ),
    Question(
        text="Rank 0 has 100 tokens and rank 1 has 300. Each takes the mean loss over its own tokens, and DDP averages "
        "the gradients. What is wrong?",
        right="A token on rank 0 counts three times as much.",
        letter="c",
        why="Each rank has half of the weight, divided among 100 or 300 tokens. Sum the losses and divide by all 400 "
        "tokens.",
        wrong={
            "A token on rank 1 counts three times as much.": "It is the other way around: rank 1's half of the weight "
            "is divided among more tokens.",
            "The gradient is twice as large as it should be.": "Half of one mean plus half of another has the right "
            "size. The weights of the tokens are wrong.",
            "Nothing, if both ranks have equally many sentences.": "The loss is a mean over tokens, not over "
            "sentences. Equal numbers of sentences don't make equal numbers of tokens.",
        },
        look_at="Mean of means: unequal numbers of tokens",
    ),
    Question(
        text="Four ranks read an `IterableDataset` that ignores the rank, each with 3 loader workers. How many times "
        "does each sample arrive in an epoch?",
        right="12 times, once for every worker of every rank",
        letter="d",
        why="Each worker of each rank has its own copy of the dataset and reads it from the beginning.",
        wrong={
            "Once, because the workers share one queue": "Each worker sends what it has read to its rank's queue. "
            "Nothing tells a worker what the others have read.",
            "4 times, because workers of one rank share the work": "For a dataset with indices, the loader hands them "
            "out. A stream has none, so each worker reads all of it.",
            "3 times, because DDP divides the data by rank": "DDP averages gradients and never touches the data. A "
            "sampler divides data, and it needs indices.",
        },
        look_at="IterableDataset: divide a stream without indices",
    ),
    Question(
        text="All ranks have equal weights after every step, and the loss falls. What do you know?",
        right="The ranks take the same steps, right or wrong.",
        letter="b",
        why="Ranks that all sum instead of averaging, or all read the same samples, also agree. Compare with one "
        "process.",
        wrong={
            "The training is the one that one process would do.": "Five functions of this lesson agree on all ranks, "
            "and none of them trains as one process does.",
            "The ranks have different samples in each step.": "If all ranks read the same samples, their gradients "
            "are equal, and so are the weights. Count the samples.",
            "The gradients are divided by the number of ranks.": "Sums are equal on all ranks, too, like means. The "
            "step is only longer by the number of ranks.",
        },
        look_at="Sabotage: which rule is broken?",
    ),
)
