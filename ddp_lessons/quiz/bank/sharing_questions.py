"""Lesson 6: which rank gets which samples."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="Two ranks shuffle all samples, each with its own seed. Rank 0 takes the first half of its order, rank 1 "
        "the second half of its own. How much of the data do they see?",
        right="About three quarters, and a third of these twice",
        letter="b",
        why="Each rank misses a sample with probability 1/2, so both miss it with probability 1/4. As many samples are "
        "in both halves. Lengths and numbers of steps are right, so nothing reports it.",
        wrong={
            "All of it, since two halves make a whole": "Two halves of the same order do. These are halves of two "
            "different orders, so they overlap and leave gaps.",
            "Half of it, since both see the same samples": "Then both would have to take the same half of one order. "
            "Two different orders share only about a quarter of the data.",
            "All of it in the long run, over many epochs": "The data is partitioned only once, so every epoch leaves "
            "out the same quarter.",
        },
        look_at="Shuffle with the same seed on all ranks",
    ),
    Question(
        text="Seven samples, three ranks. What does rank 2 return?",
        program=Program(
            """
def f(rank, world_size):
    return list(DistributedSampler(range(7), shuffle=False))
""",
            holds='str(results[2]) == right.strip("`")',
            ranks=3,
        ),
        right="`[2, 5, 1]`",
        letter="d",
        why="Every rank gets three samples. To make that possible, the sampler pads with samples from the start of the "
        "order, here 0 and 1.",
        wrong={
            "`[2, 5]`": "Then rank 0 would take one step more than the others and wait for them in its last "
            "collective. So the sampler pads.",
            "`[4, 5, 6]`": "That is one contiguous block. The sampler gives rank 2 every third sample, starting with "
            "number 2.",
            "`[2, 5, 6]`": "Sample 6 is the third one of rank 0. The sampler pads with samples from the start of the "
            "order.",
        },
        look_at="DistributedSampler: padding and drop_last",
    ),
    Question(
        text="A model is right on four of five samples and wrong on number 0. Two ranks measure its accuracy like "
        "this. What is the result?",
        program=Program(
            """
def f(rank, world_size):
    is_right = torch.tensor([0, 1, 1, 1, 1])
    mine = list(DistributedSampler(is_right, shuffle=False))
    counts = torch.tensor([is_right[mine].sum(), len(mine)])
    dist.all_reduce(counts)
    return counts.tolist()
""",
            holds='results[0] == [4, 6] and right.startswith("4 of 6")',
        ),
        right="4 of 6, although it is 4 of 5",
        letter="a",
        why="The sampler pads to six samples, so number 0 counts twice. The result changes with the world size. For "
        "validation, take every N-th sample instead.",
        wrong={
            "4 of 5, as one process finds": "Then one rank would have three samples and the other two. The sampler "
            "makes the lengths equal and repeats one sample.",
            "5 of 6, since one is padded": "Padding repeats a sample, here the one that the model gets wrong, so the "
            "total grows but the number of correct answers doesn't.",
            "8 of 10, as both ranks count all": "Each rank counts only its own samples, because the sampler does "
            "divide the data. The repeated sample is the problem.",
        },
        look_at="DistributedSampler: padding and drop_last",
    ),
    Question(
        text="The sampler shuffles, and no rank calls `sampler.set_epoch(epoch)`. What is different in epoch 5?",
        right="Nothing: each rank sees the samples of epoch 0, in that order.",
        letter="c",
        why="The sampler shuffles with its seed plus the epoch, and the epoch stays 0 until you set it.",
        wrong={
            "The order within a rank's partition, but not the partition.": "That is what a loader with `shuffle=True` "
            "does on a fixed partition. The sampler draws both from one order, which never changes here.",
            "The order, because the sampler counts how often it is used.": "It doesn't count, on purpose. A rank "
            "that iterates once more than the others would then use a different order.",
            "The ranks' orders no longer fit, so samples are seen twice.": "All ranks keep epoch 0, so their orders "
            "still fit together. But every epoch is the same.",
        },
        look_at="Call set_epoch before every epoch",
    ),
    Question(
        text="Four ranks train with `DataLoader(dataset, batch_size=32, shuffle=True)`, each on the whole dataset. How "
        "many steps does an epoch take, compared with one process and batches of 32?",
        right="As many steps as one process takes: nothing is gained.",
        letter="b",
        why="Every rank goes through all of the data, so each sample is computed four times in an epoch. The model "
        "still learns well, so it is easy to miss.",
        wrong={
            "A quarter of the steps: the loader divides the data.": "A loader knows nothing about ranks. It takes a "
            "partition or a `DistributedSampler` to divide the data.",
            "An error: `shuffle=True` is not allowed with ranks.": "It raises an error only together with a sampler. "
            "On a partition it is right, and shuffles within the partition.",
            "Four times the steps, which the ranks do in turn.": "The ranks work at the same time, not in turn. But "
            "each of them does all the work of one process.",
        },
        look_at="shuffle=True in a DataLoader",
    ),
    Question(
        text="All ranks call `torch.manual_seed(1)` at the start and never seed again. What is wrong?",
        right="All ranks use the same dropout masks in every step.",
        letter="d",
        why="So a global batch is only as random as one rank's part. The initial weights must be equal, the masks must "
        "not. Create the model, broadcast it, then seed by rank.",
        wrong={
            "Nothing: equal seeds keep the replicas equal, too.": "Replicas stay equal because they start equal and "
            "take equal steps. After the start, equal random numbers play no part in that.",
            "The initial weights are equal, so ranks learn the same.": "They have to be equal between ranks. Only "
            "what is random during training should differ.",
            "The samplers give the same samples to all of them.": "A `DistributedSampler` has its own seed, the same "
            "on all ranks. That is why the parts fit together.",
        },
        look_at="Seed each rank differently for dropout",
    ),
    Question(
        text="A training run with `F.nll_loss(model(x), labels)` logs a loss of -3.2. What do you conclude?",
        right="The network does not end in `log_softmax`.",
        letter="a",
        why="Log-probabilities are never above 0, so this loss is never below 0. `nll_loss` doesn't check its inputs, "
        "and growing outputs push it down without limit.",
        wrong={
            "The network has learned better than anyone expected.": "A loss of 0 would be perfect, and nothing is "
            "better than perfect. Below 0 there is a bug.",
            "The gradients were added up and not averaged.": "That makes the steps too large, but the loss itself is "
            "still computed correctly and stays above 0.",
            "The learning rate is too large, so it overshoots.": "Overshooting makes a loss rise. No step can bring a "
            "correct `nll_loss` below 0.",
        },
        look_at="Train on partitions",
    ),
)
