"""Lesson 12: the capstone."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="Two ranks have 30 and 10 tokens in a batch. Each divides its summed loss by its own number, and DDP "
        "averages the gradients. What is wrong?",
        right="The 10 tokens weigh three times as much per token as the 30.",
        letter="b",
        why="Each rank counts one half, however many tokens it has. Divide by the tokens of the global batch on every "
        "rank, so that each token has the same weight.",
        wrong={
            "Nothing: DDP weights the ranks by their samples.": "DDP knows nothing of samples or tokens. It adds the "
            "gradients of all ranks and divides by `world_size`.",
            "The gradient is twice as large as with one process.": "Averaging keeps the size. The direction is wrong, "
            "because the tokens of the rank with fewer tokens count too much.",
            "The ranks hang, as their tensors have different shapes.": "Gradients have the shapes of the parameters, "
            "which are equal on all ranks. The shapes of the inputs don't matter.",
        },
        look_at="Read the plain program",
    ),
    Question(
        text="301 test sequences are evaluated on 2 ranks, and the script reports `tested` = 302. What happened?",
        right="The data was padded: one sequence was counted twice.",
        letter="d",
        why="A `DistributedSampler` repeats samples so that all ranks have the same number. Take every "
        "`world_size`-th sequence instead, and add up the counts.",
        wrong={
            "Rank 0 has counted its own sum twice.": "Then `tested` would be about one and a half times as large. One "
            "sequence too many points to padding.",
            "One rank had not finished when the sum was made.": "An `all_reduce` completes only when every rank has "
            "called it with its count. A missing count would make the sum smaller.",
            "A rounding error in the sum over the ranks.": "Small integers are exact in float32 and float64, so sums "
            "of a few hundred samples have no rounding error.",
        },
        look_at="The contract",
    ),
    Question(
        text="A script is killed and resumed. The weights at the end differ slightly from those of an undisturbed "
        "run. What is most likely missing from the checkpoint?",
        right="The optimizer state, such as the momentum",
        letter="a",
        why="Without momentum the first steps after the resume are too small. The loss curve looks fine, so only a "
        "comparison of the weights shows it.",
        wrong={
            "The gradients of the last step before the kill": "A checkpoint at the end of an epoch needs no gradients: "
            "they are set to zero after each step and computed again.",
            "The process group and the ranks' numbers": "torchrun starts the ranks again, and they form a new group. A "
            "checkpoint that stores ranks could not resume on fewer of them.",
            "The training data of the epochs that are done": "The order of an epoch depends on its number only, so the "
            "resumed run makes the same order again.",
        },
        look_at="The contract",
    ),
    Question(
        text="Every rank trains on the whole global batch, and DDP averages the gradients. How do you notice?",
        right="The weights are right, but more ranks are no faster.",
        letter="c",
        why="The mean of equal gradients is the same gradient, so the training run is right and the work is wasted. "
        "Count the samples of each rank, or measure throughput.",
        wrong={
            "The loss falls more slowly than with one process.": "All ranks compute the same gradient, and its mean is "
            "that gradient. Each step is that of one process.",
            "DDP reports that the ranks have the same samples.": "DDP does not look at samples. No error appears, and "
            "that makes this mistake expensive.",
            "The gradients are too large by `world_size`.": "DDP divides the sum of the gradients by `world_size`. "
            "With a hand-written sum, this would be true.",
        },
        look_at="What a good solution has",
    ),
    Question(
        text="Rank 0 saves a checkpoint, and directly afterwards rank 1 reads it. On your laptop it works. Is it safe?",
        right="No: rank 1 may read an old file or none, if rank 0 is slow.",
        letter="d",
        why="Nothing makes rank 1 wait for a file. Put a `dist.barrier()` between writing and reading, or send the "
        "values by a collective.",
        wrong={
            "Yes: DDP keeps the ranks in step with each other.": "DDP synchronizes gradients in `backward()`. Between "
            "two steps, ranks may be apart by as much as one step.",
            "Yes: `os.replace` makes it visible to all ranks.": "`os.replace` makes the file complete whenever it is "
            "visible. It doesn't make another process wait for it.",
            "No: only rank 0 may open a checkpoint file.": "Every rank has to load the state when it resumes. "
            "Reading is safe on all ranks, writing only on one.",
        },
        look_at="What a good solution has",
    ),
)
